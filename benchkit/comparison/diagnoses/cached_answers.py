"""Diagnosis cached-answers: most answers never come from the server behind."""

from __future__ import annotations

from collections.abc import Iterator

from benchkit import units
from benchkit.comparison.diagnoses.diagnosis import Diagnosis, Symptom
from benchkit.comparison.diagnoses.evidence import MARGIN, CellEvidence, mean

MOST = 0.5
"""Requests to all servers behind, per request of the load, below which most answers come from elsewhere."""


def _passed_on(cell: CellEvidence) -> dict[str, float]:
    """Return the requests to each server behind per request of the load, where they are known."""
    found = {name: mean(cell.per_request("requests_total", name)) for name in cell.services if name != cell.entry}
    return {name: share for name, share in found.items() if share is not None}


def _find(cell: CellEvidence, other: CellEvidence) -> Iterator[Symptom]:
    passed_on, others = _passed_on(cell), _passed_on(other)
    share = sum(passed_on.values())
    if passed_on and share <= MOST and MARGIN * share < (sum(others.values()) if others else 1.0):
        names = " and ".join(passed_on)
        yield Symptom(
            service=cell.entry,
            text=f"answers without {names}, as a cache does",
            evidence=f"{units.share(share)} of the requests reached {names}",
            next_step="Turn the cache off to compare the servers, or name it where you state the result.",
        )


DIAGNOSIS = Diagnosis("cached-answers", _find)
