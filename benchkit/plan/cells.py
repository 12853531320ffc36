"""Cells on the hosts of a run: host capabilities, places of services and generators, and unsupported cells."""

from __future__ import annotations

import hashlib
import ipaddress
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath

from benchkit.errors import HostError, InputError, UnsupportedError
from benchkit.hosts.files import hint_at_private_folder
from benchkit.hosts.inventory import HostSpec
from benchkit.hosts.packages import PROGRAMS, build_hint
from benchkit.hosts.tuning import TuningPlan
from benchkit.loadtools.generators.generator import plan_generators
from benchkit.loadtools.tool import Target
from benchkit.models.base import STACK, Cpus
from benchkit.models.design import compared_cell
from benchkit.models.facts import HostFacts
from benchkit.models.protocol import HttpProtocol, Protocol
from benchkit.plan.model import PlannedCell, describe_cell
from benchkit.plan.tuning_plan import nofile_limit
from benchkit.scenario.experiment import Cell, Experiment
from benchkit.scenario.model import LOAD_ROLE
from benchkit.services.builds import Built, builds_of
from benchkit.services.images import Image
from benchkit.services.placement import CpuQuota, HostProgram, ServicePlacement, is_address, is_loopback
from benchkit.services.rendering import ServiceSpec, render_services
from benchkit.services.service import Service
from benchkit.units import counted


def missing_program_error(host: HostCapabilities, program: str, experiment: Experiment) -> HostError:
    """Return the error for a program that a host lacks, with a hint on how to install or name it."""
    if path := host.spec.programs.get(program):
        return HostError(
            f"{program} is missing",
            where=host.spec.name,
            why=f"{path}, which the inventory names (hosts.{host.spec.name}.programs.{program}), cannot be run there",
            hint=hint_at_private_folder(path) or "correct the path in the inventory, or put the program there",
        )
    if program in PROGRAMS:
        build = build_hint([program])
        hint = experiment.install_hint if build is None else f"{build}, into the PATH there"
    elif program.startswith("/"):
        hint = hint_at_private_folder(program) or "put it there, or copy it to the host (`files`, `build`)"
    else:
        hint = f"install it on {host.spec.name}'s PATH, or copy it to the host (`files`, `build`) and write ./{program}"
        if here := shutil.which(program):  # such as a program of a virtual environment
            hint += f"; on this machine it is {here}: in a lab, write that path"
    hint += f"; a program elsewhere is named in the inventory (hosts.{host.spec.name}.programs)"
    return HostError(f"{program} is missing", where=host.spec.name, hint=hint)


def plan_cell(
    experiment: Experiment,
    cell: Cell,
    roles: Mapping[str, tuple[str, ...]],
    capabilities: Mapping[str, HostCapabilities],
    *,
    port_shift: int = 0,
    tuning: tuple[TuningPlan, ...] = (),
) -> PlannedCell:
    """Return the cell on these hosts, with its own `tuning` and with `port_shift` added to the ports of its services.

    Raises InputError for a scenario or an inventory that cannot work, HostError if a host lacks a program.
    """
    if not_applied := [sentence for planned in tuning for sentence in planned.sentences()]:
        # Without its tuning it would be another cell.
        return PlannedCell(cell, (), cell.load, (), "", "; ".join(not_applied))
    capabilities = {name: with_tuning(host, tuning) for name, host in capabilities.items()}
    digest = hashlib.sha256(f"{experiment.scenario.name}\0{compared_cell(cell.cell_id)}".encode()).hexdigest()[:12]

    def place(service: ServiceSpec) -> ServicePlacement:
        role = service.options.role
        host = capabilities[roles[role][0]]
        if missing := [name for name in service.programs if name not in host.facts.programs]:
            error = missing_program_error(host, missing[0], experiment)
            if service.options.optional:
                raise UnsupportedError(f"{error.what} on {error.where}: {error.hint}")
            raise error
        folder = PurePosixPath(host.facts.workdir) / "stack" / digest / service.name
        wanted = experiment.scenario.roles[role]
        return replace(place_on(host, folder, role, wanted.cpus, wanted.quota), port_shift=port_shift)

    try:
        services = render_services(cell.services, place, cell.external)
        for service in services:
            if service.name == cell.entry:
                _require_reachable(cell, service, roles[LOAD_ROLE], capabilities[service.host])
        endpoints = {service.name: service.endpoint for service in services}
        entry = (endpoints | {service.name: service.endpoint for service in cell.external})[cell.entry]
        target = Target(entry.authority, _http_protocol(cell.entry, entry.protocol), entry.tls)
        cpus = experiment.scenario.roles[LOAD_ROLE].cpus
        places = [
            place_on(host, PurePosixPath(host.facts.workdir) / "tools", LOAD_ROLE, cpus)
            for host in (capabilities[name] for name in roles[LOAD_ROLE])
        ]
        mix = cell.load.request_mix
        url = target.origin + mix[0].path if len(mix) == 1 else target.origin
        generators = plan_generators(cell.load, target, places)
        planned = PlannedCell(cell, services, cell.load, generators, url, entry=entry, tuning=tuning)
    except UnsupportedError as error:
        return PlannedCell(cell, (), cell.load, (), "", str(error))
    return replace(planned, unsupported=_connection_limit(planned, capabilities))


