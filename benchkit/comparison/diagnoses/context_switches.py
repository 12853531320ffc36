"""Diagnosis context-switches: several times as many for each request as the other cell."""

from __future__ import annotations

from collections.abc import Iterator

from benchkit.comparison.diagnoses.diagnosis import Diagnosis, Symptom
from benchkit.comparison.diagnoses.evidence import CellEvidence, all_above

TIMES = 3.0
"""Ratio of the switches for each request; their number varies with the load on a core."""
OF_CPU_TIME = 2.0
"""Ratio of the switches for each second of CPU time: longer work is interrupted more often, which is no cause."""
LEAST = {"voluntary_switches_total": 0.5, "involuntary_switches_total": 1.0}
"""Switches for each request: one costs about a microsecond. Busy neighbours alone force some."""
KINDS = {"voluntary_switches_total": "voluntary", "involuntary_switches_total": "involuntary"}


def _find(cell: CellEvidence, other: CellEvidence) -> Iterator[Symptom]:
    for metric, kind in KINDS.items():
        own, theirs = cell.per_request(metric), other.per_request(metric)
        rates = [each.per_second(metric).sum() / max(each.cores_used.sum(), 1e-9) for each in (cell, other)]
        if all_above(own, theirs, TIMES) and own.mean() >= LEAST[metric] and rates[0] >= OF_CPU_TIME * rates[1]:
            yield Symptom(
                text=f"switches threads often ({kind} context switches)",
                evidence=f"{own.mean():.2f} per request against {theirs.mean():.2f}",
                next_step="`benchkit run --trace` shows what its threads wait for; fewer threads or larger batches help.",
            )


DIAGNOSIS = Diagnosis("context-switches", _find)
