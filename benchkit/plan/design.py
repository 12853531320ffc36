"""The design of a run on its hosts, and the order of its trials, with controls, calibrations and passes.

It is the scenario's design, or `blocks` where these hosts or cells cannot run a sliced block. In a sliced block the
stacks of all cells are side by side on the hosts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from benchkit.loadtools.registry import get_tool
from benchkit.models.design import HELD_WINDOW, Design, compared_cell, control_of, held_of, is_held, is_original
from benchkit.plan.cells import HostCapabilities, plan_cell
from benchkit.plan.model import PlannedCell, cells_with_capacity, ports_of
from benchkit.scenario.experiment import Experiment
from benchkit.scenario.trial_order import (
    ObservationPass,
    PlannedTrial,
    calibration_trials,
    pass_trials,
)
from benchkit.services.placement import MAX_PORT
from benchkit.services.service import PERF, profiler_of
from benchkit.units import counted

ASSUMED_WINDOW_S = 10.0
"""Window that is assumed for a load of a number of requests; the window at a held rate is a share of it."""
DEFAULT_RATE_TOOL = "openloop"
"""Load tool at a held rate where the scenario's tool cannot hold one; benchkit builds it for the load hosts."""

SEQUENTIAL = (
    "The design is sequential: drift between the trials of two cells is part of their ratio, and the intervals mostly "
    "do not cover it."
)


@dataclass(frozen=True)
class PlannedDesign:
    """The design of a run, with its cells as this design runs them."""

    design: Design
    why: str
    """Reason for this design, as a clause."""
    cells: tuple[PlannedCell, ...]
    notes: tuple[str, ...] = ()


def plan_design(
    experiment: Experiment,
    cells: Sequence[PlannedCell],
    roles: Mapping[str, tuple[str, ...]],
    capabilities: Mapping[str, HostCapabilities],
) -> PlannedDesign:
    """Return the design of a run of these cells, control cells included."""
    wanted, cells = experiment.scenario.design, tuple(cells)
    supported = [cell for cell in cells if cell.unsupported is None]
    if wanted != "sliced":
        notes = (SEQUENTIAL,) if wanted == "sequential" else ()
        return PlannedDesign(wanted, "the scenario asks for it", cells, notes)
    slice_s = experiment.scenario.slice_s
    why_not, placed = next(_reasons_not_sliced(supported, slice_s), None), supported
    if why_not is None:
        placed = _side_by_side(experiment, supported, roles, capabilities)
        why_not = next(_port_reasons(placed, supported), None)
    if why_not is not None:
        why = f"not sliced, because {why_not}"
        return PlannedDesign("blocks", why, cells, (f"The design is blocks, {why}.",))
    stacks = [cell for cell in placed if not is_held(cell.cell_id)]
    why = f"the stacks of {counted(len(stacks), 'cell')} side by side, load in turns of {slice_s:g} s"
    by_id = {cell.cell_id: cell for cell in placed}
    placed_cells = tuple(by_id.get(cell.cell_id, cell) for cell in cells)
    return PlannedDesign("sliced", why, placed_cells)


def _side_by_side(
    experiment: Experiment,
    cells: Sequence[PlannedCell],
    roles: Mapping[str, tuple[str, ...]],
    capabilities: Mapping[str, HostCapabilities],
) -> list[PlannedCell]:
    """Return the cells, each with its own folders and ports; the first keeps the scenario's ports.

    The phase of a cell at a held rate has the same servers.
    """
    used: set[tuple[str, int]] = set()
    shifts: dict[str, int] = {}
    placed = []
    for cell in cells:
        is_phase = is_held(cell.cell_id)
        shift = shifts[compared_cell(cell.cell_id)] if is_phase else next_shift(set(ports_of(cell.services)), used)
        shifts[cell.cell_id] = shift
        shifted = plan_cell(experiment, cell.spec, roles, capabilities, port_shift=shift, tuning=cell.tuning)
        placed.append(replace(shifted, same_as=cell.same_as))
        used |= set(ports_of(shifted.services))
    return placed


def _reasons_not_sliced(cells: Sequence[PlannedCell], slice_s: float) -> Iterator[str]:
    if any(cell.sysctls != cells[0].sysctls for cell in cells):
        yield "its cells need different kernel settings"
    if len(cells) == 1:
        yield "there is only one cell"
    for cell in cells:
        yield from _load_reasons(cell, slice_s)
    for cell in cells:
        for service in cell.services:
            if service.outage:
                yield f"{service.name} of {cell.cell_id} has an outage in its window"
            if service.is_verifier:
                yield f"{service.name} of {cell.cell_id} verifies a stack of its own"


def _load_reasons(cell: PlannedCell, slice_s: float) -> Iterator[str]:
    load = cell.load
    if load.capacity is not None:
        yield f"the capacity of {cell.cell_id} is searched with separate trials"
    if load.duration_s is None:
        yield f"the load of {cell.cell_id} ends after a number of requests, not after a time"
    elif load.duration_s < slice_s:
        yield f"the window of {cell.cell_id} is {load.duration_s:g} s, and a slice is {slice_s:g} s"
    for generator in cell.generators:
        of_slice = generator.load.model_copy(update={"duration_s": slice_s, "request_count": None, "warmup_s": 0.0})
        yield from (unsupported.why for unsupported in get_tool(load.tool).unsupported_fields(of_slice))


