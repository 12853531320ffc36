"""Remarks on ratios that follow from the record of their cells: servers that were not watched, and equal servers."""

from __future__ import annotations

from collections.abc import Iterable

from benchkit.analysis.ratio import Ratio
from benchkit.models.run import CellRecord

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
