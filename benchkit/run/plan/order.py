"""The order of a run's trials: its design on the cells that the hosts carry, and the controls among them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from benchkit.models.design import control_of
from benchkit.run.plan.model import PlannedCell
from benchkit.scenario.checks import controls
from benchkit.scenario.designs import CELLS_OF_ABBA, planned_trials
from benchkit.scenario.read import Experiment
from benchkit.scenario.trial_order import PlannedTrial

SEQUENTIAL = (
    "The design is sequential: whatever drifts while one cell runs after the other will be in their ratios, and mostly not "
    "in the intervals."
)


def control_cells(experiment: Experiment, cells: Sequence[PlannedCell]) -> tuple[PlannedCell, ...]:
    """The second names of the cells that the scenario has as controls: to the last argument what the cells are."""
    wanted = controls(experiment.scenario, experiment.cells)
    return tuple(
        replace(cell, cell=replace(cell.cell, cell_id=control_of(cell.cell_id)))
        for cell in cells
        if cell.cell_id in wanted and cell.unsupported is None
    )


def ordered(
    experiment: Experiment, cells: Sequence[PlannedCell], seed: int
) -> tuple[tuple[PlannedTrial, ...], list[str]]:
    """The trials in their order, and what is to be known of it. Cells that the hosts cannot carry are left out."""
    scenario = experiment.scenario
    names = [cell.cell_id for cell in cells if cell.unsupported is None]
    design = scenario.design
    notices = [SEQUENTIAL] if design == "sequential" else []
    if design == "abba" and len(names) != CELLS_OF_ABBA:
        design = "blocks"
        notices.append("ABBA takes two cells, and these hosts do not carry both: the other runs alone.")
    return planned_trials(design, names, scenario.blocks, seed), notices
