"""Diagnoses of CPUs: quotas, workers, soft interrupts, shared cores and clock rates."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pandas as pd

from benchkit import units
from benchkit.comparison.diagnoses.diagnosis import Diagnosis, Symptom
from benchkit.comparison.diagnoses.evidence import MARGIN, CellEvidence, all_above, mean, stands_out
from benchkit.stats.samples import Reals

LEAST_THROTTLED = 0.1
"""Share of the periods that end throttled: in fewer, a quota hardly limits the rate."""
TIMES_THROTTLED = 2.0
"""Ratio to the other cell's share that is a symptom: quotas may throttle both cells."""
FULL_QUOTA = 0.8
"""Share of its quota that a cell uses, from which on a quota smaller than the other cell's limits the rate."""
QUOTA_WAIT_S = (0.03, 0.1)
"""Waits of a request that comes while the quota of a period is used up: up to the usual period of 100 ms."""
PERIODS = (("quota_throttled_total", "quota_periods_total"), ("cgroup_throttled_total", "cgroup_periods_total"))
"""Counters of throttled periods and of all periods: of the services' own cgroups, and of their hosts' cgroups."""


def _stopped_by_quota(cell: CellEvidence, other: CellEvidence) -> Iterator[Symptom]:
    """Yield a CPU quota that stops the servers in many of its periods (cgroups, cpu.stat)."""
    share, others = _throttled(cell), _throttled(other)
    quota, others_quota, used = _quota(cell), _quota(other), mean(cell.cores_used)
    is_equal = math.isfinite(quota) and quota == others_quota  # a quota of both cells explains no difference
    seen = []
    if share >= LEAST_THROTTLED and share >= TIMES_THROTTLED * others and not is_equal:
        seen.append(f"{units.share(share)} of the quota's periods end throttled")
    if used is not None and quota < others_quota and used >= FULL_QUOTA * quota:
        seen.append(f"it uses {units.ratio(used)} of the {quota:g} CPUs of its quota")
    late = cell.latency.share(*QUOTA_WAIT_S)
    if seen and late >= LEAST_THROTTLED / 10:
        low, high = (units.seconds(end) for end in QUOTA_WAIT_S)
        seen.append(f"{units.share(late)} of the requests take {low} to {high}")
    if seen:
        yield Symptom(
            text="is stopped by its CPU quota",
            evidence="; ".join(seen),
            next_step="Give it a larger quota, or compare at equal quotas.",
        )


def _quota(cell: CellEvidence) -> float:
    """Return the CPU quota that all services of a cell share; infinite: none is recorded."""
    return min((each.quota or math.inf for record in cell.records for each in record.services), default=math.inf)


def _throttled(cell: CellEvidence) -> float:
    """Return the largest share of periods that ended throttled; 0 without a quota."""
    found = [0.0]
    for throttled, periods in PERIODS:
        of_hosts = throttled.startswith("cgroup")
        for service in (None,) if of_hosts else cell.services:
            stopped, all_of_them = (cell.per_second(each, service, host_wide=of_hosts) for each in (throttled, periods))
            if len(stopped) == len(all_of_them) and all_of_them.sum() > 0:
                found.append(float(stopped.sum() / all_of_them.sum()))
    return max(found)


QUOTA_PERIODS = Diagnosis("quota-periods", _stopped_by_quota)


MOST_OF_ONE = 0.8
"""Share of the workers' CPU time that one of them uses alone."""
ONE_THREAD = (0.9, 1.05)
"""CPU cores that a service uses if one thread is busy all the time and the others are idle."""
MORE_CORES = 1.3
"""Ratio of the cores that the other cell uses, from which on one thread is a limit."""


def _one_busy(cell: CellEvidence, other: CellEvidence) -> Iterator[Symptom]:
    """Yield a service of which one worker, or one thread, does all the work while others could."""
    most = max((each.busiest / each.workers for each in other.workers), default=0.0)
    for each in cell.workers:
        share = each.busiest / each.workers
        several = [record.parallelism != 1 for record in cell.service_records(each.service)]
        is_uneven = share >= MOST_OF_ONE and MARGIN * (1 - share) < 1 - most
        if is_uneven and several and all(several):  # nginx with one worker has a process for its cache, too
            yield Symptom(
                service=each.service,
                text="leaves the work to one of its workers",
                evidence=f"one of {each.workers} workers used {units.share(share)} of their CPU time",
                next_step="Let workers share connections: `reuseport`, or `accept_mutex off` with more connections.",
            )
    used, others = mean(cell.cores_used), mean(other.cores_used)
    for name in cell.services:
        of_service = mean(cell.per_second("cpu_s_total", name))
        allowed = min((len(each.cpus) for each in cell.service_records(name)), default=1)
        if of_service is None or used is None or others is None or allowed <= 1:
            continue
        if ONE_THREAD[0] <= of_service <= ONE_THREAD[1] and others >= MORE_CORES * used:
            yield Symptom(
                service=name,
                text="works on one thread",
                evidence=f"it used {units.ratio(of_service)} of {allowed} CPUs, and the other cell {units.ratio(others)}",
                next_step="Start as many workers as it has CPUs.",
            )


ONE_BUSY = Diagnosis("one-busy", _one_busy)


WORKERS_PER_CPU = 3.0
"""Workers for each CPU from which on they take turns all the time."""


