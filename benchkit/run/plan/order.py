"""The order of a run's trials: its design applied to the cells that the hosts support, and their controls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from benchkit.errors import InputError
from benchkit.models.design import control_of
from benchkit.run.plan.model import PlannedCell
from benchkit.scenario.experiment import Experiment
from benchkit.scenario.trial_order import CELLS_OF_ABBA, PlannedTrial, planned_trials

SEQUENTIAL = (
    "The design is sequential: drift between the trials of one cell and those of the next is part of their ratios, and "
    "mostly not covered by the intervals."
)


def control_cells(experiment: Experiment, cells: Sequence[PlannedCell]) -> tuple[PlannedCell, ...]:
    """Return the control cells: copies, under names of their own, of the cells that the scenario lists as `control`."""
    return tuple(
        replace(cell, spec=replace(cell.spec, cell_id=control_of(cell.cell_id)))
        for cell in cells
        if cell.unsupported is None and experiment.scenario.has_control(cell.spec.levels)
    )


def order_trials(
    experiment: Experiment, cells: Sequence[PlannedCell], seed: int
) -> tuple[tuple[PlannedTrial, ...], tuple[str, ...]]:
    """Return the trials of the supported cells in order, and notices about the order."""
    scenario = experiment.scenario
    supported = [cell.cell_id for cell in cells if cell.unsupported is None]
    design = scenario.design
    notices: tuple[str, ...] = (SEQUENTIAL,) if design == "sequential" else ()
    if design == "sliced":
        raise InputError("the design sliced cannot be run yet", where=scenario.name, hint="use design: blocks")
    if design == "abba" and len(supported) != CELLS_OF_ABBA:
        design = "blocks"
        notices = ("ABBA needs two cells, and these hosts do not support both: the other cell runs alone.",)
    return planned_trials(design, supported, scenario.blocks, seed), notices
