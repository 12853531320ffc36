"""Diagnosis quota-periods: a CPU quota stops the servers in many of its periods (cgroups, cpu.stat)."""

from __future__ import annotations

import math
from collections.abc import Iterator

from benchkit import units
from benchkit.comparison.diagnoses.diagnosis import Diagnosis, Symptom
from benchkit.comparison.diagnoses.evidence import CellEvidence, mean

LEAST = 0.1
"""Share of the periods that end throttled: in fewer, a quota hardly limits the rate."""
TIMES = 2.0
"""Ratio to the other cell's share that is a symptom: quotas may throttle both cells."""
FULL = 0.8
"""Share of its quota that a cell uses, from which on a quota smaller than the other cell's limits the rate."""
PERIOD_S = (0.03, 0.1)
"""Waits of a request that comes while the quota of a period is used up: up to the usual period of 100 ms."""
COUNTERS = (("quota_throttled_total", "quota_periods_total"), ("cgroup_throttled_total", "cgroup_periods_total"))
"""Counters of throttled periods and of all periods: of the services' own cgroups, and of their hosts' cgroups."""


def _find(cell: CellEvidence, other: CellEvidence) -> Iterator[Symptom]:
    share, others = _throttled(cell), _throttled(other)
    quota, others_quota, used = _quota(cell), _quota(other), mean(cell.cores_used)
    is_equal = math.isfinite(quota) and quota == others_quota  # a quota of both cells explains no difference
    seen = []
    if share >= LEAST and share >= TIMES * others and not is_equal:
        seen.append(f"{units.share(share)} of the quota's periods end throttled")
    if used is not None and quota < others_quota and used >= FULL * quota:
        seen.append(f"it uses {units.ratio(used)} of the {quota:g} CPUs of its quota")
    late = cell.latency.share(*PERIOD_S)
    if seen and late >= LEAST / 10:
        low, high = (units.seconds(end) for end in PERIOD_S)
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
    for throttled, periods in COUNTERS:
        of_hosts = throttled.startswith("cgroup")
        for service in (None,) if of_hosts else cell.services:
            stopped, all_of_them = (cell.per_second(each, service, host_wide=of_hosts) for each in (throttled, periods))
            if len(stopped) == len(all_of_them) and all_of_them.sum() > 0:
                found.append(float(stopped.sum() / all_of_them.sum()))
    return max(found)


DIAGNOSIS = Diagnosis("quota-periods", _find)
