"""Diagnosis cached-answers: most answers never come from the server behind."""

from __future__ import annotations

from collections.abc import Iterator

from benchkit import units
from benchkit.comparison.diagnoses.diagnosis import Diagnosis, Symptom
from benchkit.comparison.diagnoses.evidence import CellEvidence, mean

MOST = 0.5
"""Requests of the server behind, for each one of the load, below which most answers come from elsewhere."""


def _find(cell: CellEvidence, _other: CellEvidence) -> Iterator[Symptom]:
    for name in cell.services:
        passed_on = mean(cell.per_request("requests_total", name))
        if name != cell.entry and passed_on is not None and passed_on <= MOST:
            yield Symptom(
                service=cell.entry,
                text=f"answers without {name}, as a cache does",
                evidence=f"{units.share(passed_on)} of the requests reached {name}",
                next_step="Turn the cache off to compare the servers, or name it where you state the result.",
            )


DIAGNOSIS = Diagnosis("cached-answers", _find)