def _http_protocol(service: str, protocol: Protocol) -> HttpProtocol:
    """Return the protocol of the entry. Raises UnsupportedError for one that no load tool speaks."""
    match protocol:
        case "fastcgi" | "ssh" | "postgres":
            raise UnsupportedError(f"the load goes to {service}, and no load tool speaks {protocol}")
        case _:
            return protocol


def _require_reachable(cell: Cell, entry: Service, load_hosts: Sequence[str], host: HostCapabilities) -> None:
    """Raise InputError naming file, line and field if load hosts cannot reach the service that the load goes to.

    Hosts with loopback addresses are one machine and reach each other.
    """
    endpoint, others = entry.endpoint, [name for name in load_hosts if name != entry.host]
    if entry.container is not None and entry.container.network == "bridge" and others:
        why = f"network bridge: only {entry.host} reaches {endpoint.authority}, and {others[0]} sends the load"
        raise UnsupportedError(why, hint="write network: published, or use one host for servers and load")
    unreachable = endpoint.is_loopback and not is_loopback(host.address)
    if endpoint.path is not None or (unreachable and others):
        where = f"{endpoint.authority} of {entry.host}"
        why = f"where {others[0]} cannot reach it" if others else "which no load tool connects to"
        raise InputError(
            cell.service(entry.name).source.fault(
                ("listen",), f"the load goes to this service, which listens on {where}, {why}"
            ),
            hint="give it a plain port, so that it listens on its host's address; or use one host for servers and load: "
            "`benchkit lab up --host host=sut,load`",
        )


def _connection_limit(planned: PlannedCell, capabilities: Mapping[str, HostCapabilities]) -> str | None:
    """Return why these hosts cannot hold the cell's connections, or None if they can.

    A server process needs an open file for every connection, a generator process for each of its share. A load host
    needs a local port for each of its connections.
    """
    connections = planned.load.connections
    files = [(service.host, connections) for service in planned.services]
    files += [(generator.host, generator.load.connections) for generator in planned.generators]
    for name, number in files:
        if number + EXTRA_FILES > (limit := capabilities[name].nofile):
            return f"{number} connections: {name} allows at most {limit} open files"
    for name in dict.fromkeys(generator.host for generator in planned.generators):
        share = sum(generator.load.connections for generator in planned.generators if generator.host == name)
        ports = local_ports(capabilities[name])
        if ports is not None and share > ports:
            reason = f"{share} connections: {name} has {ports} local ports for one address"
            return f"{reason}; {counted(-(-connections // ports), 'such load host')} can hold all {connections}"
    return None


def mark_equal_cells(cells: Iterable[PlannedCell]) -> Iterator[PlannedCell]:
    """Build the cells and yield them; mark a cell that equals an earlier one on these hosts, with identical builds.

    Such a cell is unsupported where only levels differ, such as `1` and `all` CPUs on one CPU. Where its stack or
    builds are written differently, it is compared with the earlier cell, as an A/A comparison.
    """
    first: dict[str, tuple[PlannedCell, list[Built]]] = {}
    for cell in cells:
        if cell.unsupported is not None:
            yield cell
            continue
        text = describe_cell(cell)
        builds = [built for service in cell.services for built in builds_of(service)]
        for content in builds:
            sha256 = content.build().sha256
            text = text.replace(repr(content), sha256)
            text = text.replace(content.reference, sha256) if isinstance(content, Image) else text
        earlier, earlier_builds = first.setdefault(text, (cell, builds))
        if earlier is cell:
            yield cell
        elif builds != earlier_builds or _is_written_as(cell.spec, earlier.spec):
            yield replace(cell, same_as=earlier.cell_id)
        else:
            yield replace(cell, unsupported=f"on these hosts the same as {earlier.cell_id}")


