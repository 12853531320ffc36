"""Diagnosis waits: each request waits for something that uses no CPU time, such as a timer or another server."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchkit import units
from benchkit.comparison.diagnoses.diagnosis import Diagnosis, Symptom
from benchkit.comparison.diagnoses.evidence import CellEvidence
from benchkit.models.metrics import CPU

FAST = 0.05
"""Share of the fastest requests, which wait least for other requests."""
LEAST_S = 0.0005
"""Wait that stands out from the scheduling of threads."""
TIMES = 2.0
"""Ratio to the longest wait for the CPU, which is connections times CPU time over cores. This is the response time law
(Denning and Buzen, The Operational Analysis of Queueing Network Models, 1978)."""


def _find(cell: CellEvidence, other: CellEvidence) -> Iterator[Symptom]:
    own, theirs = cell.latency.quantile(FAST), other.latency.quantile(FAST)
    queue_s = _queue_s(cell)
    if own is None or theirs is None or queue_s is None:
        return
    if own - theirs >= LEAST_S and own >= TIMES * queue_s:
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


DIAGNOSIS = Diagnosis("waits", _find)
