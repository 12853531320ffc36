"""Use of the resources that can limit a trial, those of load tool, servers and links; and its TLS handshakes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from benchkit import units
from benchkit.judge.cpu_time import (
    INTERRUPTS,
    capacity,
    cores_busy,
    cores_spent,
    generator_cores,
    quota_of,
    service_cores,
)
from benchkit.judge.evidence import Evidence
from benchkit.models.telemetry import generator_service
from benchkit.models.thresholds import Thresholds
from benchkit.models.trial import GeneratorRecord

FRAME_OVERHEAD_BYTES = 24
"""Bytes of each packet on the wire of Ethernet that interfaces do not count: preamble 8, checksum 4, gap 12 (IEEE
802.3, clause 3). With them, small packets fill a link that their bytes alone do not."""
BITS = 8
LOOPBACK = "lo"
DIRECTIONS = ("sent", "received")


class Use(NamedTuple):
    """Share of a capacity that was used; larger ones are worse."""

    share: float
    text: str
    """The share as a clause."""


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


def is_load_crowded(evidence: Evidence, thresholds: Thresholds) -> bool:
    """Return True if other programs filled the cores of the load tool, which did not fill them by itself.

    Its packets count as its own. False where the CPUs of a generator are not recorded.
    """
    generators = evidence.record.generators
    if any(not each.cpus for each in generators):
        return False
    used = [use.share for each in generators for use in _process_use(evidence, each)]
    busiest = 0.0
    for host in evidence.load_hosts:
        cpus = evidence.generator_cpus(host)
        own = sum(generator_cores(each) for each in generators if each.host == host)
        used.append((own + (cores_spent(evidence, host, cpus, INTERRUPTS) or 0.0)) / len(cpus))
        busiest = max(busiest, generator_cores_busy(evidence, host) or 0.0)
    return busiest >= thresholds.generator_cpu > max(used, default=0.0)


def generator_cores_busy(evidence: Evidence, host: str) -> float | None:
    """Return the share of time that the cores of a host's generators were busy; None without telemetry."""
    cpus = evidence.generator_cpus(host)
    busy = cores_busy(evidence, host, cpus)
    return None if busy is None else min(busy / len(cpus), 1.0)


def _process_use(evidence: Evidence, generator: GeneratorRecord) -> Iterator[Use]:
    """Yield the use of the available CPU by a generator: by its process, and by its busiest thread."""
    tool, total = generator.argv[0].rpartition("/")[2], len(evidence.record.generators)
    name = f"the load tool ({tool}{f' {generator.number} of {total}' if total > 1 else ''}) on {generator.host}"
    quota = quota_of(evidence, generator.host)
    share = generator_cores(generator) / capacity(len(generator.cpus), generator.threads, quota)
    yield Use(share, f"{name} used {units.share(share)} of the CPU available to it")
    if generator.threads is None:
        return
    threads = evidence.telemetry.series("thread_cpu_s_total", generator.host, generator_service(generator.number))
    rates = [rate for each in threads if (rate := each.rate(evidence.window_s)) is not None]
    if rates:
        yield Use(max(rates), f"a thread of {name} used {units.share(max(rates))} of a core")


def _load_host_use(evidence: Evidence, host: str) -> Iterator[Use]:
    """Yield the use of a load host: of its cores by all programs, of its quota by the generators.

    A server that the trial did not start may run on the load tool's cores, so their use then says nothing.
    """
    busy = None if evidence.shares_unwatched_server else generator_cores_busy(evidence, host)
    if busy is not None:
        yield Use(busy, f"the cores of the load tool on {host} were busy for {units.share(busy)} of the time")
    quota = quota_of(evidence, host)
    if quota is not None:
        share = sum(generator_cores(each) for each in evidence.record.generators if each.host == host) / quota
        yield Use(share, f"the load tool used {units.share(share)} of the CPU quota of {host}")


def server_use(evidence: Evidence) -> Use | None:
    """Return the use of its CPU by the busiest part of the stack.

    The parts are each service, the services that share a quota, and all services of a host together. CPU time that
    other processes took counts as unavailable. None where the CPU time or the CPUs of a service are not recorded, and
    where none is watched.
    """
    services = evidence.record.services
    used = {service.name: cores for service in services if (cores := service_cores(evidence, service)) is not None}
    if not services or any(not service.cpus or service.name not in used for service in services):
        return None
    parts: list[tuple[float, str]] = []
    for service in services:
        quotas = [each for each in (quota_of(evidence, service.host), service.quota) if each is not None]
        available = capacity(len(service.cpus), service.parallelism, min(quotas, default=None))
        parts.append((used[service.name] / available, f"service {service.name}"))
    for host in evidence.server_hosts:
        names = [service.name for service in services if service.host == host]
        part = "the stack" if len(names) > 1 else f"service {names[0]}"
        parts += [(min(share, 1.0), part) for share in _server_host_shares(evidence, host, used)]
    share, part = max(parts)
    return Use(share, f"{part} used {units.share(share)} of the CPU available to it")


