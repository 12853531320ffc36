"""CPU time of a trial: what its processes took, what they could have taken, and what their cores did."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from benchkit.analysis.verdicts.evidence import Evidence
from benchkit.models.telemetry import AGENT_SERVICE, generator_service, reducer_service
from benchkit.models.trial import GeneratorRecord, ServiceRecord

IDLE = ("cpu_idle_s_total", "cpu_iowait_s_total", "cpu_steal_s_total")
"""Time in which a core did nothing for its machine. Kernels measure it (NO_HZ), where most of them only sample at
their ticks what a core is busy with (Documentation/admin-guide/cpu-load.rst of Linux): what is left of the time is exact."""
INTERRUPTS = ("cpu_irq_s_total", "cpu_softirq_s_total")
"""What the kernel does there for devices and networks, in nobody's name or in that of whoever runs just then."""
STOLEN = ("cpu_steal_s_total",)


class CpuUsage(NamedTuple):
    """CPU time that a process took, and where it could run."""

    name: str
    host: str
    cpus: tuple[int, ...]
    """Empty: not known."""
    cores: float
    """CPU seconds a second of the window."""
    bound: bool = True
    """Whether the trial says where it runs; the agent and profilers run wherever their host lets them."""


def service_cores(evidence: Evidence, service: ServiceRecord) -> float | None:
    """CPU seconds a second that a service took: by its telemetry, else by what was read before and after the load."""
    for series in evidence.telemetry.series("cpu_s_total", service.host, service.name):
        rate = series.rate(evidence.window_s)
        if rate is not None:
            return rate
    return None if service.cpu_s is None else service.cpu_s / evidence.window_s


def generator_cores(generator: GeneratorRecord) -> float:
    """CPU seconds a second that a generator took while it ran."""
    return generator.cpu_s / generator.wall_s


def capacity(cpus: int, parallelism: int | None, quota: float | None) -> float:
    """How many CPU seconds a second a process can take: the least of its CPUs, what its options allow, and the quota."""
    return min([float(cpus), *(limit for limit in (parallelism, quota) if limit is not None)])


def quota_of(evidence: Evidence, host: str) -> float | None:
    """CPUs' worth of time that control groups grant the host; None: no quota, or none known."""
    watch = evidence.watch(host)
    return None if watch is None else watch.cpu_quota


def cores_busy(evidence: Evidence, host: str, cpus: Collection[int]) -> float | None:
    """CPU seconds a second that these cores of a host were busy; None where not all of them were watched.

    Kernels state times in hundredths of a second: an idle core may come out below zero as well as above, and only all
    of them together are kept from that.
    """
    busy = 0.0
    for cpu in cpus:
        away = evidence.telemetry.growths(IDLE, host, str(cpu), evidence.window_s)
        if away is None:
            return None
        busy += (away[0].elapsed_s - sum([each.increase for each in away])) / away[0].covered_s
    return max(busy, 0.0) if cpus else None


def cores_spent(evidence: Evidence, host: str, cpus: Collection[int], metrics: tuple[str, ...]) -> float | None:
    """CPU seconds a second that these cores of a host spent so; None where not all of them were watched."""
    spent: list[float] = []
    for cpu in cpus:
        grown = evidence.telemetry.growths(metrics, host, str(cpu), evidence.window_s)
        if grown is None:
            return None
        spent += [each.increase / each.covered_s for each in grown]
    return sum(spent) if spent else None


def cpu_usage(evidence: Evidence) -> Iterator[CpuUsage] | None:
    """What every process of the trial took, benchkit's own among them; None where that of a service is not known."""
    services = [(service, service_cores(evidence, service)) for service in evidence.record.services]
    if any(cores is None for _, cores in services):
        return None
    return _process_usage(evidence, [(service, cores or 0.0) for service, cores in services])


def _process_usage(evidence: Evidence, services: Sequence[tuple[ServiceRecord, float]]) -> Iterator[CpuUsage]:
    record = evidence.record
    for service, cores in services:
        yield CpuUsage(service.name, service.host, service.cpus, cores)
    for generator in record.generators:
        name = generator_service(generator.number)
        yield CpuUsage(name, generator.host, generator.cpus, generator.cpu_s / evidence.window_s)
        reducer = reducer_service(generator.number)
        yield from _telemetry_usage(evidence, reducer, generator.host, generator.cpus, bound=True)
    for profile in record.profiles:
        if profile.cpu_s is not None:  # it records within the window alone
            name = f"profiler of {profile.service}"
            cpus = _cpus_of(evidence, profile.host)
            yield CpuUsage(name, profile.host, cpus, profile.cpu_s / evidence.window_s, bound=False)
    for host in evidence.hosts:
        yield from _telemetry_usage(evidence, AGENT_SERVICE, host, _cpus_of(evidence, host), bound=False)


def _cpus_of(evidence: Evidence, host: str) -> tuple[int, ...]:
    """Where a process may run that nobody has bound to CPUs."""
    return tuple(evidence.facts.get(host, {}).get("cpus") or ())


def _telemetry_usage(
    evidence: Evidence, service: str, host: str, cpus: tuple[int, ...], *, bound: bool
) -> Iterator[CpuUsage]:
    """What telemetry alone has."""
    for series in evidence.telemetry.series("cpu_s_total", host, service):
        rate = series.rate(evidence.window_s)
        if rate is not None:
            yield CpuUsage(service, host, cpus, rate, bound)


def machine_of(evidence: Evidence, host: str) -> str:
    """What tells machines apart: lab hosts are one, as all that share a boot of a kernel."""
    return str(evidence.facts.get(host, {}).get("boot_id") or host)
