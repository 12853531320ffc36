"""The design that a run takes on its hosts: the one of the scenario, or another where these hosts or cells need it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from benchkit.loadtools.registry import get_tool
from benchkit.models.design import Design
from benchkit.models.run import CellRecord
from benchkit.plan.host_capabilities import HostCapabilities
from benchkit.plan.model import PlannedCell
from benchkit.plan.side_by_side import Placement, why_not_sliced
from benchkit.scenario.experiment import Experiment
from benchkit.scenario.trial_order import CELLS_OF_ABBA
from benchkit.stats.cell_pairs import ComparedCells, baseline_pairs, requested_ratios, scenario_baseline
from benchkit.units import counted

NOTABLE_SHARE = 0.01
"""Share of a slice for opening connections from which the plan states it."""

SEQUENTIAL = (
    "The design is sequential: drift from one cell's trials to the next cell's is part of their ratios, and mostly not "
    "covered by the intervals."
)


@dataclass(frozen=True)
class PlannedDesign:
    """The design of a run, with its cells as this design runs them."""

    design: Design
    why: str
    """Reason for this design, as a clause."""
    cells: tuple[PlannedCell, ...]
    notes: tuple[str, ...] = ()
    groups: tuple[tuple[str, ...], ...] = ()
    """Cells of each block in turn; empty: every block has all cells."""


def plan_design(
    experiment: Experiment,
    cells: Sequence[PlannedCell],
    roles: Mapping[str, tuple[str, ...]],
    capabilities: Mapping[str, HostCapabilities],
) -> PlannedDesign:
    """Return the design of a run of these cells, control cells included."""
    wanted, cells = experiment.scenario.design, tuple(cells)
    supported = sum(cell.unsupported is None for cell in cells)
    match wanted:
        case "sliced":
            return _plan_sliced(experiment, cells, roles, capabilities)
        case "abba" if supported != CELLS_OF_ABBA:
            note = "ABBA needs two cells, and these hosts do not support both: the other cell runs alone."
            return PlannedDesign("blocks", "ABBA needs two cells", cells, (note,))
        case "sequential":
            return PlannedDesign(wanted, "the scenario asks for it", cells, (SEQUENTIAL,))
    return PlannedDesign(wanted, "the scenario asks for it", cells)


def _plan_sliced(
    experiment: Experiment,
    cells: tuple[PlannedCell, ...],
    roles: Mapping[str, tuple[str, ...]],
    capabilities: Mapping[str, HostCapabilities],
) -> PlannedDesign:
    supported = [cell for cell in cells if cell.unsupported is None]
    cell_ids = [cell.cell_id for cell in supported]
    turns = f"load in turns of {experiment.scenario.slice_s:g} s"
    if (why_not := why_not_sliced(experiment, supported)) is not None:
        return _blocks_instead(cells, why_not)
    connecting = tuple(_connecting_notes(supported, experiment.scenario.slice_s))
    placement = Placement(experiment, supported, roles, capabilities)
    placed = placement.place(cell_ids)
    if (no_room := placement.why_not(placed)) is None:
        side_by_side = f"the stacks of {counted(len(placed), 'cell')} side by side, {turns}"
        return PlannedDesign("sliced", side_by_side, _replaced(cells, placed), connecting)

    pairs = compared_pairs(experiment, cells)
    baselines = {cell.cell_id: cell for cell in placement.place(baselines_of(pairs))}

    def place_group(group: Sequence[str]) -> tuple[PlannedCell, ...]:
        beside = [baselines[cell_id] for cell_id in group if cell_id in baselines]
        return (*beside, *placement.place([each for each in group if each not in baselines], beside))

    groups = group_cells(cell_ids, pairs, lambda group: placement.why_not(place_group(group)) is None)
    if groups is None:
        return _blocks_instead(cells, no_room)
    number = counted(len(groups), "group")
    why = f"the stacks of a group of cells side by side, {turns}; {number}, because {no_room}"
    note = (
        f"The cells run in {number}, each with its baseline, because {no_room}. A block has the cells of one group; "
        "cells of different groups are compared with the baseline, not with each other."
    )
    grouped = [cell for group in groups for cell in place_group(group)]
    return PlannedDesign("sliced", why, _replaced(cells, grouped), (note, *connecting), groups)


def _connecting_notes(cells: Sequence[PlannedCell], slice_s: float) -> Iterator[str]:
    """Yield for each tool that cannot connect before a slice the share of the slice that it connects for."""
    shares: dict[str, float] = {}
    for cell in cells:
        tool = cell.load.tool
        if cell.load.keepalive and get_tool(tool).lead is None:
            shares[tool] = max(shares.get(tool, 0.0), cell.connect_s / slice_s)
    for tool, share in shares.items():
        if share >= NOTABLE_SHARE:
            yield (
                f"{tool} opens its connections within the measured time: for about {share:.0%} of a slice of {slice_s:g} s. "
                "h2load and openloop open them before."
            )


def _blocks_instead(cells: tuple[PlannedCell, ...], why_not: str) -> PlannedDesign:
    why = f"not sliced, because {why_not}"
    return PlannedDesign("blocks", why, cells, (f"The design is blocks, {why}.",))


def _replaced(cells: Sequence[PlannedCell], placed: Sequence[PlannedCell]) -> tuple[PlannedCell, ...]:
    by_id = {cell.cell_id: cell for cell in placed}
    return tuple(by_id.get(cell.cell_id, cell) for cell in cells)


def compared_pairs(experiment: Experiment, cells: Sequence[PlannedCell]) -> list[ComparedCells]:
    """Return the comparisons that a scenario asks for: of cells with their baselines, of controls, and of claims."""
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
