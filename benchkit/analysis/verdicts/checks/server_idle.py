"""The server was not the limit, so its rate is not its capacity."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from benchkit import units
from benchkit.analysis.verdicts.check import RATES, Check, CheckResult, Finding, SkippedCheck
from benchkit.analysis.verdicts.cpu_time import INTERRUPTS, capacity, cores_busy, cores_spent, quota_of, service_cores
from benchkit.analysis.verdicts.evidence import Evidence
from benchkit.models.thresholds import Thresholds
from benchkit.models.trial import ServiceRecord


def of_trial(evidence: Evidence, thresholds: Thresholds) -> CheckResult:
    """The busiest part of the stack against what it may use: each service, those of a quota, and all of a host together.

    One part that is full is enough: a proxy waits while what is behind it works. Closed loops at full speed only: at a
    set rate a server is as idle as it can be.
    """
    if not evidence.closed_loop:
        return ()
    services = evidence.record.services
    took = {service.name: cores for service in services if (cores := service_cores(evidence, service)) is not None}
    if any(not service.cpus or service.name not in took for service in services):
        return SkippedCheck(why="the server's CPU time or its CPUs are not recorded")
    share, what = max(_uses(evidence, took))
    if share >= thresholds.server_cpu:
        return ()
    return [
        Finding(
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
        quotas = [each for each in (quota_of(evidence, service.host), service.quota) if each is not None]
        most = capacity(len(service.cpus), service.parallelism, min(quotas, default=None))
        yield took[service.name] / most, f"service {service.name}"
    for host in evidence.server_hosts:
        services = [service for service in evidence.record.services if service.host == host]
        what = "the stack" if len(services) > 1 else f"service {services[0].name}"
        for share in _host_uses(evidence, host, services, took):
            yield min(share, 1.0), what


def _host_uses(
    evidence: Evidence, host: str, services: Sequence[ServiceRecord], took: Mapping[str, float]
) -> Iterator[float]:
    """All services of a host together: against what they may use, and with the kernel's work for them against the cores.

    Those with the same quota have it together, as services of one role do. Interrupts come on any core and in no quota.
    Kernels that count them to the processes as well have them twice, but not in the time that the cores were busy.
    """
    cpus = {cpu for service in services for cpu in service.cpus}
    own = sum(took[service.name] for service in services)
    yield own / capacity(len(cpus), _parallelism(services), quota_of(evidence, host))
    for quota in {service.quota for service in services if service.quota is not None}:
        yield sum(took[service.name] for service in services if service.quota == quota) / quota
    interrupts, busy = cores_spent(evidence, host, cpus, INTERRUPTS), cores_busy(evidence, host, cpus)
    if interrupts is not None and busy is not None:
        yield min(own + interrupts, busy) / len(cpus)


def _parallelism(services: Sequence[ServiceRecord]) -> int:
    """CPUs that all of them could fill at once."""
    return sum(min(len(service.cpus), service.parallelism or len(service.cpus)) for service in services)
