"""Diagnosis quota-periods: a CPU quota stops the servers in many of its periods (cgroups, cpu.stat)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchkit import units
from benchkit.comparison.diagnoses.diagnosis import Diagnosis, Symptom
from benchkit.comparison.diagnoses.evidence import CellEvidence

LEAST = 0.1
"""Share of the periods that end throttled: in fewer, a quota hardly limits the rate."""
PERIOD_S = (0.03, 0.1)
"""Waits of a request that comes while the quota of a period is used up: up to the usual period of 100 ms."""


def _find(cell: CellEvidence, _other: CellEvidence) -> Iterator[Symptom]:
    throttled = cell.per_second("cgroup_throttled_total", host_wide=True)
    periods = cell.per_second("cgroup_periods_total", host_wide=True)
    if not len(periods) or len(throttled) != len(periods) or not np.all(periods > 0):
        return
    share = float((throttled / periods).mean())
    if share < LEAST:
        return
    late = cell.latency.share(*PERIOD_S)
    waits = f"; {units.share(late)} of the requests take {units.seconds(PERIOD_S[0])} to {units.seconds(PERIOD_S[1])}"
    yield Symptom(
        text="is stopped by its CPU quota",
        evidence=f"{units.share(share)} of the quota's periods end throttled{waits if late >= LEAST / 10 else ''}",
        next_step="Give it a larger quota, or compare at equal quotas.",
    )


DIAGNOSIS = Diagnosis("quota-periods", _find)
