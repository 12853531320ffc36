"""Which latency percentiles a trial has, and their curves."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import numpy.typing as npt
import pandas as pd

from benchkit.models.columns import PercentileMetric
from benchkit.models.metrics import PERCENTILES
from benchkit.report.stored_run import numbers

Reals = npt.NDArray[np.float64]


def stored(trials: pd.DataFrame) -> tuple[PercentileMetric, ...]:
    """The percentiles that at least one of the trials has."""
    return tuple(percentile for percentile in PERCENTILES.values() if numbers(trials[percentile.name]).notna().any())


LOWEST_NINES, STEP_NINES = 0.05, 0.05
"""Where curves begin (p10.9) and how far their points lie apart, in nines: 1 is p90, 2 is p99."""

BEYOND = 10
"""Requests that must lie above a percentile for it to be drawn: fewer are anecdotes."""


def curves(buckets: pd.DataFrame, trials: Collection[str]) -> dict[str, tuple[Reals, Reals]]:
    """Latency against the number of nines, for each of the trials that has a histogram: (nines, seconds).

    `buckets` are rows of `latency`; the raw series counts. As far as `BEYOND` requests lie above, and never averaged
    over trials.
    """
    raw = buckets[(buckets["series"] == "raw") & buckets["trial_id"].isin(list(trials))]
    found: dict[str, tuple[Reals, Reals]] = {}
    for trial_id, rows in raw.sort_values("low_s", kind="stable").groupby("trial_id", sort=False):
        below = np.cumsum(rows["count"].to_numpy(dtype=np.float64))
        highest = np.log10(below[-1] / BEYOND)
        nines = np.arange(LOWEST_NINES, highest, STEP_NINES)
        if len(nines):
            at = np.searchsorted(below, below[-1] * (1 - 10**-nines) - 1e-9)
            found[str(trial_id)] = nines, rows["high_s"].to_numpy(dtype=np.float64)[at]
    return found
