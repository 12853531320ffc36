"""What a run will do on these hosts: cells, services, load, order, time, and what the hosts cannot carry.

Planning reads facts and changes nothing; the run carries out exactly what was planned.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from benchkit.errors import HostError, InputError, UnsupportedError, suggestion
from benchkit.hosts import tuning as host_tuning
from benchkit.hosts.connect import Hosts
from benchkit.hosts.inventory import Inventory
from benchkit.hosts.tuning import TuningPlan
from benchkit.load.generator import Generator, generators
from benchkit.load.plan import check_tools, typed_load
from benchkit.load.registry import get_tool
from benchkit.models.load import Load
from benchkit.placement import Ground, place_on, too_many
from benchkit.scenario.cells import Cell
from benchkit.scenario.model import CpuCount, Scenario
from benchkit.scenario.read import Experiment
from benchkit.scenario.schedule import Slot, schedule
from benchkit.scenario.tuning import check_tuning, read_profile
from benchkit.stack.backend import Place, Service
from benchkit.stack.builds import Build, builds
from benchkit.stack.plan import TypedService, render_services, typed_services

LOAD_ROLE = "load"

OVERHEAD_S = 0.5
"""Starting, probing and stopping, for the estimate of a run's time; measured by `make bench`."""


@dataclass(frozen=True)
class PlannedCell:
    """A cell as it will run on these hosts; `unsupported` says why it will not."""

    cell: Cell
    services: tuple[Service, ...]
    load: Load
    generators: tuple[Generator, ...]
    target: str
    unsupported: str | None = None

    @property
    def cell_id(self) -> str:
        """The name of the cell."""
        return self.cell.cell_id

    @property
    def seconds(self) -> float | None:
        """How long a trial of it takes, about; None where it ends after a count of requests at no set rate."""
        load = self.load
        measured = load.requests / load.rate if load.requests and load.rate else load.duration_s
        return None if measured is None else load.warmup_s + measured + OVERHEAD_S


@dataclass(frozen=True)
class RunPlan:
    """Everything a run will do, known before anything is touched."""

    experiment: Experiment
    seed: int
    roles: Mapping[str, tuple[str, ...]]
    """The hosts of each role."""
    cells: tuple[PlannedCell, ...]
    slots: tuple[Slot, ...]
    notices: tuple[str, ...]
    """What people should know: what is not isolated, not applied, lowered."""
    obstacles: tuple[HostError, ...]
    """What stops the run: a program that a host lacks, a required setting that it does not take."""
    tuning: tuple[TuningPlan, ...]
    """What the scenario's tuning comes to on each host."""
    tuning_required: frozenset[str]
    """Hosts on which a setting that is not applied stops the run."""

    @property
    def blocks(self) -> int:
        """Repetitions of every cell."""
        return self.experiment.scenario.blocks

    @property
    def seconds(self) -> float | None:
        """How long the run takes, about; None where that is not known of a cell."""
        times = {cell.cell_id: cell.seconds for cell in self.cells}
        known = [time for slot in self.slots if (time := times[slot.cell_id]) is not None]
        return sum(known) if len(known) == len(self.slots) else None

    @property
    def builds(self) -> tuple[Build, ...]:
        """What has to be built: servers, load tools, and what reads their rows."""
        return builds(
            [(service.host, file) for cell in self.cells for service in cell.services for file in service.files]
            + [
                (generator.host, file)
                for cell in self.cells
                for generator in cell.generators
                for file in generator.programs
            ]
        )

    def cell(self, cell_id: str) -> PlannedCell:
        """The cell of that name."""
        return next(cell for cell in self.cells if cell.cell_id == cell_id)


