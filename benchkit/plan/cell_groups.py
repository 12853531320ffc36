"""Groups of cells for sliced blocks where the hosts have no room for all stacks at once, each with its baselines. Pure.

Two cells have a ratio if a block has both. So the cells of a ratio that the scenario asks for are in one group, and the
baselines of cells and of claims are in as many groups as need them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

from benchkit.models.run import CellRecord
from benchkit.plan.model import PlannedCell
from benchkit.scenario.experiment import Experiment
from benchkit.stats.cell_pairs import ComparedCells, baseline_pairs, requested_ratios, scenario_baseline


def compared_pairs(experiment: Experiment, cells: Sequence[PlannedCell]) -> list[ComparedCells]:
    """Return the comparisons that a scenario asks for: cells with their baselines, controls, and those of claims."""
    records = [
        CellRecord(cell_id=cell.cell_id, levels=cell.spec.levels, unsupported=cell.unsupported) for cell in cells
    ]
    scenario = experiment.document.data
    pairs, _ = baseline_pairs(records, scenario_baseline(scenario, records))
    claimed = [pair for _, pair, claim in requested_ratios(scenario, records, ()) if claim is not None]
    return list(dict.fromkeys((*pairs, *claimed)))


def baselines_of(pairs: Sequence[ComparedCells]) -> tuple[str, ...]:
    """Return the cells that others are compared with, controls excepted."""
    return tuple(dict.fromkeys(pair.baseline for pair in pairs if not pair.control))


def group_cells(
    cell_ids: Sequence[str], pairs: Sequence[ComparedCells], has_room: Callable[[Sequence[str]], bool]
) -> tuple[tuple[str, ...], ...] | None:
    """Return groups of cells in which every pair is together; None where the hosts have no room for one of them.

    Cells are put into the first group with room (first fit), in their order. A cell that is in no pair is put beside
    the first baseline.
    """

    def in_order(group: Collection[str]) -> list[str]:
        return [cell_id for cell_id in cell_ids if cell_id in group]

    groups: list[frozenset[str]] = []
    for unit in _units(cell_ids, pairs):
        place = next((i for i, group in enumerate(groups) if has_room(in_order(group | unit))), None)
        if place is not None:
            groups[place] |= unit
        elif has_room(in_order(unit)):
            groups.append(unit)
        else:
            return None
    return tuple(tuple(in_order(group)) for group in groups)


def _units(cell_ids: Sequence[str], pairs: Sequence[ComparedCells]) -> Iterator[frozenset[str]]:
    """Yield the smallest sets of cells that need each other: a cell, its control, and the baselines of both."""
    baselines = baselines_of(pairs)
    controls = {pair.baseline: pair.cell_id for pair in pairs if pair.control and pair.baseline not in baselines}
    for cell_id in cell_ids:
        if cell_id in controls.values():
            continue
        cells = {cell_id, controls.get(cell_id, cell_id)}
        needed = {pair.baseline for pair in pairs if pair.cell_id in cells} - cells
        if needed or cell_id not in baselines:
            yield frozenset(cells | (needed or set(baselines[:1])))
