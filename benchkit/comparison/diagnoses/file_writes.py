"""Diagnosis file-writes: each request writes to a file on a disk, as an access log does."""

from __future__ import annotations

from collections.abc import Iterator

from benchkit import units
from benchkit.comparison.diagnoses.diagnosis import Diagnosis, Symptom
from benchkit.comparison.diagnoses.evidence import CellEvidence, mean, stands_out

LEAST_BYTES = 16.0
"""Bytes for each request: the shortest lines of access logs have more."""


def _find(cell: CellEvidence, other: CellEvidence) -> Iterator[Symptom]:
    others = mean(other.per_request("storage_written_bytes_total"))
    for name in cell.services:
        written = mean(cell.per_request("storage_written_bytes_total", name))
        if written is not None and stands_out(written, others, LEAST_BYTES):
            yield Symptom(
                service=name,
                text="writes to a file for each request",
                evidence=f"{units.size(written)} per request",
                next_step="Turn its access log off or buffer it (nginx: `access_log off`, or `buffer=64k`).",
            )


DIAGNOSIS = Diagnosis("file-writes", _find)