def check_experiment(experiment: Experiment) -> None:
    """Check everything that needs no host. Raises InputError naming file, line and field."""
    check_tools(experiment.scenario, experiment.document)
    hosts = _load_hosts(experiment.scenario)
    for cell in experiment.cells:
        typed_services(cell, experiment.scenario)
        typed_load(cell, hosts)
    check_tuning(experiment.scenario, experiment.document)
    if LOAD_ROLE not in experiment.scenario.roles:
        allowed = suggestion(LOAD_ROLE, experiment.scenario.roles)
        raise InputError(experiment.document.fault(("roles",), f"no role {LOAD_ROLE!r} to drive the load; {allowed}"))


def needed_programs(experiment: Experiment) -> dict[str, set[str]]:
    """The programs that a scenario needs on the hosts of each role."""
    needed: dict[str, set[str]] = {}
    hosts = _load_hosts(experiment.scenario)
    for cell in experiment.cells:
        tool = get_tool(typed_load(cell, hosts).tool)
        if tool.program is None:
            needed.setdefault(LOAD_ROLE, set()).add(tool.binary)
        for service in typed_services(cell, experiment.scenario):
            needed.setdefault(service.options.role, set()).update(service.backend.programs)
    return needed


def _load_hosts(scenario: Scenario) -> int:
    """How many load hosts there are at least, before an inventory says how many."""
    return scenario.roles[LOAD_ROLE].hosts if LOAD_ROLE in scenario.roles else 1


def make_plan(experiment: Experiment, hosts: Hosts, seed: int | None = None) -> RunPlan:
    """The plan of a run on these hosts, which are only asked, never changed.

    `seed` replaces the scenario's. Raises InputError for a scenario or an inventory that cannot be run, HostError where
    a host does not answer.
    """
    check_experiment(experiment)
    grounds = {host.name: Ground(host.spec, host.facts) for host in hosts}
    roles = _roles(experiment, hosts.inventory)
    tuning, required = plan_tuning(experiment.scenario, roles, hosts)
    obstacles: list[HostError] = list(_missing_tools(experiment, roles, grounds))
    obstacles += [
        HostError(sentence, hint="the scenario says that this tuning is required")
        for planned in tuning
        if planned.host in required
        for sentence in planned.sentences()
    ]
    cells: list[PlannedCell] = []
    for cell in experiment.cells:
        try:
            cells.append(_planned(experiment, cell, roles, grounds, cells))
        except HostError as error:
            obstacles.append(error)
    supported = [cell.cell_id for cell in cells if cell.unsupported is None]
    seed = experiment.scenario.seed if seed is None else seed
    return RunPlan(
        experiment=experiment,
        seed=seed,
        roles=roles,
        cells=tuple(cells),
        slots=schedule(supported, experiment.scenario.blocks, seed),
        notices=(
            *hosts.inventory.limits,
            *(notice for host in hosts for notice in host.notices),
            *(sentence for planned in tuning for sentence in planned.sentences()),
        ),
        obstacles=tuple({str(error): error for error in obstacles}.values()),
        tuning=tuning,
        tuning_required=required,
    )


def plan_tuning(
    scenario: Scenario, roles: Mapping[str, tuple[str, ...]], hosts: Hosts
) -> tuple[tuple[TuningPlan, ...], frozenset[str]]:
    """What the scenario's tuning profiles come to on its hosts, and the hosts where they are required."""
    plans: list[TuningPlan] = []
    required: set[str] = set()
    for use in scenario.tuning:
        profile = read_profile(use.profile).sysctl
        for name in dict.fromkeys(host for role in use.roles for host in roles[role]):
            host = hosts[name]
            plans.append(
                host_tuning.plan(
                    host.spec,
                    profile,
                    host.changes.read(profile),
                    root=host.facts.root,
                    can_sudo=host.facts.can_sudo,
                    not_isolated=hosts.inventory.not_isolated,
                )
            )
            if use.required:
                required.add(name)
    return tuple(plans), frozenset(required)


def _roles(experiment: Experiment, inventory: Inventory) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for name, role in experiment.scenario.roles.items():
        hosts = tuple(host.name for host in inventory.by_role(name))
        if len(hosts) < role.hosts:
            raise InputError(
                f"the scenario needs {role.hosts} host(s) in role {name!r}",
                why=f"the inventory has {len(hosts)}",
                hint=f"give a host `roles: [{name}]`",
            )
        found[name] = hosts
    return found


