"""Latency percentiles of trials, and their curves from histograms."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import numpy.typing as npt
import pandas as pd

from benchkit.models.columns import PercentileMetric
from benchkit.models.metrics import PERCENTILES
from benchkit.report.metric_values import numbers

Reals = npt.NDArray[np.float64]


LOWEST_NINES, STEP_NINES = 0.05, 0.05
"""Start of the curves (p10.9) and distance of their points, in nines: 1 is p90, 2 is p99."""

BEYOND = 10
"""Requests that must lie above a percentile for it to be drawn: fewer are anecdotes."""


def stored_percentiles(trials: pd.DataFrame) -> tuple[PercentileMetric, ...]:
    """Return the percentiles that at least one of the trials has."""
    return tuple(percentile for percentile in PERCENTILES.values() if numbers(trials[percentile.name]).notna().any())


def histogram_curves(buckets: pd.DataFrame, trials: Collection[str]) -> dict[str, tuple[Reals, Reals]]:
    """Return latency against the number of nines, for each of the trials that has a histogram: (nines, seconds).

    `buckets` are rows of `latency`, of which the raw series is used. A curve ends where `BEYOND` requests lie above;
    trials are never averaged.
    """
    raw = buckets[(buckets["series"] == "raw") & buckets["trial_id"].isin(list(trials))]
    curves: dict[str, tuple[Reals, Reals]] = {}
    for trial_id, rows in raw.sort_values("low_s", kind="stable").groupby("trial_id", sort=False):
        below = np.cumsum(rows["count"].to_numpy(dtype=np.float64))
        highest = np.log10(below[-1] / BEYOND)
        nines = np.arange(LOWEST_NINES, highest, STEP_NINES)
        if len(nines):
            at = np.searchsorted(below, below[-1] * (1 - 10**-nines) - 1e-9)
            curves[str(trial_id)] = nines, rows["high_s"].to_numpy(dtype=np.float64)[at]
    return curves
