"""Pairs of cells to compare, from levels as typed on the command line and in scenarios."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchkit.errors import InputError, suggestion
from benchkit.models.base import LevelTexts, cell_id, level_texts
from benchkit.models.claims import CellPair, claims_of
from benchkit.models.design import controlled
from benchkit.models.metrics import METRICS
from benchkit.models.run import CellRecord


@dataclass(frozen=True)
class ComparedCells:
    """A comparison of `cell_id` with `baseline`; with `control` both are the same cell under two names."""

    cell_id: str
    baseline: str
    control: bool = False


def cell_in_run(run_id: str, cell_id: str) -> str:
    """Return the id of a cell in a comparison of two runs."""
    return f"{run_id}/{cell_id}"


def between_runs(cell_id: str, before: str, after: str) -> ComparedCells:
    """Return the comparison of a cell of run `after` with the same cell of run `before`."""
    return ComparedCells(cell_in_run(after, cell_id), cell_in_run(before, cell_id))


def levels_of(text: str, cells: Sequence[CellRecord]) -> LevelTexts:
    """Return the levels in a text such as `stack=go`, or of a cell id. Raises InputError if no cell has them."""
    for cell in cells:
        if cell.cell_id == text and controlled(text) is None:
            return level_texts(cell.levels)
    levels: dict[str, str] = {}
    for part in text.split(","):
        factor, equals, level = part.strip().partition("=")
        if not equals:
            raise InputError(f"no cell {text!r}", why=suggestion(text, [cell.cell_id for cell in cells]))
        levels[factor] = level
    check_levels(levels, cells)
    return levels


def check_levels(levels: LevelTexts, cells: Sequence[CellRecord]) -> None:
    """Raise InputError if no cell has these levels, naming the wrong factor or level."""
    known: dict[str, list[str]] = {}
    for cell in cells:
        for factor, level in level_texts(cell.levels).items():
            known.setdefault(factor, []).append(level)
    for factor, level in levels.items():
        if factor not in known:
            raise InputError(f"no factor {factor!r}", why=suggestion(factor, known))
        if level not in known[factor]:
            raise InputError(f"no level {level!r} of {factor}", why=suggestion(level, dict.fromkeys(known[factor])))
    if not cells_with_levels(levels, cells):
        raise InputError(f"no cell has {cell_id(levels)}")


def cells_with_levels(levels: LevelTexts, cells: Sequence[CellRecord]) -> list[CellRecord]:
    """Return the cells that have these levels, without controls."""
    return [
        cell
        for cell in cells
        if controlled(cell.cell_id) is None and levels.items() <= level_texts(cell.levels).items()
    ]


def partner_finder(levels: LevelTexts, cells: Sequence[CellRecord]) -> Callable[[CellRecord], CellRecord | None]:
    """Return a function from a cell to the cell that differs only in these levels, else the only cell with them."""
    by_levels = {frozenset(level_texts(cell.levels).items()): cell for cell in cells_with_levels(levels, cells)}
    only = next(iter(by_levels.values())) if len(by_levels) == 1 else None
    return lambda cell: by_levels.get(frozenset({**level_texts(cell.levels), **levels}.items()), only)


def baseline_pairs(cells: Sequence[CellRecord], baseline: LevelTexts) -> tuple[list[ComparedCells], list[str]]:
    """Return comparisons of cells with their baselines and of controls with their cells, and cells without a baseline.

    If the baseline names some factors (`stack=go`), a cell's baseline is the cell that differs from it only in these.
    Unsupported cells are skipped.
    """
    partner = partner_finder(baseline, cells)
    pairs: list[ComparedCells] = []
    alone: list[str] = []
    for cell in cells:
        if cell.unsupported is not None:
            continue
        original = controlled(cell.cell_id)
        if original is not None:
            pairs.append(ComparedCells(cell.cell_id, original, control=True))
            continue
        base = partner(cell)
        if base is None or base.unsupported is not None:
            alone.append(cell.cell_id)
        elif base.cell_id != cell.cell_id:
            pairs.append(ComparedCells(cell.cell_id, base.cell_id))
    return pairs, alone


def compared_with_baseline(scenario: Mapping[str, Any], cells: Sequence[CellRecord]) -> list[ComparedCells]:
    """Return the comparisons of cells with the baseline that the scenario names, without controls."""
    pairs, _ = baseline_pairs(cells, scenario_baseline(scenario, cells))
    return [pair for pair in pairs if not pair.control]


def claim_pairs(ratio: CellPair, cells: Sequence[CellRecord]) -> list[ComparedCells]:
    """Return the comparisons of a claim. Raises InputError if the run has no such cells."""
    of, to = level_texts(ratio.of), level_texts(ratio.to)
    for levels in (of, to):
        check_levels(levels, cells)
    partner = partner_finder(to, cells)
    pairs = []
    for cell in cells_with_levels(of, cells):
        base = partner(cell)
        if base is not None and base.cell_id != cell.cell_id:
            pairs.append(ComparedCells(cell.cell_id, base.cell_id))
    if not pairs:
        raise InputError(f"no two cells differ as {of} and {to} do")
    return pairs


def requested_ratios(
    scenario: Mapping[str, Any], cells: Sequence[CellRecord], metrics: Iterable[str]
) -> Iterator[tuple[str, ComparedCells, str | None]]:
    """Yield the ratios of a stored scenario: metric, comparison, and the text of a claim or None.

    Cells are compared with their baseline in each of `metrics`, and claims in their own metric. Unsupported cells,
    controls, and claims on profiles, on ratios of ratios or on absent cells are skipped.
    """
    pairs, _ = baseline_pairs(cells, scenario_baseline(scenario, cells))
    for metric in metrics:
        yield from ((metric, pair, None) for pair in pairs if not pair.control)
    supported = {cell.cell_id for cell in cells if cell.unsupported is None}
    for claim in claims_of(scenario):
        if claim.metric not in METRICS or claim.relative_to is not None:
            continue
        try:
            claimed = claim_pairs(claim.ratio, cells)
        except InputError:
            continue  # this run lacks its cells
        yield from ((claim.metric, pair, claim.text) for pair in claimed if {pair.cell_id, pair.baseline} <= supported)


def scenario_baseline(scenario: Mapping[str, Any], cells: Sequence[CellRecord]) -> LevelTexts:
    """Return the baseline that the scenario names, else the levels of its first supported cell."""
    given = scenario.get("baseline")
    if isinstance(given, Mapping) and cells_with_levels(level_texts(given), cells):
        return level_texts(given)
    first = next((cell for cell in cells if cell.unsupported is None), cells[0])
    return level_texts(first.levels)
