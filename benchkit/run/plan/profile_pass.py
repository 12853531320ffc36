"""The profile pass of a run on its hosts: its cells, its order, and what cannot be profiled there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from benchkit.errors import InputError
from benchkit.load.generators.generator import lasting
from benchkit.load.load_shares import objections
from benchkit.load.tools.registry import get_tool
from benchkit.models.design import controlled
from benchkit.run.plan.model import PlannedCell
from benchkit.run.plan.placement import HostCapabilities
from benchkit.scenario.cell_load import typed_load
from benchkit.scenario.cell_services import typed_services
from benchkit.scenario.profile_pass import LEAST_S, profile_slots
from benchkit.scenario.read import Experiment
from benchkit.scenario.trial_order import PlannedTrial
from benchkit.services.profilers import PERF, needs_perf, profiles_itself


def check_profile(experiment: Experiment, hosts: int) -> None:
    """Check that every cell can be profiled within its window. Raises InputError naming file, line and field."""
    wanted = experiment.scenario.profile
    if wanted is None:
        return
    faults: dict[str, None] = {}
    for cell in experiment.cells:
        load = wanted.load(typed_load(cell, hosts))
        if load.duration_s is None:
            why = "the load ends after a count of requests; say for how long it goes on in profile trials: duration_s"
            faults[experiment.document.fault(("profile",), why)] = None
        elif load.duration_s - wanted.settle_s < LEAST_S:
            least = wanted.settle_s + LEAST_S
            why = f"a window of {load.duration_s:g} s is too short to profile in; set duration_s, {least:g} at least"
            faults[experiment.document.fault(("profile",), why)] = None
        for objection in objections(get_tool(load.tool), load, load.processes * hosts):
            faults[experiment.document.fault(("profile", objection.field), objection.why)] = None
    if faults:
        raise InputError("\n".join(faults))


def profile_cells(experiment: Experiment, cells: Sequence[PlannedCell]) -> tuple[PlannedCell, ...]:
    """The cells as the trials of the pass run them; none without a pass."""
    wanted = experiment.scenario.profile
    if wanted is None:
        return ()
    return tuple(
        replace(
            cell,
            load=wanted.load(cell.load),
            generators=tuple(lasting(each, wanted.window, cell.target) for each in cell.generators),
        )
        for cell in cells
        if cell.unsupported is None and controlled(cell.cell_id) is None
    )


def profile_order(
    experiment: Experiment, cells: Sequence[PlannedCell], planned_trials: Sequence[PlannedTrial], seed: int
) -> tuple[PlannedTrial, ...]:
    """The trials of the pass, to follow the measured ones; none without a pass."""
    wanted = experiment.scenario.profile
    if wanted is None:
        return ()
    last = max((planned_trial.block for planned_trial in planned_trials), default=0)
    return profile_slots(wanted, [cell.cell_id for cell in cells if cell.unsupported is None], last, seed)


def profile_notices(
    experiment: Experiment, cells: Sequence[PlannedCell], grounds: Mapping[str, HostCapabilities]
) -> Iterator[str]:
    """What these hosts do not let be profiled."""
    wanted = experiment.scenario.profile
    if wanted is None:
        return
    services = [service for cell in cells for service in needs_perf(cell.services) if wanted.includes(service.name)]
    blind = {
        (service.host, f"{service.name} ({service.backend})"): None
        for service in services
        if PERF not in grounds[service.host].facts.programs
    }
    for host in dict.fromkeys(host for host, _ in blind):
        names = ", ".join(service for on, service in blind if on == host)
        hint = f"`benchkit hosts prepare {experiment.scenario.name}` installs it where it may"
        yield f"{host} has no perf, so that there will be no profile of {names}; {hint}."


def profiling_programs(experiment: Experiment) -> dict[str, set[str]]:
    """The programs that profiles are taken with, by role."""
    wanted = experiment.scenario.profile
    needed: dict[str, set[str]] = {}
    for cell in experiment.cells if wanted is not None else ():
        for service in typed_services(cell, experiment.scenario):
            if wanted is not None and wanted.includes(service.name) and not profiles_itself(service.backend):
                needed.setdefault(service.options.role, set()).add(PERF)
    return needed
