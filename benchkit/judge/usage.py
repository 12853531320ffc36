"""Use of what can be the limit of a trial: the load tool, the servers, the links and the local ports."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from benchkit import units
from benchkit.judge.cpu_time import (
    INTERRUPTS,
    capacity,
    cores_busy,
    cores_spent,
    generator_cores,
    machine_of,
    quota_of,
    service_cores,
)
from benchkit.judge.evidence import Evidence
from benchkit.models.telemetry import generator_service
from benchkit.models.thresholds import Thresholds
from benchkit.models.trial import GeneratorRecord, ServiceRecord

STARVED = 0.1
"""Least share of a core that an always runnable process gets beside nine others (sched-design-CFS.rst of Linux: equal
shares). A process that uses less waits for something other than the CPU."""
FRAME_OVERHEAD_BYTES = 24
"""Bytes of each packet on the wire of Ethernet that interfaces do not count: preamble 8, checksum 4, gap 12 (IEEE
802.3, clause 3). With them, small packets fill a link that their bytes alone do not."""

BITS = 8
LOOPBACK = "lo"
MIN_CARRIED = 0.5
"""Share of the traffic of a host's busiest interface that links of known rate must carry to be the links of the load.
Bridges, bonds and tunnels count traffic again that goes over a real link."""
DIRECTIONS = ("sent", "received")

PORT_RANGE = "net.ipv4.ip_local_port_range"
REUSE = "net.ipv4.tcp_tw_reuse"
REUSE_ALWAYS = "1"
"""Value that allows reuse of a port after a second in TIME_WAIT (Documentation/networking/ip-sysctl.rst of Linux; 2
does so over loopback only)."""
IN_USE = "in_use"
HOLDING_STATES = ("time_wait", IN_USE)
"""States of sockets that hold a port: connections, and those that wait for late packets (RFC 9293, 3.5)."""


class Use(NamedTuple):
    """Share of a capacity that was used; larger ones are worse."""

    share: float
    text: str
    """The same as a clause."""


def generator_use(evidence: Evidence) -> Use | None:
    """Return the largest share of the available CPU that the load tool used.

    None where the CPUs of a generator are not recorded, and where the load tool ran elsewhere.
    """
    generators = evidence.record.generators
    if not generators or any(not generator.cpus for generator in generators):
        return None
    processes = [use for generator in generators for use in _process_use(evidence, generator)]
    hosts = [use for host in evidence.load_hosts for use in _load_host_use(evidence, host)]
    return max([*processes, *hosts])


def crowded_use(evidence: Evidence, thresholds: Thresholds) -> float | None:
    """Return the share of its cores that the load tool used, with all its packets, while other programs used the rest.

    None where the load tool was at its own limit, the cores were not full, or the CPUs of a generator are not recorded.
    """
    if any(not each.cpus for each in evidence.record.generators):
        return None
    alone = [use.share for each in evidence.record.generators for use in _process_use(evidence, each)]
    busy = {host: share for host in evidence.load_hosts if (share := generator_cores_busy(evidence, host)) is not None}
    used = max([*alone, *(_own_share(evidence, host) for host in busy)], default=0.0)
    return used if max(busy.values(), default=0.0) >= thresholds.generator_cpu > used else None


def generator_cores_busy(evidence: Evidence, host: str) -> float | None:
    """Return the share of time that the cores of a host's generators were busy; None without telemetry."""
    cpus = {cpu for each in evidence.record.generators if each.host == host for cpu in each.cpus}
    busy = cores_busy(evidence, host, cpus)
    return None if busy is None else min(busy / len(cpus), 1.0)


def _own_share(evidence: Evidence, host: str) -> float:
    """Return the share of the cores of a host's generators that these used, with the interrupts there."""
    generators = [each for each in evidence.record.generators if each.host == host]
    cpus = {cpu for each in generators for cpu in each.cpus}
    interrupts = cores_spent(evidence, host, cpus, INTERRUPTS) or 0.0
    return (sum(map(generator_cores, generators)) + interrupts) / len(cpus)


def _process_use(evidence: Evidence, generator: GeneratorRecord) -> Iterator[Use]:
    """Yield the use of the available CPU by a generator: by its process, and by its busiest thread."""
    tool = generator.argv[0].rpartition("/")[2]
    total = len(evidence.record.generators)
    name = f"the load tool ({tool}{f' {generator.number} of {total}' if total > 1 else ''}) on {generator.host}"
    share = generator_cores(generator) / capacity(
        len(generator.cpus), generator.threads, quota_of(evidence, generator.host)
    )
    yield Use(share, f"{name} used {units.share(share)} of the CPU available to it")
    if generator.threads is None:
        return
    threads = evidence.telemetry.series("thread_cpu_s_total", generator.host, generator_service(generator.number))
    rates = [rate for each in threads if (rate := each.rate(evidence.window_s)) is not None]
    if rates:
        yield Use(max(rates), f"a thread of {name} used {units.share(max(rates))} of a core")