def _missing_tools(
    experiment: Experiment, roles: Mapping[str, tuple[str, ...]], grounds: Mapping[str, Ground]
) -> Iterator[HostError]:
    for tool in dict.fromkeys(typed_load(cell, len(roles[LOAD_ROLE])).tool for cell in experiment.cells):
        for host in roles[LOAD_ROLE]:
            if get_tool(tool).program is None and get_tool(tool).binary not in grounds[host].facts.programs:
                yield _missing(host, get_tool(tool).binary, experiment)


def _missing(host: str, program: str, experiment: Experiment) -> HostError:
    name = experiment.scenario.name
    return HostError(
        f"{program} is missing", where=host, hint=f"`benchkit hosts prepare {name}` installs it where it may"
    )


def _planned(
    experiment: Experiment,
    cell: Cell,
    roles: Mapping[str, tuple[str, ...]],
    grounds: Mapping[str, Ground],
    before: Sequence[PlannedCell],
) -> PlannedCell:
    typed = typed_services(cell, experiment.scenario)
    load = typed_load(cell, len(roles[LOAD_ROLE]))
    digest = hashlib.sha256(f"{experiment.scenario.name}\0{cell.cell_id}".encode()).hexdigest()[:12]

    def place(service: TypedService) -> Place:
        role = service.options.role
        ground = grounds[roles[role][0]]
        if missing := [name for name in service.backend.programs if name not in ground.facts.programs]:
            raise _missing(ground.spec.name, missing[0], experiment)
        folder = PurePosixPath(ground.facts.workdir) / "stack" / digest / service.name
        return place_on(ground, folder, role, experiment.scenario.roles[role].cpus)

    try:
        services = render_services(typed, place)
        entry = next(service for service in services if service.name == cell.entry)
        target = f"http://{entry.endpoint.authority}{load.path}"
        cpus = experiment.scenario.roles[LOAD_ROLE].cpus
        crew = generators(load, target, [_load_place(grounds[name], cpus) for name in roles[LOAD_ROLE]])
        planned = PlannedCell(cell, services, load, crew, target)
        reason = _too_many(planned, grounds) or _coincides(planned, before)
    except UnsupportedError as error:
        return PlannedCell(cell, (), load, (), "", str(error))
    return replace(planned, unsupported=reason)


def _load_place(ground: Ground, cpus: CpuCount) -> Place:
    """A load host as a place for generators; programs that are built for them stand in its folder."""
    return place_on(ground, PurePosixPath(ground.facts.workdir) / "tools", LOAD_ROLE, cpus)


def _too_many(planned: PlannedCell, grounds: Mapping[str, Ground]) -> str | None:
    """Why these hosts cannot hold the cell's connections: a server's process holds all, a generator's its share."""
    servers = dict.fromkeys(service.host for service in planned.services)
    reasons = [too_many(planned.load.connections, [grounds[name] for name in servers], ())]
    for name in dict.fromkeys(generator.host for generator in planned.generators):
        shares = [generator.load.connections for generator in planned.generators if generator.host == name]
        reasons += [too_many(max(shares), [grounds[name]], ()), too_many(sum(shares), (), [grounds[name]])]
    return next((reason for reason in reasons if reason is not None), None)


def _coincides(planned: PlannedCell, before: Sequence[PlannedCell]) -> str | None:
    """Whether an earlier cell comes out the same on these hosts, as `1` and `all` do on one CPU."""
    shape = _shape(planned)
    for other in before:
        if other.unsupported is None and _shape(other) == shape:
            return f"on these hosts the same as {other.cell_id}"
    return None


def _shape(planned: PlannedCell) -> object:
    """What a cell is made of, less the folders that differ by its name alone."""
    text = repr((planned.services, planned.load, planned.target))
    for service in planned.services:
        text = text.replace(str(service.folder.parent), "…")
    return text
