"""One cell on the hosts of a run: its services in their places, its generators, and why it cannot be carried, if so."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import PurePosixPath

from benchkit.errors import HostError, InputError, UnsupportedError
from benchkit.hosts.packages import PROGRAMS
from benchkit.load.generators.generator import generators
from benchkit.models.cpus import Cpus
from benchkit.run.plan.model import LOAD_ROLE, PlannedCell
from benchkit.run.plan.placement import HostCapabilities, place_on, too_many, with_quota
from benchkit.scenario.cell_load import typed_load
from benchkit.scenario.cell_services import typed_services
from benchkit.scenario.cells import Cell
from benchkit.scenario.read import Experiment
from benchkit.services.backend import Service, ServicePlacement
from benchkit.services.endpoint import is_loopback
from benchkit.services.rendering import TypedService, render_services


def missing_program(host: str, program: str, experiment: Experiment) -> HostError:
    """The obstacle of a host that lacks a program, with what to do about it."""
    hint = f"`benchkit hosts prepare {experiment.scenario.name}` installs it where it may"
    if program not in PROGRAMS:  # no package's name, but one that the scenario expects of the inventory
        hint = f"name the executable in the inventory: hosts.{host}.programs: {{{program}: /path/to/it}}"
    return HostError(f"{program} is missing", where=host, hint=hint)


def plan_cell(
    experiment: Experiment,
    cell: Cell,
    roles: Mapping[str, tuple[str, ...]],
    grounds: Mapping[str, HostCapabilities],
    before: Sequence[PlannedCell],
) -> PlannedCell:
    """The cell on these hosts; `before` are those planned already, of which it may be the same.

    Raises InputError for a scenario or an inventory that makes no sense, HostError where a host lacks a program.
    """
    typed = typed_services(cell, experiment.scenario)
    load = typed_load(cell, len(roles[LOAD_ROLE]))
    digest = hashlib.sha256(f"{experiment.scenario.name}\0{cell.cell_id}".encode()).hexdigest()[:12]

    def place(service: TypedService) -> ServicePlacement:
        role = service.options.role
        ground = grounds[roles[role][0]]
        if missing := [name for name in service.backend.programs(service.options) if name not in ground.facts.programs]:
            raise missing_program(ground.spec.name, missing[0], experiment)
        folder = PurePosixPath(ground.facts.workdir) / "stack" / digest / service.name
        wanted = experiment.scenario.roles[role]
        return with_quota(place_on(ground, folder, role, wanted.cpus), role, wanted.quota, ground)

    try:
        services = render_services(typed, place)
        entry = next(service for service in services if service.name == cell.entry)
        _require_reach(cell, entry, roles[LOAD_ROLE], grounds[entry.host])
        target = f"http://{entry.endpoint.authority}{load.path}"
        cpus = experiment.scenario.roles[LOAD_ROLE].cpus
        crew = generators(load, target, [_load_place(grounds[name], cpus) for name in roles[LOAD_ROLE]])
        planned = PlannedCell(cell, services, load, crew, target)
        reason = _too_many(planned, grounds) or _coincides(planned, before)
    except UnsupportedError as error:
        return PlannedCell(cell, (), load, (), "", str(error))
    return replace(planned, unsupported=reason)


def _require_reach(cell: Cell, entry: Service, load_hosts: Sequence[str], ground: HostCapabilities) -> None:
    """Raise InputError naming file, line and field where the load cannot come to the service that it goes to.

    Hosts that are reached at loopback addresses are one machine, and so are theirs.
    """
    endpoint, others = entry.endpoint, [name for name in load_hosts if name != entry.host]
    apart = endpoint.is_loopback and not is_loopback(ground.address)
    if endpoint.path is not None or (apart and others):
        where = f"{endpoint.authority} of {entry.host}"
        why = f"where {others[0]} cannot reach it" if others else "which no load tool connects to"
        raise InputError(
            cell.services.fault(
                (entry.name, "listen"), f"the load goes to this service, which listens on {where}, {why}"
            ),
            hint="give it a plain port, to listen on its host's address",
        )


def _load_place(ground: HostCapabilities, cpus: Cpus) -> ServicePlacement:
    """A load host as a place for generators; programs that are built for them stand in its folder."""
    return place_on(ground, PurePosixPath(ground.facts.workdir) / "tools", LOAD_ROLE, cpus)


def _too_many(planned: PlannedCell, grounds: Mapping[str, HostCapabilities]) -> str | None:
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