def next_shift(wanted: set[tuple[str, int]], used: set[tuple[str, int]]) -> int:
    """Return the smallest number that, added to all wanted ports, gives no port that is used on its host."""
    shift = 0
    while any((host, port + shift) in used for host, port in wanted):
        shift += 1
    return shift


def _port_reasons(placed: Sequence[PlannedCell], alone: Sequence[PlannedCell]) -> Iterator[str]:
    """Yield a reason for each service that ignores its new port, and for a port above `MAX_PORT`.

    `alone` has the same cells with the ports of the scenario.
    """
    for cell, before in zip(placed, alone, strict=True):
        for service, original in zip(cell.services, before.services, strict=True):
            if service.endpoint.port == original.endpoint.port:
                continue
            started, alone_started = (
                repr((each.process.argv, each.process.env, each.files)).replace(str(each.folder), "…")
                for each in (service, original)
            )
            if started == alone_started:
                yield f"{service.name} of {cell.cell_id} always listens on port {original.endpoint.port}"
    if max((port for cell in placed for _, port in ports_of(cell.services)), default=0) > MAX_PORT:
        yield f"their stacks need ports above {MAX_PORT}"


def control_cells(experiment: Experiment, cells: Sequence[PlannedCell]) -> tuple[PlannedCell, ...]:
    """Return the control cells: renamed copies of the cells that the scenario lists as `control`."""
    return tuple(
        replace(cell, spec=replace(cell.spec, cell_id=control_of(cell.cell_id)))
        for cell in cells
        if cell.unsupported is None and experiment.scenario.has_control(cell.spec.levels)
    )


def held_cells(
    experiment: Experiment,
    cells: Sequence[PlannedCell],
    roles: Mapping[str, tuple[str, ...]],
    capabilities: Mapping[str, HostCapabilities],
) -> Iterator[PlannedCell]:
    """Yield the cells of the second phase, at a held rate with an open-loop tool."""
    for cell in cells:
        if cell.unsupported is not None or not cell.load.has_held_phase:
            continue
        load, rate = cell.load, get_tool(cell.load.tool).rate
        tool = load.tool if rate is not None and rate.is_open else DEFAULT_RATE_TOOL
        fields = {
            "tool": tool,
            "threads": 1 if tool != load.tool else load.threads,
            "share_of_slowest": load.held_share,
            "rate": load.held_rate,
            "held_share": None,
            "held_rate": None,
            "duration_s": max(experiment.scenario.slice_s, HELD_WINDOW * (load.duration_s or ASSUMED_WINDOW_S)),
            "request_count": None,
            "extra_args": () if tool != load.tool else load.extra_args,
        }
        spec = replace(cell.spec, cell_id=held_of(cell.cell_id), load=load.model_copy(update=fields))
        planned = plan_cell(experiment, spec, roles, capabilities, tuning=cell.tuning)
        yield replace(planned, same_as=cell.same_as)


def calibrations(cells: Iterable[PlannedCell]) -> tuple[PlannedTrial, ...]:
    """Return the trials before the first block that find the loads of these cells.

    Loads at the knee or at a share of the slowest cell's rate need load curves. Loads at shares of a capacity need a
    search for it.
    """
    cells = tuple(cells)
    with_curve = [
        cell.cell_id
        for cell in cells
        if cell.unsupported is None and cell.load.needs_curve and is_original(cell.cell_id)
    ]
    return calibration_trials([*with_curve, *dict.fromkeys(cells_with_capacity(cells).values())])


def cells_of_pass(options: ObservationPass, cells: Sequence[PlannedCell]) -> tuple[PlannedCell, ...]:
    """Return the cells of a pass, with its load and window."""
    return tuple(
        replace(
            cell,
            load=options.load(cell.load),
            generators=tuple(generator.with_window(options.window(cell.load)) for generator in cell.generators),
        )
        for cell in cells
        if cell.unsupported is None and is_original(cell.cell_id)
    )


def pass_order(
    experiment: Experiment, cells: Sequence[PlannedCell], measured: Sequence[PlannedTrial], seed: int
) -> tuple[PlannedTrial, ...]:
    """Return the trials of all passes, which follow the measured trials."""
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
    """Yield notes on lengthened windows and on hosts that cannot profile services."""
    for kind, options in experiment.scenario.passes.items():
        lengthened = sorted({options.load(cell.load).duration_s or 0 for cell in cells if options.lengthens(cell.load)})
        if lengthened:
            windows = ", ".join(f"{window_s:g} s" for window_s in lengthened)
            yield (
                f"Trials of the {kind} pass have a window of {windows}, because that of the load is too short for a "
                f"{kind}; `--set {kind}.duration_s=…` changes it."
            )
    profile = experiment.scenario.profile
    if profile is None:
        return
    without_perf: dict[str, dict[str, None]] = {}
    for service in (service for cell in cells for service in cell.services if profiler_of(service) == "perf"):
        if profile.includes(service.name) and PERF not in capabilities[service.host].facts.programs:
            without_perf.setdefault(service.host, {})[f"{service.name} ({service.backend})"] = None
    for host, names in without_perf.items():
        yield f"No profile of {', '.join(names)}: {host} has no perf; {experiment.install_hint}."