def _load_host_use(evidence: Evidence, host: str) -> Iterator[Use]:
    """Yield the use of a load host: of its cores by anyone, of its quota by the generators.

    A server that the trial did not start may run on the cores of the load tool: nothing binds it to others.
    """
    busy = None if evidence.shares_unwatched_server else generator_cores_busy(evidence, host)
    if busy is not None:
        yield Use(busy, f"the cores of the load tool on {host} were busy for {units.share(busy)} of the time")
    quota = quota_of(evidence, host)
    if quota is not None:
        share = sum(generator_cores(each) for each in evidence.record.generators if each.host == host) / quota
        yield Use(share, f"the load tool used {units.share(share)} of the CPU quota of {host}")


def server_use(evidence: Evidence, *, deducts_others: bool = True) -> Use | None:
    """Return the use of its CPU by the busiest part of the stack.

    The parts are each service, the services that share a quota, and all services of a host together. With
    `deducts_others`, CPU time that other processes took counts as unavailable, unless that alone makes the trial
    unusable. None where the CPU time or the CPUs of a service are not recorded, and where none is watched.
    """
    services = evidence.record.services
    used = {service.name: cores for service in services if (cores := service_cores(evidence, service)) is not None}
    if not services or any(not service.cpus or service.name not in used for service in services):
        return None
    deducts_others = deducts_others and evidence.disturbance == "suspect"
    share, part = max(_server_shares(evidence, used, deducts_others=deducts_others))
    return Use(share, f"{part} used {units.share(share)} of the CPU available to it")


def _server_shares(
    evidence: Evidence, used: Mapping[str, float], *, deducts_others: bool
) -> Iterator[tuple[float, str]]:
    """Yield the share of its CPU that each part of the stack used, and the name of the part."""
    for service in evidence.record.services:
        quotas = [each for each in (quota_of(evidence, service.host), service.quota) if each is not None]
        available = capacity(len(service.cpus), service.parallelism, min(quotas, default=None))
        yield used[service.name] / available, f"service {service.name}"
    for host in evidence.server_hosts:
        services = [service for service in evidence.record.services if service.host == host]
        part = "the stack" if len(services) > 1 else f"service {services[0].name}"
        for share in _server_host_shares(evidence, host, services, used, deducts_others=deducts_others):
            yield min(share, 1.0), part


def _server_host_shares(
    evidence: Evidence,
    host: str,
    services: Sequence[ServiceRecord],
    used: Mapping[str, float],
    *,
    deducts_others: bool,
) -> Iterator[float]:
    """Yield the shares used by all services of a host: of their CPUs, of a common quota, with kernel time of the cores.

    Services of one role share its quota. Interrupts run on any core and under no quota. Kernels that also charge them
    to processes count them twice, but not in the time that the cores were busy.
    """
    cpus = {cpu for service in services for cpu in service.cpus}
    total = sum(used[service.name] for service in services)
    parallelism = sum(min(len(service.cpus), service.parallelism or len(service.cpus)) for service in services)
    yield total / capacity(len(cpus), parallelism, quota_of(evidence, host))
    sharing = [service for service in services if not service.has_own_quota]
    for quota in {service.quota for service in sharing if service.quota is not None}:
        yield sum(used[service.name] for service in sharing if service.quota == quota) / quota
    interrupts, busy = cores_spent(evidence, host, cpus, INTERRUPTS), cores_busy(evidence, host, cpus)
    if interrupts is not None and busy is not None:
        yield min(total + interrupts, busy) / len(cpus)
        left = len(cpus) - max(0.0, busy - total - interrupts)
        if deducts_others and left > 0:
            yield total / left


@dataclass(frozen=True)
class _Link:
    host: str
    interface: str
    rate_bps: float
    is_ethernet: bool
    """True if the rate includes the overhead of packets on the wire; a cap counts bytes only."""


def counter_increase(evidence: Evidence, host: str, metric: str) -> float | None:
    """Return the increase of a counter of the host over the window; None without telemetry."""
    increases = [each.increase_around(0, evidence.window_s) for each in evidence.telemetry.series(metric, host)]
    return sum(increases) if increases else None


def link_use(evidence: Evidence) -> Use | None:
    """Return the use of the fullest link in one direction; None where no link of known rate was watched."""
    loads = [
        (bps / link.rate_bps, bps, link, direction)
        for host in evidence.hosts
        for link in _links(evidence, host)
        for direction in DIRECTIONS
        if (bps := _bits_per_s(evidence, link, direction)) is not None
    ]
    if not loads:
        return None
    share, bps, link, direction = max(loads, key=lambda each: each[0])
    return Use(
        share,
        f"host {link.host} {direction} {units.bits_per_s(bps)} over {link.interface}, {units.share(share)} of its "
        f"{units.bits_per_s(link.rate_bps)}",
    )


