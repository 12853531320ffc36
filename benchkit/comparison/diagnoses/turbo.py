"""Diagnosis turbo: clock rates may rise above their base, which depends on heat and on how many cores are busy."""

from __future__ import annotations

from collections.abc import Iterator

from benchkit.comparison.diagnoses.diagnosis import Diagnosis, Symptom
from benchkit.comparison.diagnoses.evidence import CellEvidence


def _find(cell: CellEvidence, other: CellEvidence) -> Iterator[Symptom]:
    hosts = [host.name for host in cell.host_records if host.facts.turbo]
    fixed = [host.name for host in other.host_records if host.facts.turbo is False]
    if hosts and fixed:
        yield Symptom(
            text="runs with turbo on",
            evidence=f"cores of {' and '.join(hosts)} may exceed their base clock rate, those of {' and '.join(fixed)} not",
            next_step="Turn turbo off on all hosts: `intel_pstate/no_turbo` or `cpufreq/boost` below /sys/devices/system/cpu.",
        )


DIAGNOSIS = Diagnosis("turbo", _find)
