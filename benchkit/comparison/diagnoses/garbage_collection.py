"""Diagnosis garbage-collection: it uses more than a fifth of the CPU time of a server."""

from __future__ import annotations

from collections.abc import Iterator

from benchkit import units
from benchkit.comparison.diagnoses.diagnosis import Diagnosis, Symptom
from benchkit.comparison.diagnoses.evidence import CellEvidence, mean, stands_out

LEAST = 0.2
"""Share of a server's CPU time from which on garbage collection is a symptom."""


def _share(cell: CellEvidence, name: str) -> tuple[float | None, str]:
    """Return the share of a service's CPU time that garbage collection uses, and the source of the figure."""
    share = mean(cell.share_of("gc", name))
    if share is not None:
        return share, "by its profile"
    counted = (mean(cell.per_second(each, name)) for each in ("gc_cpu_s_total", "gc_pause_s_total"))
    collecting = next((each for each in counted if each is not None), None)  # Node states its pauses
    used = mean(cell.per_second("cpu_s_total", name))
    return (collecting / used if collecting is not None and used else None), "by its runtime"


def _find(cell: CellEvidence, other: CellEvidence) -> Iterator[Symptom]:
    others = max((_share(other, name)[0] or 0.0 for name in other.services), default=0.0)
    for name in cell.services:
        share, source = _share(cell, name)
        if share is not None and stands_out(share, others, LEAST):
            size = mean(cell.per_request("allocated_bytes_total", name))
            allocated = f"; {units.size(size)} allocated per request" if size is not None else ""
            yield Symptom(
                service=name,
                text="collects garbage for much of its CPU time",
                evidence=f"{units.share(share)} of its CPU time {source}{allocated}",
                next_step="Allocate less for each request, reuse buffers, or raise GOGC.",
            )


DIAGNOSIS = Diagnosis("garbage-collection", _find)
