"""The interface of a diagnosis; `benchkit.comparison.diagnoses.registry` lists all diagnoses.

A diagnosis compares the evidence of a cell with another cell's, and yields symptoms of the first. It says nothing where
evidence is missing or weak. A symptom of both cells explains no difference between them: only a symptom of one cell
alone becomes a cause. A diagnosis never changes a verdict or a ratio.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from benchkit.comparison.diagnoses.evidence import CellEvidence
from benchkit.models.base import Frozen
from benchkit.stats.cell_pairs import ComparedCells


class Symptom(Frozen):
    """Observation of a diagnosis in a cell: clauses after the name of the cell, with figures in `evidence`."""

    service: str | None = None
    """Service that it is about; None: the cell as a whole."""
    text: str
    """Cause as a predicate: `opens a connection to its upstream for nearly every request`."""
    evidence: str
    """Figures that show it, as a clause."""
    next_step: str
    """Next step, as a sentence."""


@dataclass(frozen=True)
class Diagnosis:
    """One known cause, and the function that sees it in a cell beside another."""

    code: str
    find: Callable[[CellEvidence, CellEvidence], Iterator[Symptom]] = field(repr=False)


class Cause(Frozen):
    """A symptom that one of two compared cells has alone: `subject_id` is that cell."""

    cell_id: str
    baseline_id: str
    subject_id: str
    code: str
    symptom: Symptom

    def is_of(self, pair: ComparedCells) -> bool:
        """Return True for a cause of the difference between these cells."""
        return (self.cell_id, self.baseline_id) == (pair.cell_id, pair.baseline)
