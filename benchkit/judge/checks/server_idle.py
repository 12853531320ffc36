"""Check server-idle: the server was not the limit, so its rate is not its capacity."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from benchkit import units
from benchkit.judge.check import RATES, Check, CheckResult, Finding, SkippedCheck
from benchkit.judge.checks.generator_saturated import STOP_OTHERS, is_crowded_out
from benchkit.judge.cpu_time import INTERRUPTS, capacity, cores_busy, cores_spent, quota_of, service_cores
from benchkit.judge.evidence import Evidence
from benchkit.models.thresholds import Thresholds
from benchkit.models.trial import ServiceRecord

MEANS = "The server was not the limit: something else limited the rate, which is not the server's capacity."
CROWDED = "Others took CPU time from it or from the load tool: with that time, something else may have been the limit."
ADVICE = "Find what it waits for: a lock, a delay, too few connections, the generator, the network."


def of_trial(evidence: Evidence, thresholds: Thresholds) -> CheckResult:
    """Compare the CPU use of the busiest part of the stack with the CPU available to it.

    The parts are each service, the services that share a quota, and all services of a host together. One full part is
    enough: a proxy waits while the server behind it works. Only for closed loops at full speed: at a target rate a
    server may well be idle. Where others took so much of its cores that it used most of the rest, or filled those of
    the load tool, it may have waited for them.
    """
    if not evidence.closed_loop:
        return ()
    use, use_of_rest = server_use(evidence, deducts_others=False), server_use(evidence)
    if use is None or use_of_rest is None:
        return SkippedCheck(why="the server's CPU time or its CPUs are not recorded")
    share, part = use
    if share >= thresholds.server_cpu:
        return ()
    is_crowded = use_of_rest[0] >= thresholds.server_cpu or is_crowded_out(evidence, thresholds)
    return [
        Finding(
            severity=evidence.disturbance if is_crowded else "invalid",
            metrics=RATES,
            seen=f"{part} used {units.share(share)} of the CPU available to it",
            threshold=f"limit: {units.share(thresholds.server_cpu)}",
            means=CROWDED if is_crowded else MEANS,
            advice=STOP_OTHERS if is_crowded else ADVICE,
        )
    ]


CHECK = Check(
    "server-idle", "the server was not the limit, so its rate is not its capacity", of_trial=of_trial, reads="servers"
)


def server_use(evidence: Evidence, *, deducts_others: bool = True) -> tuple[float, str] | None:
    """Return the share of its CPU that the busiest part of the stack used, and the name of that part.

    What other processes took of the cores was not available (`deducts_others`), unless that makes the trial unusable by
    itself. None where the CPU time or the CPUs of a service are not recorded, and where none is watched.
    """
    services = evidence.record.services
    used = {service.name: cores for service in services if (cores := service_cores(evidence, service)) is not None}
    if not services or any(not service.cpus or service.name not in used for service in services):
        return None
    return max(_shares(evidence, used, deducts_others=deducts_others and evidence.disturbance == "suspect"))


def _shares(evidence: Evidence, used: Mapping[str, float], *, deducts_others: bool) -> Iterator[tuple[float, str]]:
    """Yield the share of its CPU that each part of the stack used, and the name of the part."""
    for service in evidence.record.services:
        quotas = [each for each in (quota_of(evidence, service.host), service.quota) if each is not None]
        available = capacity(len(service.cpus), service.parallelism, min(quotas, default=None))
        yield used[service.name] / available, f"service {service.name}"
    for host in evidence.server_hosts:
        services = [service for service in evidence.record.services if service.host == host]
        part = "the stack" if len(services) > 1 else f"service {services[0].name}"
        for share in _host_shares(evidence, host, services, used, deducts_others=deducts_others):
            yield min(share, 1.0), part


def _host_shares(
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
    yield total / capacity(len(cpus), _parallelism(services), quota_of(evidence, host))
    for quota in {service.quota for service in services if service.quota is not None}:
        yield sum(used[service.name] for service in services if service.quota == quota) / quota
    interrupts, busy = cores_spent(evidence, host, cpus, INTERRUPTS), cores_busy(evidence, host, cpus)
    if interrupts is not None and busy is not None:
        yield min(total + interrupts, busy) / len(cpus)
        left = len(cpus) - max(0.0, busy - total - interrupts)
        if deducts_others and left > 0:
            yield total / left


def _parallelism(services: Sequence[ServiceRecord]) -> int:
    """Return the number of CPUs that all of them could fill at once."""
    return sum(min(len(service.cpus), service.parallelism or len(service.cpus)) for service in services)
