"""Diagnosis one-busy: one worker, or one thread, does all the work while others could."""

from __future__ import annotations

from collections.abc import Iterator

from benchkit import units
from benchkit.comparison.diagnoses.diagnosis import Diagnosis, Symptom
from benchkit.comparison.diagnoses.evidence import MARGIN, CellEvidence, mean

MOST = 0.8
"""Share of the workers' CPU time that one of them uses alone."""
FULL = (0.9, 1.05)
"""CPU cores that a service uses if one thread is busy all the time and the others are idle."""
MORE = 1.3
"""Ratio of the cores that the other cell uses, from which on one thread is a limit."""


def _find(cell: CellEvidence, other: CellEvidence) -> Iterator[Symptom]:
    most = max((each.busiest / each.workers for each in other.workers), default=0.0)
    for each in cell.workers:
        share = each.busiest / each.workers
        several = [record.parallelism != 1 for record in cell.service_records(each.service)]
        is_uneven = share >= MOST and MARGIN * (1 - share) < 1 - most
        if is_uneven and several and all(several):  # nginx with one worker has a process for its cache, too
            yield Symptom(
                service=each.service,
                text="leaves the work to one of its workers",
                evidence=f"one of {each.workers} workers used {units.share(share)} of their CPU time",
                next_step="Let workers share connections: `reuseport`, or `accept_mutex off` with more connections.",
            )
    used, others = mean(cell.cores_used), mean(other.cores_used)
    for name in cell.services:
        of_service = mean(cell.per_second("cpu_s_total", name))
        allowed = min((len(each.cpus) for each in cell.service_records(name)), default=1)
        if of_service is None or used is None or others is None or allowed <= 1:
            continue
        if FULL[0] <= of_service <= FULL[1] and others >= MORE * used:
            yield Symptom(
                service=name,
                text="works on one thread",
                evidence=f"it used {units.ratio(of_service)} of {allowed} CPUs, and the other cell {units.ratio(others)}",
                next_step="Start as many workers as it has CPUs.",
            )


DIAGNOSIS = Diagnosis("one-busy", _find)
