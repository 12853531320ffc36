"""Remarks on ratios that follow from the record of their cells: servers that were not watched, and equal servers."""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

from benchkit.comparison.ratio import Ratio
from benchkit.judge.fairness import answers_by_cell, mismatch_remarks, response_mismatches, with_declared_reasons
from benchkit.models.run import CellRecord, Manifest
from benchkit.stats.samples import is_comparable

UNWATCHED = "unwatched: {cell} uses an external server, which was neither started afresh nor watched"

SAME_SERVER = "A/A: both cells have the same server, byte for byte, so any difference is noise"


def with_cell_remarks(ratios: Iterable[Ratio], cells: Iterable[CellRecord]) -> list[Ratio]:
    """Return ratios with remarks about their cells, which are those of one run, or of two runs that are compared."""
    by_id = {cell.cell_id: cell for cell in sorted(cells, key=lambda cell: bool(cell.external))}
    return [_with_remarks(ratio, by_id) for ratio in ratios]


def _with_remarks(ratio: Ratio, cells: dict[str, CellRecord]) -> Ratio:
    names = dict.fromkeys((ratio.cell_id, ratio.baseline, *([ratio.relative_to] if ratio.relative_to else [])))
    unwatched = [UNWATCHED.format(cell=name) for name in names if name in cells and cells[name].external]
    own = [cells[name] for name in dict.fromkeys((ratio.cell_id, ratio.baseline)) if name in cells]
    first = {cell.same_as or cell.cell_id for cell in own}
    if len(own) == len(first):
        return ratio.with_remarks(unwatched)
    return ratio.with_remarks([SAME_SERVER, *unwatched], unwatched).model_copy(update={"same_server": True})


def with_response_remarks(ratios: Iterable[Ratio], trials: pd.DataFrame, manifest: Manifest) -> list[Ratio]:
    """Return the ratios within a run with remarks about the answers of their cells."""
    return with_response_remarks_between(ratios, trials, trials, manifest)


def with_response_remarks_between(
    ratios: Iterable[Ratio], before: pd.DataFrame, after: pd.DataFrame, manifest: Manifest
) -> list[Ratio]:
    """Return the ratios of the same cells in two runs likewise; `manifest` is that of the second run."""
    sides = [trials[is_comparable(trials)] for trials in (before, after)]
    answers_before, answers_after = map(answers_by_cell, sides)
    annotated = []
    for ratio in ratios:
        found = response_mismatches(ratio.cell_id, ratio.baseline, answers_after, answers_before)
        if found and ratio.exclusions:
            excluded = [trial.trial_id for trial in ratio.exclusions]
            remaining = [answers_by_cell(side[~side["trial_id"].isin(excluded)]) for side in reversed(sides)]
            if ratio.cell_id in remaining[0] and ratio.baseline in remaining[1]:
                found = response_mismatches(ratio.cell_id, ratio.baseline, *remaining)
        found = with_declared_reasons(found, manifest)
        doubtful = [each for each in found if each.casts_doubt]
        annotated.append(ratio.with_remarks(mismatch_remarks(found), mismatch_remarks(doubtful)) if found else ratio)
    return annotated
