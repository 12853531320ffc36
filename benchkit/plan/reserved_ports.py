"""Reservation of the services' ports, so that no outgoing connection of a host takes one between two trials.

The kernel gives outgoing connections any port of `ip_local_port_range`, and keeps it for a minute after their end.
Tuning files for many connections start that range at 1025, where services listen too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from benchkit.agent.settings import Sysctls
from benchkit.hosts.connections import Hosts
from benchkit.hosts.tuning import TuningPlan
from benchkit.plan.design import ports_of
from benchkit.plan.model import PlannedCell
from benchkit.plan.tuning_plan import plan_settings

PORT_RANGE = "net.ipv4.ip_local_port_range"
RESERVED_PORTS = "net.ipv4.ip_local_reserved_ports"


def plan_reserved_ports(
    tuning: Sequence[TuningPlan], cells: Iterable[PlannedCell], hosts: Hosts
) -> Iterator[TuningPlan]:
    """Yield the reservation for each host that may write it and whose outgoing connections could take a service's port.

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
