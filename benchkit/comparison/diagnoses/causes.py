"""Causes of the differences of a run: the symptoms that one of two compared cells has alone."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

from benchkit.comparison.diagnoses.evidence import CellEvidence, Diagnosis, DiagnosisTables, Symptom
from benchkit.comparison.diagnoses.rules import DIAGNOSES
from benchkit.comparison.runs.run_data import RunData
from benchkit.models.base import Frozen
from benchkit.registry import describe_failure
from benchkit.stats.cell_pairs import ComparedCells, between_runs, compared_with_baseline

logger = logging.getLogger(__name__)

GENERAL = ("waits", "context-switches")
"""General diagnoses, each of which is omitted after another diagnosis of the same cell."""


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


def causes_of(run: RunData, pairs: Sequence[ComparedCells] | None = None) -> tuple[Cause, ...]:
    """Return the causes of the differences between pairs of cells, by default between each cell and its baseline.

    Equal symptoms on both sides are no cause. There is none if only the trials of the run were read.
    """
    if run.table is None:
        return ()
    cells, tables = run.manifest.cells, DiagnosisTables(run)
    pairs = compared_with_baseline(run.manifest.scenario, cells) if pairs is None else pairs
    evidence = {cell.cell_id: CellEvidence(cell, tables) for cell in cells}
    return tuple(
        cause for pair in pairs for cause in _causes_of_pair(pair, evidence[pair.cell_id], evidence[pair.baseline])
    )


def causes_between_runs(
    before: RunData, after: RunData, cells: Sequence[str], reference: str | None = None
) -> tuple[Cause, ...]:
    """Return the causes of the differences of cells between two runs; ids are those of `between_runs`.

    A cause that a `reference` cell has as well cancels out of a ratio to it, and is omitted.
    """
    if before.table is None or after.table is None:
        return ()
    ids = before.manifest.run_id, after.manifest.run_id
    sides = [
        {cell.cell_id: CellEvidence(cell, tables) for cell in tables.run.manifest.cells}
        for tables in (DiagnosisTables(after), DiagnosisTables(before))
    ]
    found = {
        cell_id: list(_causes_of_pair(between_runs(cell_id, *ids), *(side[cell_id] for side in sides)))
        for cell_id in (*cells, *([reference] if reference else []))
        if all(cell_id in side for side in sides)
    }
    shared = {each.code for each in found.get(reference or "", ())}
    return tuple(each for cell_id in cells for each in found.get(cell_id, ()) if each.code not in shared)


def _symptoms(diagnosis: Diagnosis, cell: CellEvidence, other: CellEvidence) -> list[Symptom]:
    """Return the symptoms that a diagnosis finds in a cell; that of a plugin may fail, which is logged."""
    try:
        found = list(diagnosis.find(cell, other))
    except Exception as error:
        plugin = DIAGNOSES.plugin(diagnosis.code)
        if plugin is None:
            raise
        logger.warning("diagnosis %s of %s failed: %s", plugin.name, plugin.package, describe_failure(error))
        return []
    return [
        each.model_copy(
            update={"text": each.text or diagnosis.text, "next_step": each.next_step or diagnosis.next_step}
        )
        for each in found
    ]


def _causes_of_pair(pair: ComparedCells, cell: CellEvidence, baseline: CellEvidence) -> Iterator[Cause]:
    if cell.trials.empty or baseline.trials.empty:
        return
    found: list[Cause] = []
    for diagnosis in DIAGNOSES.values():
        own, theirs = (_symptoms(diagnosis, *sides) for sides in ((cell, baseline), (baseline, cell)))
        if bool(own) == bool(theirs):
            continue
        subject = pair.cell_id if own else pair.baseline
        found += [
            Cause(
                cell_id=pair.cell_id,
                baseline_id=pair.baseline,
                subject_id=subject,
                code=diagnosis.code,
                symptom=symptom,
            )
            for symptom in own or theirs
        ]
    explained: dict[str, str] = {}
    for each in found:
        if each.code not in GENERAL or explained.setdefault(each.subject_id, each.code) == each.code:
            explained.setdefault(each.subject_id, each.code)
            yield each
