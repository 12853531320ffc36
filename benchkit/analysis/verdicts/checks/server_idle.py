"""The server was not the limit, so its rate is not its capacity."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from benchkit import units
from benchkit.analysis.verdicts.check import RATES, Check, Found, Reason, Unchecked
from benchkit.analysis.verdicts.cpu import INTERRUPTS, capacity, cores_spent, service_cores, stack_quota
from benchkit.analysis.verdicts.evidence import Evidence
from benchkit.models.trial import ServiceRecord
from benchkit.scenario.thresholds import Thresholds


def of_trial(evidence: Evidence, thresholds: Thresholds) -> Found:
    """The busiest part of the stack against what it may use: each service, and all of a host's together.

    One part that is full is enough: a proxy waits while what is behind it works. Closed loops at full speed only: at a
    set rate a server is as idle as it can be.
    """
    if not evidence.closed_loop:
        return ()
    services = evidence.record.services
    took = {service.name: cores for service in services if (cores := service_cores(evidence, service)) is not None}
    if any(not service.cpus or service.name not in took for service in services):
        return Unchecked(why="the server's CPU time or its CPUs are not recorded")
    share, what = max(_uses(evidence, took))
    if share >= thresholds.server_cpu:
        return ()
    return [
        Reason(
            severity="invalid",
            metrics=RATES,
            seen=f"{what} took {units.share(share)} of the CPU that it may use",
            threshold=f"below {units.share(thresholds.server_cpu)}",
            means="The server was not the limit: something else held the rate, which is not its capacity.",
            advice="Look for what it waits for: a lock, a delay, too few connections, the generator, the network.",
        )
    ]


CHECK = Check("server-idle", "the server was not the limit, so its rate is not its capacity", of_trial=of_trial)


def _uses(evidence: Evidence, took: Mapping[str, float]) -> Iterator[tuple[float, str]]:
    for service in evidence.record.services:
        most = capacity(len(service.cpus), service.parallelism, stack_quota(evidence, service.host))
        yield took[service.name] / most, f"service {service.name}"
    for host in evidence.server_hosts:
        yield _host_use(evidence, host, took)


def _host_use(evidence: Evidence, host: str, took: Mapping[str, float]) -> tuple[float, str]:
    """All services of a host together, with what the kernel does for them in interrupts."""
    services = [service for service in evidence.record.services if service.host == host]
    cpus = {cpu for service in services for cpu in service.cpus}
    most = capacity(len(cpus), _parallelism(services), stack_quota(evidence, host))
    own = sum(took[service.name] for service in services)
    interrupts = cores_spent(evidence, host, cpus, INTERRUPTS) or 0.0
    return min((own + interrupts) / most, 1.0), "the stack" if len(services) > 1 else f"service {services[0].name}"


def _parallelism(services: list[ServiceRecord]) -> int:
    """CPUs that all of them could fill at once."""
    return sum(min(len(service.cpus), service.parallelism or len(service.cpus)) for service in services)
