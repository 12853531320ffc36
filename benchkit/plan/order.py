"""The order of a run's trials: its design applied to the cells that the hosts support, controls and passes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from benchkit.models.design import control_of, controlled
from benchkit.plan.design import PlannedDesign
from benchkit.plan.host_capabilities import HostCapabilities
from benchkit.plan.model import PlannedCell, cells_with_capacity
from benchkit.scenario.experiment import Experiment
from benchkit.scenario.trial_order import ObservationPass, PlannedTrial, calibration_trials, pass_trials, planned_trials
from benchkit.services.service import PERF, needs_perf


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

    A cell at a share of the slowest needs one at full speed. Cells at shares of a capacity need one that searches it.
    """
    cells = tuple(cells)
    at_full_speed = [
        cell.cell_id
        for cell in cells
        if cell.unsupported is None and cell.load.share_of_slowest is not None and not controlled(cell.cell_id)
    ]
    return calibration_trials([*at_full_speed, *dict.fromkeys(cells_with_capacity(cells).values())])


def cells_of_pass(options: ObservationPass, cells: Sequence[PlannedCell]) -> tuple[PlannedCell, ...]:
    """Return the cells as the trials of a pass run them."""
    return tuple(
        replace(
            cell,
            load=options.load(cell.load),
            generators=tuple(generator.with_window(options.window(cell.load)) for generator in cell.generators),
        )
        for cell in cells
        if cell.unsupported is None and controlled(cell.cell_id) is None
    )


def pass_order(
    experiment: Experiment, cells: Sequence[PlannedCell], measured: Sequence[PlannedTrial], seed: int
) -> tuple[PlannedTrial, ...]:
    """Return the trials of all passes, which follow the measured ones."""
    last = max((trial.block for trial in measured), default=0)
    supported = [cell.cell_id for cell in cells if cell.unsupported is None]
    trials: list[PlannedTrial] = []
    for kind, options in experiment.scenario.passes.items():
        trials += pass_trials(options, supported, last, seed, kind)
        last += options.blocks
    return tuple(trials)


def pass_notes(
    experiment: Experiment, cells: Sequence[PlannedCell], capabilities: Mapping[str, HostCapabilities]
) -> Iterator[str]:
    """Yield notes about lengthened windows, and one for each host on which services cannot be profiled."""
    for kind, options in experiment.scenario.passes.items():
        lengthened = sorted({options.load(cell.load).duration_s or 0 for cell in cells if options.lengthens(cell.load)})
        if lengthened:
            windows = ", ".join(f"{window_s:g} s" for window_s in lengthened)
            yield (
                f"Trials of the {kind} pass have a window of {windows}, as the load's is too short for a {kind}; "
                f"`--set {kind}.duration_s=…` sets another one."
            )
    profile = experiment.scenario.profile
    if profile is None:
        return
    without_perf: dict[str, dict[str, None]] = {}
    for service in (service for cell in cells for service in needs_perf(cell.services)):
        if profile.includes(service.name) and PERF not in capabilities[service.host].facts.programs:
            without_perf.setdefault(service.host, {})[f"{service.name} ({service.backend})"] = None
    for host, names in without_perf.items():
        what = f"{host} has no perf, so that there will be no profile of {', '.join(names)}"
        yield f"{what}; {experiment.install_hint}."
