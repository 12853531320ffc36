"""CPU time of a trial: used by its processes and available to them; load and speed of their cores."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from statistics import harmonic_mean
from typing import NamedTuple

from benchkit.judge.evidence import Evidence
from benchkit.models.telemetry import AGENT_SERVICE, is_neighbour
from benchkit.models.trial import GeneratorRecord, ServiceRecord

NOT_BUSY = ("cpu_idle_s_total", "cpu_iowait_s_total", "cpu_steal_s_total")
"""Counters of the time in which a core did no work for this machine. Kernels measure this time (NO_HZ), but most only
sample busy time at ticks (Documentation/admin-guide/cpu-load.rst of Linux). So busy time is elapsed time less this."""
INTERRUPTS = ("cpu_irq_s_total", "cpu_softirq_s_total")
"""Counters of the kernel's time for devices and networks, which it charges to no process or to the running one."""
STOLEN = ("cpu_steal_s_total",)
MIN_LOOP_SAMPLES = 3
"""Samples of the speed of cores within a window that a mean needs."""


class CpuUsage(NamedTuple):
    """CPU time that a process used, and the CPUs that it could run on."""

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

    Kernels state times in hundredths of a second, so the time of an idle core may be slightly negative; the sum never
    is.
    """
    busy = 0.0
    for cpu in cpus:
        not_busy = evidence.telemetry.increases(NOT_BUSY, host, str(cpu), evidence.window_s)
        if not_busy is None:
            return None
        busy += (not_busy[0].elapsed_s - sum([each.increase for each in not_busy])) / not_busy[0].covered_s
    return max(busy, 0.0) if cpus else None


def cores_spent(evidence: Evidence, host: str, cpus: Collection[int], metrics: tuple[str, ...]) -> float | None:
    """Return the CPU seconds per second of these cores in the given counters; None unless all cores were sampled."""
    rates: list[float] = []
    for cpu in cpus:
        increases = evidence.telemetry.increases(metrics, host, str(cpu), evidence.window_s)
        if increases is None:
            return None
        rates += [each.increase / each.covered_s for each in increases]
    return sum(rates) if rates else None


def cpu_usage(evidence: Evidence) -> Sequence[CpuUsage] | None:
    """Return the CPU usage of all processes of the trial and of benchkit; None if that of a service is unknown."""
    record, window_s = evidence.record, evidence.window_s
    usages: list[CpuUsage] = []
    for service in record.services:
        cores = service_cores(evidence, service)
        if cores is None:
            return None
        usages.append(CpuUsage(service.host, service.cpus, cores))
    usages += [CpuUsage(each.host, each.cpus, each.cpu_s / window_s) for each in record.generators]
    usages += [
        CpuUsage(each.host, evidence.facts_of(each.host).cpus, each.cpu_s / window_s, bound=False)
        for each in record.profiles
        if each.cpu_s is not None  # a profiler runs only within the window
    ]
    usages += [
        CpuUsage(host, evidence.facts_of(host).cpus, rate, bound=False)
        for host in evidence.hosts
        for series in evidence.telemetry.series("cpu_s_total", host, AGENT_SERVICE)
        if (rate := series.rate(window_s)) is not None
    ]
    return [*usages, *_neighbour_usage(evidence)]


def _neighbour_usage(evidence: Evidence) -> Iterator[CpuUsage]:
    """Yield the usage by the servers of a sliced block's other cells: they run on the CPUs of the trial's servers."""
    cpus: dict[str, set[int]] = {}
    for service in evidence.record.services:
        cpus.setdefault(service.host, set()).update(service.cpus)
    for each in evidence.telemetry.series("cpu_s_total"):
        if each.service is not None and is_neighbour(each.service) and each.host in cpus:
            rate = each.rate(evidence.window_s)
            if rate is not None:
                yield CpuUsage(each.host, tuple(sorted(cpus[each.host])), rate)


def machine_of(evidence: Evidence, host: str) -> str:
    """Return an identifier of the host's machine: all hosts of a lab share one boot of one kernel."""
    return evidence.facts_of(host).boot_id or host


def host_stolen_share(evidence: Evidence, host: str) -> float | None:
    """Return the share of time in which the trial's cores had work but another machine ran; None if unknown."""
    of_services = {cpu for each in evidence.record.services if each.host == host for cpu in each.cpus}
    cpus = of_services | evidence.generator_cpus(host)
    stolen = cores_spent(evidence, host, cpus, STOLEN)
    return None if stolen is None else max(0.0, stolen) / len(cpus)


def stolen_share(evidence: Evidence) -> float | None:
    """Return the share of CPU time that the hypervisor withheld, on the worst host; None if unknown."""
    shares = (host_stolen_share(evidence, host) for host in evidence.hosts)
    return max((share for share in shares if share is not None), default=None)


def quota_withheld(evidence: Evidence, host: str) -> float | None:
    """Return the seconds per second withheld by a quota of the host itself: 0 without one, None if unknown.

    Quotas of the scenario apply in control groups of their own, separate from the agent's, and are not included.
    """
    series = evidence.telemetry.series("cgroup_throttled_s_total", host)
    if not series:
        return 0.0 if quota_of(evidence, host) is None else None
    rates = [each.rate(evidence.window_s) for each in series]
    return max((rate for rate in rates if rate is not None), default=None)


def withheld_share(evidence: Evidence) -> float | None:
    """Return the share of the window in which a quota withheld CPU time, on the worst host; None if unknown."""
    shares = (quota_withheld(evidence, host) for host in evidence.hosts)
    return max((share for share in shares if share is not None), default=None)


def server_loop_s(evidence: Evidence) -> float | None:
    """Return the time of a short loop on the server's cores (`cpu_loop_s` of the telemetry) over the window.

    It is the harmonic mean over all samples, whose inverse is the mean speed. None with fewer than `MIN_LOOP_SAMPLES`.
    """
    samples: list[float] = []
    for host, cpu in {(each.host, cpu) for each in evidence.record.services for cpu in each.cpus}:
        series = evidence.telemetry.instance("cpu_loop_s", host, str(cpu))
        if series is not None:
            samples += [each for each in series.in_window(evidence.window_s) if each > 0]  # 0 is an error of the clock
    return harmonic_mean(samples) if len(samples) >= MIN_LOOP_SAMPLES else None
