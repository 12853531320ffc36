"""Diagnosis lock-waits: requests wait for a lock that another request holds."""

from __future__ import annotations

from collections.abc import Iterator

from benchkit import units
from benchkit.comparison.diagnoses.diagnosis import Diagnosis, Symptom
from benchkit.comparison.diagnoses.evidence import CellEvidence, mean, stands_out

LEAST = 1.0
"""Goroutines that wait for a lock at any time, as a mean."""


def _find(cell: CellEvidence, other: CellEvidence) -> Iterator[Symptom]:
    others = mean(other.per_second("mutex_wait_s_total"))
    for name in cell.services:
        waiting = mean(cell.per_second("mutex_wait_s_total", name))
        if waiting is not None and stands_out(waiting, others, LEAST):
            wait = mean(cell.per_request("mutex_wait_s_total", name)) or 0.0
            yield Symptom(
                service=name,
                text="waits for a lock",
                evidence=f"{units.seconds(wait)} for each request; {waiting:.1f} goroutines wait at any time",
                next_step="Hold the lock for less time, or divide what it protects; Go's mutex profile names it.",
            )


DIAGNOSIS = Diagnosis("lock-waits", _find)
