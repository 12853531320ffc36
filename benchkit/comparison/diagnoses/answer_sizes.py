"""Diagnosis answer-sizes: answers of one cell are compressed, or of another size."""

from __future__ import annotations

from collections.abc import Iterator

from benchkit import units
from benchkit.comparison.diagnoses.diagnosis import Diagnosis, Symptom
from benchkit.comparison.diagnoses.evidence import CellEvidence, mean

TIMES = 1.25
"""Ratio of the sizes, headers included, that is a symptom: header fields alone make short answers differ by less."""
LEAST_BYTES = 256
"""Difference of the sizes that is a symptom: transferring fewer bytes costs nothing measurable."""


def _find(cell: CellEvidence, other: CellEvidence) -> Iterator[Symptom]:
    own, theirs = mean(cell.bytes_per_request), mean(other.bytes_per_request)
    if own is None or theirs is None or abs(own - theirs) < LEAST_BYTES or max(own, theirs) < TIMES * min(own, theirs):
        return
    encodings = _encodings(cell)
    sizes = f"{units.size(own)} an answer against {units.size(theirs)}"
    if encodings:
        named = " and ".join(sorted(encodings))
        step = "Compare with the same encoding, or state the CPU time that compression takes."
        yield Symptom(service=cell.entry, text=f"compresses its answers ({named})", evidence=sizes, next_step=step)
    elif own > theirs and not _encodings(other):
        step = "Let both servers send the same answer."
        yield Symptom(service=cell.entry, text="sends larger answers", evidence=sizes, next_step=step)


def _encodings(cell: CellEvidence) -> set[str]:
    return {
        value.strip().lower()
        for record in cell.records
        for probe in record.probes
        for name, value in probe.headers
        if name.lower() == "content-encoding"
    }


DIAGNOSIS = Diagnosis("answer-sizes", _find)
