"""The design that a run takes on its hosts: the one of the scenario, or another where these hosts or cells need it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from benchkit.loadtools.registry import get_tool
from benchkit.models.design import Design
from benchkit.plan.cell_groups import baselines_of, compared_pairs, group_cells
from benchkit.plan.host_capabilities import HostCapabilities
from benchkit.plan.model import PlannedCell
from benchkit.plan.side_by_side import Placement, why_not_sliced
from benchkit.scenario.experiment import Experiment
from benchkit.scenario.trial_order import CELLS_OF_ABBA
from benchkit.units import counted

NOTABLE_SHARE = 0.01
"""Share of a slice for opening connections from which the plan states it."""

SEQUENTIAL = (
    "The design is sequential: drift between the trials of one cell and those of the next is part of their ratios, and "
    "mostly not covered by the intervals."
)


@dataclass(frozen=True)
class PlannedDesign:
    """The design of a run, with its cells as this design runs them."""

    design: Design
    why: str
    """Reason for this design, as a clause."""
    cells: tuple[PlannedCell, ...]
    notices: tuple[str, ...] = ()
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
            notice = "ABBA needs two cells, and these hosts do not support both: the other cell runs alone."
            return PlannedDesign("blocks", "ABBA needs two cells", cells, (notice,))
        case "sequential":
            return PlannedDesign(wanted, "the scenario asks for it", cells, (SEQUENTIAL,))
    return PlannedDesign(wanted, "the scenario asks for it", cells)


def _plan_sliced(
    experiment: Experiment,
    cells: tuple[PlannedCell, ...],
    roles: Mapping[str, tuple[str, ...]],
    capabilities: Mapping[str, HostCapabilities],
) -> PlannedDesign:
    """Return the sliced design, with groups of cells where there is no room for all at once, or blocks."""
    supported = [cell for cell in cells if cell.unsupported is None]
    cell_ids = [cell.cell_id for cell in supported]
    turns = f"load in turns of {experiment.scenario.slice_s:g} s"
    if (why_not := why_not_sliced(experiment, supported)) is not None:
        return _blocks_instead(cells, why_not)
    connecting = tuple(_connecting_notices(supported, experiment.scenario.slice_s))
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
    notice = (
        f"The cells run in {number}, each with its baseline, because {no_room}: a block has the cells of one group, and "
        "cells of different groups are compared with the baseline, not with each other."
    )
    grouped = [cell for group in groups for cell in place_group(group)]
    return PlannedDesign("sliced", why, _replaced(cells, grouped), (notice, *connecting), groups)


def _connecting_notices(cells: Sequence[PlannedCell], slice_s: float) -> Iterator[str]:
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
    """Return the cells with those that are placed in their stead."""
    by_id = {cell.cell_id: cell for cell in placed}
    return tuple(by_id.get(cell.cell_id, cell) for cell in cells)
