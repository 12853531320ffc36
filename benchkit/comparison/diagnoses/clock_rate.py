"""Diagnosis clock-rate: the servers' cores ran at another clock rate, because of turbo or power limits."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchkit.comparison.diagnoses.diagnosis import Diagnosis, Symptom
from benchkit.comparison.diagnoses.evidence import CellEvidence, all_above
from benchkit.stats.samples import Reals

TIMES = 1.03
"""Ratio of the clock rates, from which on they explain a difference that benchkit finds."""


def _find(cell: CellEvidence, other: CellEvidence) -> Iterator[Symptom]:
    own, theirs = _rates(cell), _rates(other)
    if all_above(theirs, own, TIMES):
        is_turbo = any(host.facts.turbo for host in cell.host_records)
        yield Symptom(
            text="ran at a lower clock rate",
            evidence=f"{own.mean() / 1e9:.2f} GHz against {theirs.mean() / 1e9:.2f} GHz{'; turbo is on' if is_turbo else ''}",
            next_step="Turn turbo off, and set the governor to `performance`.",
        )


def _rates(cell: CellEvidence) -> Reals:
    rows = cell.tables.telemetry
    rows = rows[(rows["metric"] == "cpu_frequency_hz") & rows["host"].isin(cell.hosts)]
    rows = rows[rows["trial_id"].isin(cell.trials["trial_id"])]
    return rows.groupby("trial_id")["value"].mean().to_numpy(dtype=np.float64)


DIAGNOSIS = Diagnosis("clock-rate", _find)
