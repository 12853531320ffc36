"""The tuning of a run: the scenario's tuning files on the hosts of their roles, and the reservation of service ports.

The kernel gives outgoing connections any port of `ip_local_port_range`, and keeps it for a minute after their end.
Tuning files for many connections start that range at 1025, where services listen too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from benchkit.agent.settings import Sysctls
from benchkit.hosts import tuning as host_tuning
from benchkit.hosts.connections import Hosts
from benchkit.hosts.tuning import TuningPlan
from benchkit.plan.model import PlannedCell, ports_of
from benchkit.scenario.experiment import Experiment, SysctlValue, UsedTuning


def plan_tuning(
    experiment: Experiment, roles: Mapping[str, tuple[str, ...]], hosts: Hosts
) -> tuple[tuple[TuningPlan, ...], frozenset[str]]:
    """Return the tuning of the hosts for the whole run, and the names of the hosts on which it is required."""
    tunings = experiment.run_tuning
    plans = tuple(_plan_together(tunings, roles, hosts, {}))
    required = (host for used in tunings if used.use.required for role in used.use.roles for host in roles[role])
    return plans, frozenset(required)


def plan_cell_tuning(
    experiment: Experiment, roles: Mapping[str, tuple[str, ...]], hosts: Hosts, run_tuning: Iterable[TuningPlan]
) -> Mapping[str, tuple[TuningPlan, ...]]:
    """Return the tuning of each cell, by its name, which overrides the run's."""
    tuned: dict[str, dict[str, str]] = {}
    for planned in run_tuning:
        tuned.setdefault(hosts.kernel_host(planned.host).name, {}).update(planned.values)
    tunings = {cell.cell_id: experiment.cell_tuning(cell.levels) for cell in experiment.cells}
    plans: dict[tuple[int, ...], tuple[TuningPlan, ...]] = {}
    for used in tunings.values():
        key = tuple(map(id, used))
        if key not in plans:
            plans[key] = tuple(_plan_together(used, roles, hosts, tuned))
    return {cell_id: plans[tuple(map(id, used))] for cell_id, used in tunings.items()}


def _plan_together(
    tunings: Sequence[UsedTuning],
    roles: Mapping[str, tuple[str, ...]],
    hosts: Hosts,
    tuned: Mapping[str, Mapping[str, str]],
) -> Iterator[TuningPlan]:
    """Yield the tuning of each host by all of these tuning files; a later one overrides an earlier one."""
    for name in dict.fromkeys(host for used in tunings for role in used.use.roles for host in roles[role]):
        of_host = [used.settings for used in tunings if any(name in roles[role] for role in used.use.roles)]
        wanted = {key: value for settings in of_host for key, value in settings.sysctl.items()}
        limits = [settings.limits.nofile for settings in of_host if settings.limits.nofile is not None]
        of_kernel = tuned.get(hosts.kernel_host(name).name, {})
        yield plan_settings(wanted, name, hosts, nofile=limits[-1] if limits else None, tuned=of_kernel)


def nofile_limit(host: str, plans: Iterable[TuningPlan]) -> int | None:
    """Return the limit of open files that tuning sets on a host for benchkit's processes, or None if it sets none."""
    limits = [plan.nofile for plan in plans if plan.host == host and plan.nofile is not None]
    return next((limit.wanted for limit in reversed(limits) if limit.why_not is None), None)


def plan_settings(
    wanted: Mapping[str, SysctlValue],
    name: str,
    hosts: Hosts,
    *,
    nofile: int | None = None,
    tuned: Mapping[str, str] = MappingProxyType({}),
) -> TuningPlan:
    """Return the plan of kernel settings, and of the limit of open files, on a host; `tuned` are set there first."""
    host = hosts[name]
    found = host.call(Sysctls.read, list(wanted))
    return host_tuning.plan(
        host.spec,
        wanted,
        {key: replace(sysctl, value=tuned.get(key, sysctl.value)) for key, sysctl in found.items()},
        root=host.facts.root,
        can_sudo=host.facts.can_sudo,
        not_isolated=hosts.inventory.not_isolated,
        nofile=host_tuning.file_limit(host.processes, nofile, host.facts.nofile_hard) if nofile else None,
    )


PORT_RANGE = "net.ipv4.ip_local_port_range"
RESERVED_PORTS = "net.ipv4.ip_local_reserved_ports"


def plan_reserved_ports(
    tuning: Sequence[TuningPlan], cells: Iterable[PlannedCell], hosts: Hosts
) -> Iterator[TuningPlan]:
    """Yield the reservation of each host whose outgoing connections could take a service's port.

    `tuning` has the planned settings of all hosts; port ranges in them, or in a cell's, count as applied.
    """
    cells = tuple(cells)
    of_cells = tuple(planned for cell in cells for planned in cell.tuning)
    for name, ports in _service_ports(cells, hosts).items():
        found = hosts[name].call(Sysctls.read, (PORT_RANGE, RESERVED_PORTS))
        of_run, of_levels = (
            [
                each.values[PORT_RANGE]
                for each in plans
                if PORT_RANGE in each.values and hosts.kernel_host(each.host).name == name
            ]
            for plans in (tuning, of_cells)
        )
        value = reserved = found[RESERVED_PORTS].value or ""
        for port_range in (of_run[-1] if of_run else found[PORT_RANGE].value, *of_levels):
            value = add_reserved_ports(value, ports, port_range) or value
        if value == reserved:
            continue
        plan = plan_settings({RESERVED_PORTS: value}, name, hosts)
        if plan.values:  # else the check before each trial waits until a taken port is free again
            yield plan


def add_reserved_ports(reserved: str, ports: Collection[int], port_range: str | None) -> str | None:
    """Return a list of reserved ports with these added, as the kernel prints it (`8080-8081,9000`); pure.

    None where none of them has to be added: it is reserved, or outside of the range of outgoing connections.
    """
    if port_range is None:
        return None
    low, high = map(int, port_range.split())
    known = {port for part in reserved.split(",") if part for port in _ports_of(part)}
    exposed = {port for port in ports if low <= port <= high} - known
    return ",".join(_ranges(sorted(known | exposed))) if exposed else None


def _service_ports(cells: Iterable[PlannedCell], hosts: Hosts) -> Mapping[str, set[int]]:
    found: dict[str, set[int]] = {}
    for cell in cells:
        for host, port in ports_of(cell.services) if cell.unsupported is None else ():
            found.setdefault(hosts.kernel_host(host).name, set()).add(port)
    return found


def _ports_of(part: str) -> range:
    first, _, last = part.strip().partition("-")
    return range(int(first), int(last or first) + 1)


def _ranges(ports: Sequence[int]) -> Iterator[str]:
    first = 0
    for index, port in enumerate(ports):
        if index + 1 < len(ports) and ports[index + 1] == port + 1:
            continue
        yield str(port) if index == first else f"{ports[first]}-{port}"
        first = index + 1
