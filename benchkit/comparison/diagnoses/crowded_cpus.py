"""Diagnosis crowded-cpus: more busy processes than CPUs."""

from __future__ import annotations

from collections.abc import Iterator

from benchkit import units
from benchkit.comparison.diagnoses.diagnosis import Diagnosis, Symptom
from benchkit.comparison.diagnoses.evidence import CellEvidence, stands_out

TIMES = 3.0
"""Workers for each CPU from which on they take turns all the time."""


def _find(cell: CellEvidence, other: CellEvidence) -> Iterator[Symptom]:
    others = max((each.workers - each.idle for each in other.workers), default=0.0)
    for each in cell.workers:
        cpus = max((len(record.cpus) for record in cell.service_records(each.service)), default=0)
        busy = each.workers - each.idle
        if cpus and busy > 1 and stands_out(busy, others, TIMES * cpus):
            yield Symptom(
                service=each.service,
                text="has more busy workers than CPUs",
                evidence=f"{busy:.0f} workers on {units.counted(cpus, 'CPU')}",
                next_step="Start one worker for each CPU.",
            )


DIAGNOSIS = Diagnosis("crowded-cpus", _find)