def _crowded_cpus(cell: CellEvidence, other: CellEvidence) -> Iterator[Symptom]:
    """Yield a service with more busy processes than CPUs."""
    others = max((each.workers - each.idle for each in other.workers), default=0.0)
    for each in cell.workers:
        cpus = max((len(record.cpus) for record in cell.service_records(each.service)), default=0)
        busy = each.workers - each.idle
        if cpus and busy > 1 and stands_out(busy, others, WORKERS_PER_CPU * cpus):
            yield Symptom(
                service=each.service,
                text="has more busy workers than CPUs",
                evidence=f"{busy:.0f} workers on {units.counted(cpus, 'CPU')}",
                next_step="Start one worker for each CPU.",
            )


CROWDED_CPUS = Diagnosis("crowded-cpus", _crowded_cpus)


LEAST_SOFTIRQ = 0.5
"""Share of a core that soft interrupts use."""
TIMES_OTHERS = 4.0
"""Ratio of that core to the mean of the others."""


def _softirq_shares(cell: CellEvidence) -> pd.Series[float]:
    """Return the share of each core of the servers' hosts that soft interrupts use, the largest first."""
    rows = cell.increases[(cell.increases["metric"] == "cpu_softirq_s_total") & cell.increases["host"].isin(cell.hosts)]
    return rows.groupby(["host", "instance"])["rate"].mean().sort_values(ascending=False)


def _softirq_core(cell: CellEvidence, other: CellEvidence) -> Iterator[Symptom]:
    """Yield a core that handles the network's soft interrupts for all others."""
    others = next(iter(_softirq_shares(other)), 0.0)
    for host, of_host in _softirq_shares(cell).groupby("host"):
        cores = of_host.droplevel("host")
        if len(cores) > 1 and stands_out(
            cores.iloc[0], others, max(LEAST_SOFTIRQ, TIMES_OTHERS * cores.iloc[1:].mean())
        ):
            yield Symptom(
                text=f"leaves all soft interrupts to core {cores.index[0]} of {host}",
                evidence=f"they use {units.share(cores.iloc[0])} of it, and {units.share(cores.iloc[1:].mean())} of the others",
                next_step="Distribute received packets: receive queues of the interface, or packet steering (rps_cpus).",
            )


SOFTIRQ = Diagnosis("softirq", _softirq_core)


def _shared_cores(cell: CellEvidence, _other: CellEvidence) -> Iterator[Symptom]:
    """Yield servers and load that slow each other on hardware threads of the same cores (SMT)."""
    machines = {host.name: host.facts.boot_id or host.name for host in cell.tables.run.manifest.hosts}
    used = {(machines.get(each.host, each.host), cpu) for r in cell.records for each in r.services for cpu in each.cpus}
    loaded = {
        (machines.get(each.host, each.host), cpu) for r in cell.records for each in r.generators for cpu in each.cpus
    }
    cores = {(machines[host.name], cpus) for host in cell.host_records for cpus in host.facts.shared_cores}
    shared = [
        cpus
        for machine, cpus in sorted(cores)
        if (own := {cpu for cpu in cpus if (machine, cpu) in used})
        and {cpu for cpu in cpus if (machine, cpu) in loaded} - own
    ]
    if shared:
        yield Symptom(
            text="shares cores with its load (hardware threads of SMT)",
            evidence="; ".join(f"CPUs {' and '.join(map(str, cpus))} are one core" for cpus in shared),
            next_step="Give servers and load CPUs of different cores, or other hosts.",
        )


SHARED_CORES = Diagnosis("shared-cores", _shared_cores)


def _turbo(cell: CellEvidence, other: CellEvidence) -> Iterator[Symptom]:
    """Yield clock rates that may rise above their base, which depends on heat and on how many cores are busy."""
    hosts = [host.name for host in cell.host_records if host.facts.turbo]
    fixed = [host.name for host in other.host_records if host.facts.turbo is False]
    if hosts and fixed:
        yield Symptom(
            text="runs with turbo on",
            evidence=f"cores of {' and '.join(hosts)} may exceed their base clock rate, those of {' and '.join(fixed)} not",
            next_step="Turn turbo off on all hosts: `intel_pstate/no_turbo` or `cpufreq/boost` below /sys/devices/system/cpu.",
        )


TURBO = Diagnosis("turbo", _turbo)


CLOCK_RATIO = 1.03
"""Ratio of the clock rates, from which on they explain a difference that benchkit finds."""


def _clock_rate(cell: CellEvidence, other: CellEvidence) -> Iterator[Symptom]:
    """Yield another clock rate of the servers' cores, because of turbo or power limits."""
    own, theirs = _clock_rates(cell), _clock_rates(other)
    if all_above(theirs, own, CLOCK_RATIO):
        is_turbo = any(host.facts.turbo for host in cell.host_records)
        yield Symptom(
            text="ran at a lower clock rate",
            evidence=f"{own.mean() / 1e9:.2f} GHz against {theirs.mean() / 1e9:.2f} GHz{'; turbo is on' if is_turbo else ''}",
            next_step="Turn turbo off, and set the governor to `performance`.",
        )


def _clock_rates(cell: CellEvidence) -> Reals:
    rows = cell.tables.telemetry
    rows = rows[(rows["metric"] == "cpu_frequency_hz") & rows["host"].isin(cell.hosts)]
    rows = rows[rows["trial_id"].isin(cell.trials["trial_id"])]
    return rows.groupby("trial_id")["value"].mean().to_numpy(dtype=np.float64)


CLOCK_RATE = Diagnosis("clock-rate", _clock_rate)