def _is_written_as(cell: Cell, other: Cell) -> bool:
    levels = [{name: level for name, level in each.levels.items() if name != STACK} for each in (cell, other)]
    return levels[0] == levels[1] and (cell.services, cell.external) == (other.services, other.external)


EXTRA_FILES = 64
"""Open files that a service or load tool needs besides its connections: libraries, logs, its own sockets."""

NOFILE_UNLIMITED = 1 << 20
"""Limit of open files on a host that sets none: the kernel's default maximum (fs.nr_open, proc(5))."""


@dataclass(frozen=True)
class HostCapabilities:
    """A host as it is during the run: its facts, and the settings that tuning gives it."""

    spec: HostSpec
    facts: HostFacts
    tuned: Mapping[str, str] = field(default_factory=dict)
    """Kernel settings that tuning sets."""
    tuned_nofile: int | None = None
    """Limit of open files that tuning sets for benchkit's processes."""

    @property
    def nofile(self) -> int:
        """Largest number of open files of a process."""
        return self.tuned_nofile or self.facts.nofile_hard or NOFILE_UNLIMITED

    def sysctl(self, key: str) -> str | None:
        """Return a kernel setting as it is during the run, or None if it does not exist or was not read."""
        return self.tuned.get(key) or self.facts.sysctls.get(key)

    @property
    def address(self) -> str:
        """Address that its services bind to, and at which other hosts reach them.

        It is the inventory's `service_address`, else its `address` if the host itself has that. Else, for a name or a
        translated address, it is the host's first address that is neither loopback nor link-local. Raises InputError
        if there is none.
        """
        if self.spec.service_address is not None:
            return str(self.spec.service_address)
        own = [address for interface in self.facts.interfaces for address in interface.addresses]
        given = self.spec.address
        if is_address(given) and (is_loopback(given) or given in own):
            return given
        for address in own:
            if not (is_loopback(address) or ipaddress.ip_address(address).is_link_local):
                return address
        raise InputError(
            "no address that other hosts can reach",
            where=self.spec.name,
            hint="name it in the inventory: service_address: 10.0.0.1",
        )


def with_tuning(host: HostCapabilities, tuning: Iterable[TuningPlan]) -> HostCapabilities:
    """Return the capabilities of a host once this tuning is applied."""
    plans = [plan for plan in tuning if plan.host == host.spec.name]
    tuned = {key: value for plan in plans for key, value in plan.values.items()}
    nofile = nofile_limit(host.spec.name, plans) or host.tuned_nofile
    return replace(host, tuned={**host.tuned, **tuned}, tuned_nofile=nofile)


def place_on(
    host: HostCapabilities, folder: PurePosixPath, role: str, cpus: Cpus, quota: float | None = None
) -> ServicePlacement:
    """Return the place of a service on a host, with the role's CPU quota if the host can enforce one.

    Raises UnsupportedError if the host has too few CPUs for the role.
    """
    facts = host.facts
    if facts.goarch is None:
        raise UnsupportedError(f"{host.spec.name}: Go does not build for {facts.machine}")
    place = ServicePlacement(
        host=host.spec.name,
        address=host.address,
        cpus=facts.cpus,
        folder=folder,
        user=facts.user,
        root=facts.root,
        service_account=facts.service_account,
        goos=facts.os,
        goarch=facts.goarch,
        nofile=host.nofile,
        programs={name: program(host, name) for name in facts.programs},
        quota=CpuQuota(role, quota) if quota is not None and facts.cpu_groups else None,
        has_cpu_groups=bool(facts.cpu_groups),
    )
    return replace(place, cpus=place.select_cpus(cpus, f"role {role}: cpus"))


def program(host: HostCapabilities, name: str) -> HostProgram:
    """Return a program of the host by its name in facts or inventory."""
    fact = host.facts.programs[name]
    named = None
    if name in host.spec.programs:
        named = f"named by {host.spec.written or 'the inventory'}: hosts.{host.spec.name}.programs.{name}"
    return HostProgram(fact.path, version_numbers(fact.version), fact.version_output, named)


def version_numbers(version: str | None) -> tuple[int, ...]:
    """Return the numbers at the start of a version, for comparison: `1.22.1` → (1, 22, 1); empty if unknown."""
    match = re.match(r"[0-9]+(?:\.[0-9]+)*", version or "")
    return tuple(int(number) for number in match[0].split(".")) if match else ()


def local_ports(host: HostCapabilities) -> int | None:
    """Return how many local ports the host has for connections to one address (ip(7), ip_local_port_range)."""
    match (host.sysctl("net.ipv4.ip_local_port_range") or "").split():
        case [first, last]:
            return int(last) - int(first) + 1
    return None
