"""The order of a run's trials: its design applied to the cells that the hosts support, and their controls."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from benchkit.models.design import control_of, controlled
from benchkit.plan.design import PlannedDesign
from benchkit.plan.model import PlannedCell, cells_with_capacity
from benchkit.scenario.experiment import Experiment
from benchkit.scenario.trial_order import PlannedTrial, calibration_trials, planned_trials


def control_cells(experiment: Experiment, cells: Sequence[PlannedCell]) -> tuple[PlannedCell, ...]:
    """Return the control cells: copies, under names of their own, of the cells that the scenario lists as `control`."""
    return tuple(
        replace(cell, spec=replace(cell.spec, cell_id=control_of(cell.cell_id)))
        for cell in cells
        if cell.unsupported is None and experiment.scenario.has_control(cell.spec.levels)
    )


def order_trials(experiment: Experiment, design: PlannedDesign, seed: int) -> tuple[PlannedTrial, ...]:
    """Return the trials of the supported cells in order."""
    supported = [cell.cell_id for cell in design.cells if cell.unsupported is None]
    return planned_trials(design.design, supported, experiment.scenario.blocks, seed, design.groups)


def calibrations(cells: Iterable[PlannedCell]) -> tuple[PlannedTrial, ...]:
    """Return the trials that these cells need before the first block; none with target rates stated.

    One at full speed for each cell at a share of the slowest, and one with a search for each capacity that cells run at
    shares of.
    """
    cells = tuple(cells)
    at_full_speed = [
        cell.cell_id
        for cell in cells
        if cell.unsupported is None and cell.load.share_of_slowest is not None and not controlled(cell.cell_id)
    ]
    return calibration_trials([*at_full_speed, *dict.fromkeys(cells_with_capacity(cells).values())])
