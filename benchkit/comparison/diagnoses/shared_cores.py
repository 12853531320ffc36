"""Diagnosis shared-cores: servers and load run on hardware threads of the same cores (SMT), and slow each other."""

from __future__ import annotations

from collections.abc import Iterator

from benchkit.comparison.diagnoses.diagnosis import Diagnosis, Symptom
from benchkit.comparison.diagnoses.evidence import CellEvidence


def _find(cell: CellEvidence, _other: CellEvidence) -> Iterator[Symptom]:
    machines = {host.name: host.facts.boot_id or host.name for host in cell.tables.run.manifest.hosts}
    used = {(machines.get(each.host, each.host), cpu) for r in cell.records for each in r.services for cpu in each.cpus}
    loaded = {
        (machines.get(each.host, each.host), cpu) for r in cell.records for each in r.generators for cpu in each.cpus
    }
    cores = {(machines[host.name], cpus) for host in cell.host_records for cpus in host.facts.shared_cores}
    shared = [
        cpus
        for machine, cpus in sorted(cores)
        if (own := {cpu for cpu in cpus if (machine, cpu) in used})
        and {cpu for cpu in cpus if (machine, cpu) in loaded} - own
    ]
    if shared:
        yield Symptom(
            text="shares cores with its load (hardware threads of SMT)",
            evidence="; ".join(f"CPUs {' and '.join(map(str, cpus))} are one core" for cpus in shared),
            next_step="Give servers and load CPUs of different cores, or other hosts.",
        )


DIAGNOSIS = Diagnosis("shared-cores", _find)