def unknown_links(evidence: Evidence) -> str:
    """Return the reason why traffic of a host cannot be attributed to links of known rate; empty if it can."""
    unwatched: list[str] = []
    unrated: list[str] = []
    for host in evidence.hosts:
        traffic = _traffic(evidence, host)
        if not traffic:
            unwatched.append(host)
            continue
        carried = sum(traffic.get(link.interface, 0.0) for link in _links(evidence, host))
        if carried < MIN_CARRIED * max(traffic.values()):
            unrated.append(host)
    reasons = [f"no telemetry for the links of {', '.join(unwatched)}"] if unwatched else []
    if unrated:
        reasons.append(f"link speed of {', '.join(unrated)} unknown; set link_bps in the inventory")
    return "; ".join(reasons)


def _traffic(evidence: Evidence, host: str) -> dict[str, float]:
    by_interface: dict[str, float] = {}
    for direction in DIRECTIONS:
        for each in evidence.telemetry.series(f"net_{direction}_bytes_total", host):
            rate = each.rate(evidence.window_s)
            if each.instance not in (None, LOOPBACK) and rate is not None:
                by_interface[str(each.instance)] = by_interface.get(str(each.instance), 0.0) + rate
    return by_interface


def _links(evidence: Evidence, host: str) -> Iterator[_Link]:
    """Yield the host's interfaces with the cap of its inventory or lab, else its physical ones with their rates."""
    facts = evidence.facts_of(host)
    cap = facts.link_bps
    if cap is not None:
        for each in evidence.telemetry.series("net_sent_bytes_total", host):
            if each.instance not in (None, LOOPBACK):
                yield _Link(host, str(each.instance), cap, is_ethernet=False)
        return
    for interface in facts.interfaces:
        # A virtual interface reports a rate that does not limit it.
        if interface.speed_bps and interface.virtual is False:
            yield _Link(host, interface.name, interface.speed_bps, is_ethernet=True)


def _bits_per_s(evidence: Evidence, link: _Link, direction: str) -> float | None:
    metrics = [f"net_{direction}_bytes_total", f"net_{direction}_packets_total"]
    series = (evidence.telemetry.instance(metric, link.host, link.interface) for metric in metrics)
    bytes_per_s, packets_per_s = (None if each is None else each.rate(evidence.window_s) for each in series)
    if bytes_per_s is None:
        return None
    overhead = FRAME_OVERHEAD_BYTES * (packets_per_s or 0.0) if link.is_ethernet else 0.0
    return (bytes_per_s + overhead) * BITS


def port_use(evidence: Evidence, host: str) -> tuple[float, int] | None:
    """Return (most local ports of a load host in use at once, local ports); None if one of them is unknown."""
    states = _counted_states(evidence, host)
    port_range = (evidence.facts_of(host).sysctls.get(PORT_RANGE) or "").split()
    series = [each for each in evidence.telemetry.series("tcp_sockets", host) if each.instance in HOLDING_STATES]
    sockets = {each.instance: maximum for each in series if (maximum := each.maximum(evidence.window_s)) is not None}
    if states is None or len(port_range) != len(("first", "last")) or len(sockets) < len(HOLDING_STATES):
        return None
    first, last = map(int, port_range)
    return sum(sockets[state] for state in states), last - first + 1


def _counted_states(evidence: Evidence, host: str) -> tuple[str, ...] | None:
    """Return the states of sockets whose ports the load tool could not use; None if only failed connects could tell.

    Without a failed connect, TIME_WAIT proves nothing where its ports are reused. Sockets prove nothing where a
    server's are counted with the client's.
    """
    failed = evidence.number("errors_connect")
    if failed:
        return HOLDING_STATES
    if any(_has_same_addresses(evidence, host, server) for server in evidence.server_hosts):
        return None if failed is None else ()
    if evidence.facts_of(host).sysctls.get(REUSE) == REUSE_ALWAYS:
        return None if failed is None else (IN_USE,)
    return HOLDING_STATES


def _has_same_addresses(evidence: Evidence, host: str, other: str) -> bool:
    """Return True if two hosts are one to the network: the same name, or one machine with the same addresses."""
    own, others = (
        {address for interface in evidence.facts_of(each).interfaces for address in interface.addresses}
        for each in (host, other)
    )
    is_equal = bool(own) and own == others and machine_of(evidence, host) == machine_of(evidence, other)
    return host == other or is_equal
