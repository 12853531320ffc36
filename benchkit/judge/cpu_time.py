"""CPU time of a trial: the time that its processes used and could use, and the time that their cores were busy."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from benchkit.judge.evidence import Evidence
from benchkit.models.telemetry import AGENT_SERVICE, generator_service, is_neighbour, reducer_service
from benchkit.models.trial import GeneratorRecord, ServiceRecord

NOT_BUSY = ("cpu_idle_s_total", "cpu_iowait_s_total", "cpu_steal_s_total")
"""Time in which a core did not work for its machine. Kernels measure it (NO_HZ), while most only sample busy time at
their ticks (Documentation/admin-guide/cpu-load.rst of Linux): elapsed time less this is exact."""
INTERRUPTS = ("cpu_irq_s_total", "cpu_softirq_s_total")
"""Time of the kernel for devices and networks, attributed to no process or to the running one."""
STOLEN = ("cpu_steal_s_total",)


class CpuUsage(NamedTuple):
    """CPU time that a process used, and the CPUs that it could run on."""

    name: str
    host: str
    cpus: tuple[int, ...]
    """Empty: unknown."""
    cores: float
    """CPU seconds per second of the window."""
    bound: bool = True
    """True for a process bound to these CPUs by the trial; the agent and profilers run on any CPU of their host."""


def service_cores(evidence: Evidence, service: ServiceRecord) -> float | None:
    """Return the CPU seconds per second that a service used, from telemetry or else from its record."""
    for series in evidence.telemetry.series("cpu_s_total", service.host, service.name):
        rate = series.rate(evidence.window_s)
        if rate is not None:
            return rate
    return None if service.cpu_s is None else service.cpu_s / evidence.window_s


def generator_cores(generator: GeneratorRecord) -> float:
    """Return the CPU seconds per second that a generator used while it ran."""
    return generator.cpu_s / generator.wall_s


def capacity(cpus: int, parallelism: int | None, quota: float | None) -> float:
    """Return the CPU seconds per second for a process: the least of its CPUs, its parallelism and its quota."""
    return min([float(cpus), *(limit for limit in (parallelism, quota) if limit is not None)])


def quota_of(evidence: Evidence, host: str) -> float | None:
    """Return the CPU quota of the host's control groups, in cores; None: no quota, or unknown."""
    watch = evidence.watch(host)
    return None if watch is None else watch.cpu_quota


def cores_busy(evidence: Evidence, host: str, cpus: Collection[int]) -> float | None:
    """Return the CPU seconds per second that these cores were busy; None unless all of them were sampled.

    Kernels state times in hundredths of a second, so the figure for an idle core may be slightly negative; only the
    sum is kept from that.
    """
    busy = 0.0
    for cpu in cpus:
        not_busy = evidence.telemetry.growths(NOT_BUSY, host, str(cpu), evidence.window_s)
        if not_busy is None:
            return None
        busy += (not_busy[0].elapsed_s - sum([each.increase for each in not_busy])) / not_busy[0].covered_s
    return max(busy, 0.0) if cpus else None


def cores_spent(evidence: Evidence, host: str, cpus: Collection[int], metrics: tuple[str, ...]) -> float | None:
    """Return the CPU seconds per second of these cores in the given counters; None unless all cores were sampled."""
    rates: list[float] = []
    for cpu in cpus:
        growths = evidence.telemetry.growths(metrics, host, str(cpu), evidence.window_s)
        if growths is None:
            return None
        rates += [each.increase / each.covered_s for each in growths]
    return sum(rates) if rates else None


def cpu_usage(evidence: Evidence) -> Iterator[CpuUsage] | None:
    """Yield the CPU usage of every process of the trial, including benchkit's; None if that of a service is unknown."""
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
        yield from _reducer_usage(evidence, generator)
    for profile in record.profiles:
        if profile.cpu_s is not None:  # it records only within the window
            name = f"profiler of {profile.service}"
            cpus = _cpus_of(evidence, profile.host)
            yield CpuUsage(name, profile.host, cpus, profile.cpu_s / evidence.window_s, bound=False)
    for host in evidence.hosts:
        for series in evidence.telemetry.series("cpu_s_total", host, AGENT_SERVICE):
            rate = series.rate(evidence.window_s)
            if rate is not None:
                yield CpuUsage(AGENT_SERVICE, host, _cpus_of(evidence, host), rate, bound=False)
    yield from _neighbour_usage(evidence)


def _neighbour_usage(evidence: Evidence) -> Iterator[CpuUsage]:
    """Yield the usage by the servers of a sliced block's other cells: they run on the CPUs of the trial's servers."""
    cpus: dict[str, set[int]] = {}
    for service in evidence.record.services:
        cpus.setdefault(service.host, set()).update(service.cpus)
    for each in evidence.telemetry.series("cpu_s_total"):
        if each.service is not None and is_neighbour(each.service) and each.host in cpus:
            rate = each.rate(evidence.window_s)
            if rate is not None:
                yield CpuUsage(each.service, each.host, tuple(sorted(cpus[each.host])), rate)


def _cpus_of(evidence: Evidence, host: str) -> tuple[int, ...]:
    """Return the CPUs of a process that is not bound to any."""
    return evidence.facts_of(host).cpus


def _reducer_usage(evidence: Evidence, generator: GeneratorRecord) -> Iterator[CpuUsage]:
    """Yield the usage by the process that read the generator's rows while they were written, in older runs.

    It started with the window, often after the host's first sample, and in a short window only one sample included it.
    """
    name = reducer_service(generator.number)
    for series in evidence.telemetry.series("cpu_s_total", generator.host, name):
        rate = series.from_zero().rate(evidence.window_s)
        if rate is not None:
            yield CpuUsage(name, generator.host, generator.cpus, rate)


def machine_of(evidence: Evidence, host: str) -> str:
    """Return an identifier of the host's machine: all hosts of a lab share one boot of one kernel."""
    return evidence.facts_of(host).boot_id or host