def _server_host_shares(evidence: Evidence, host: str, used: Mapping[str, float]) -> Iterator[float]:
    """Yield the shares used by all services of a host: of their CPUs, of a common quota, and of cores with interrupts.

    Services of one role share its quota. Interrupts run on any core and under no quota. Kernels that charge them to
    processes count them twice; the busy time of the cores has them once.
    """
    services = [service for service in evidence.record.services if service.host == host]
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
        available = len(cpus) - max(0.0, busy - total - interrupts)
        if available > 0:
            yield total / available


def counter_increase(evidence: Evidence, host: str, metric: str) -> float | None:
    """Return the increase of a counter of the host over the window; None without telemetry."""
    increases = [each.increase_around(0, evidence.window_s) for each in evidence.telemetry.series(metric, host)]
    return sum(increases) if increases else None


def link_use(evidence: Evidence) -> Use | None:
    """Return the use of the fullest link in one direction; None where no link of known rate was watched."""
    loads = [
        (bps / rate_bps, bps, host, interface, rate_bps, direction)
        for host in evidence.hosts
        for interface, rate_bps, overhead_bytes in _links(evidence, host)
        for direction in DIRECTIONS
        if (bps := _bits_per_s(evidence, host, interface, direction, overhead_bytes)) is not None
    ]
    if not loads:
        return None
    share, bps, host, interface, rate_bps, direction = max(loads)
    return Use(
        share,
        f"host {host} {direction} {units.bits_per_s(bps)} over {interface}, {units.share(share)} of its "
        f"{units.bits_per_s(rate_bps)}",
    )


def unknown_links(evidence: Evidence) -> str:
    """Return the reason why the use of some link is unknown; empty if all are known."""
    watched = {each.host for each in evidence.telemetry.series("net_sent_bytes_total")}
    unwatched = [host for host in evidence.hosts if host not in watched]
    unrated = [host for host in evidence.hosts if host in watched and not any(_links(evidence, host))]
    reasons = [f"no telemetry for the links of {', '.join(unwatched)}"] if unwatched else []
    if unrated:
        reasons.append(f"link speed of {', '.join(unrated)} unknown; set link_bps in the inventory")
    return "; ".join(reasons)


def _links(evidence: Evidence, host: str) -> Iterator[tuple[str, float, int]]:
    """Yield each interface whose rate is known: name, rate in bit/s, and the overhead of a packet on the wire.

    A cap by the inventory or lab holds for all interfaces and counts no overhead. Without a cap, only physical
    interfaces have a rate that limits them.
    """
    facts = evidence.facts_of(host)
    if facts.link_bps is not None:
        for each in evidence.telemetry.series("net_sent_bytes_total", host):
            if each.instance not in (None, LOOPBACK):
                yield str(each.instance), facts.link_bps, 0
        return
    for interface in facts.interfaces:
        if interface.speed_bps and interface.virtual is False:
            yield interface.name, interface.speed_bps, FRAME_OVERHEAD_BYTES


def _bits_per_s(evidence: Evidence, host: str, interface: str, direction: str, overhead_bytes: int) -> float | None:
    metrics = [f"net_{direction}_bytes_total", f"net_{direction}_packets_total"]
    series = (evidence.telemetry.instance(metric, host, interface) for metric in metrics)
    bytes_per_s, packets_per_s = (None if each is None else each.rate(evidence.window_s) for each in series)
    return None if bytes_per_s is None else BITS * (bytes_per_s + overhead_bytes * (packets_per_s or 0.0))


class Handshakes(NamedTuple):
    """TLS handshakes in the window, by the entry's own counters."""

    number: float
    resumed_share: float | None
    """Share that resumed a session; None where there was no handshake."""


def handshakes(evidence: Evidence) -> Handshakes | None:
    """Return the handshakes of the entry; None where it counts none, or samples cover less than half of the window."""
    rates = {
        each.instance: each.rate(evidence.window_s)
        for each in evidence.telemetry.series("tls_handshakes_total")
        if each.service == evidence.entry
    }
    full, resumed = rates.get("full"), rates.get("resumed")
    if full is None or resumed is None:
        return None
    number = full + resumed
    return Handshakes(number * evidence.window_s, resumed / number if number else None)


def handshakes_per_s(evidence: Evidence) -> float | None:
    """Return the handshakes per second; None without TLS.

    In slices the server counts handshakes over the load tool's own time, which may be longer than the window
    (`Tool.overrun_s`).
    """
    found, load_s = handshakes(evidence), evidence.window_s
    if evidence.record.slices:
        load_s = max(load_s, evidence.row.duration_s or 0.0)
    return None if found is None else found.number / load_s


def server_cpu_s_per_handshake(evidence: Evidence) -> float | None:
    """Return the CPU time of all services per handshake, in seconds; None where connections are kept."""
    per_s, times = handshakes_per_s(evidence), [service.cpu_s for service in evidence.record.services]
    if evidence.record.load.keepalive or not per_s or None in times:
        return None
    return sum(time for time in times if time is not None) / (per_s * evidence.window_s)
