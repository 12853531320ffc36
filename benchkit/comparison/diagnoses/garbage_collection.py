"""Diagnosis garbage-collection: it uses more than a fifth of the CPU time of a server."""

from __future__ import annotations

from collections.abc import Iterator

from benchkit import units
from benchkit.comparison.diagnoses.diagnosis import Diagnosis, Symptom
from benchkit.comparison.diagnoses.evidence import CellEvidence, mean

LEAST = 0.2
"""Share of the CPU time of a server."""


def _find(cell: CellEvidence, _other: CellEvidence) -> Iterator[Symptom]:
    for name in cell.services:
        share, source = mean(cell.share_of("gc", name)), "by its profile"
        if share is None:
            counted = (mean(cell.per_second(each, name)) for each in ("gc_cpu_s_total", "gc_pause_s_total"))
            collecting = next((each for each in counted if each is not None), None)  # Node states its pauses
            used = mean(cell.per_second("cpu_s_total", name))
            share, source = (collecting / used if collecting is not None and used else None), "by its runtime"
        if share is not None and share >= LEAST:
            size = mean(cell.per_request("allocated_bytes_total", name))
            allocated = f"; {units.size(size)} allocated per request" if size is not None else ""
            yield Symptom(
                service=name,
                text="collects garbage for much of its CPU time",
                evidence=f"{units.share(share)} of its CPU time {source}{allocated}",
                next_step="Allocate less for each request, reuse buffers, or raise GOGC.",
            )


DIAGNOSIS = Diagnosis("garbage-collection", _find)
