"""Diagnoses of waiting: for locks, for what uses no CPU time, and by switching threads."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchkit import units
from benchkit.comparison.diagnoses.diagnosis import Diagnosis, Symptom
from benchkit.comparison.diagnoses.evidence import CellEvidence, all_above, mean, stands_out
from benchkit.models.metrics import CPU

LEAST_WAITING = 1.0
"""Goroutines that wait for a lock at any time, as a mean."""


def _waits_for_lock(cell: CellEvidence, other: CellEvidence) -> Iterator[Symptom]:
    """Yield requests that wait for a lock that another request holds."""
    others = mean(other.per_second("mutex_wait_s_total"))
    for name in cell.services:
        waiting = mean(cell.per_second("mutex_wait_s_total", name))
        if waiting is not None and stands_out(waiting, others, LEAST_WAITING):
            wait = mean(cell.per_request("mutex_wait_s_total", name)) or 0.0
            yield Symptom(
                service=name,
                text="waits for a lock",
                evidence=f"{units.seconds(wait)} for each request; {waiting:.1f} goroutines wait at any time",
                next_step="Hold the lock for less time, or divide what it protects; Go's mutex profile names it.",
            )


LOCK_WAITS = Diagnosis("lock-waits", _waits_for_lock)


FAST = 0.05
"""Share of the fastest requests, which wait least for other requests."""
LEAST_WAIT_S = 0.0005
"""Wait that stands out from the scheduling of threads."""
TIMES_QUEUE = 2.0
"""Ratio to the longest wait for the CPU, which is connections times CPU time over cores. This is the response time law
(Denning and Buzen, The Operational Analysis of Queueing Network Models, 1978)."""


def _waits_without_cpu(cell: CellEvidence, other: CellEvidence) -> Iterator[Symptom]:
    """Yield requests that wait for what uses no CPU time, such as a timer or another server."""
    own, theirs = cell.latency.quantile(FAST), other.latency.quantile(FAST)
    queue_s = _queue_s(cell)
    if own is None or theirs is None or queue_s is None:
        return
    if own - theirs >= LEAST_WAIT_S and own >= TIMES_QUEUE * queue_s:
        yield Symptom(
            text="waits in each request without using the CPU",
            evidence=f"its fastest requests take {units.seconds(own)} against {units.seconds(theirs)}; the CPU time of "
            f"requests on all connections explains {units.seconds(queue_s)}",
            next_step="Look for a timer, a call to another server, a lock, or a quota.",
        )


def _queue_s(cell: CellEvidence) -> float | None:
    """Return the time that the cores need for one request of each connection; None: unknown."""
    cores = [
        min(len(service.cpus) or np.inf, service.quota or np.inf) for each in cell.records for service in each.services
    ]
    busy_s = (cell.trials["connections"].astype("float64") * cell.trials[CPU].astype("float64")).dropna()
    if not len(busy_s) or not cores or not np.isfinite(cores).all():
        return None
    return float(busy_s.mean()) / min(cores)


WAITS = Diagnosis("waits", _waits_without_cpu)


SWITCH_RATIO = 3.0
"""Ratio of the switches for each request; their number varies with the load on a core."""
OF_CPU_TIME = 2.0
"""Ratio of the switches for each second of CPU time: longer work is interrupted more often, which is no cause."""
LEAST_SWITCHES = {"voluntary_switches_total": 0.5, "involuntary_switches_total": 1.0}
"""Switches for each request: one costs about a microsecond. Busy neighbours alone force some."""
KINDS = {"voluntary_switches_total": "voluntary", "involuntary_switches_total": "involuntary"}


def _switches_often(cell: CellEvidence, other: CellEvidence) -> Iterator[Symptom]:
    """Yield several times as many context switches for each request as the other cell has."""
    for metric, kind in KINDS.items():
        own, theirs = cell.per_request(metric), other.per_request(metric)
        rates = [each.per_second(metric).sum() / max(each.cores_used.sum(), 1e-9) for each in (cell, other)]
        if (
            all_above(own, theirs, SWITCH_RATIO)
            and own.mean() >= LEAST_SWITCHES[metric]
            and rates[0] >= OF_CPU_TIME * rates[1]
        ):
            yield Symptom(
                text=f"switches threads often ({kind} context switches)",
                evidence=f"{own.mean():.2f} per request against {theirs.mean():.2f}",
                next_step="`benchkit run --trace` shows what its threads wait for; fewer threads or larger batches help.",
            )


CONTEXT_SWITCHES = Diagnosis("context-switches", _switches_often)
