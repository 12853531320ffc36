"""The design that a run takes on its hosts: the one of the scenario, or another where these hosts or cells need it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchkit.models.design import Design
from benchkit.run.plan.host_capabilities import HostCapabilities
from benchkit.run.plan.model import PlannedCell
from benchkit.run.plan.side_by_side import place_side_by_side, why_not_side_by_side
from benchkit.scenario.experiment import Experiment
from benchkit.scenario.trial_order import CELLS_OF_ABBA
from benchkit.units import counted

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
            placed = place_side_by_side(experiment, cells, roles, capabilities)
            why_not = why_not_side_by_side(experiment, placed, cells, capabilities)
            if why_not is not None:
                why = f"not sliced, because {why_not}"
                return PlannedDesign("blocks", why, cells, (f"The design is blocks, {why}.",))
            turns = f"load in turns of {experiment.scenario.slice_s:g} s"
            return PlannedDesign(wanted, f"the stacks of {counted(supported, 'cell')} side by side, {turns}", placed)
        case "abba" if supported != CELLS_OF_ABBA:
            notice = "ABBA needs two cells, and these hosts do not support both: the other cell runs alone."
            return PlannedDesign("blocks", "ABBA needs two cells", cells, (notice,))
        case "sequential":
            return PlannedDesign(wanted, "the scenario asks for it", cells, (SEQUENTIAL,))
    return PlannedDesign(wanted, "the scenario asks for it", cells)
