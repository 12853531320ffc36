"""Rates from counters in telemetry, with gaps kept. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

GAP = 3.0
"""Distance of two samples in usual intervals from which on there is a gap between them, across which no line is
drawn."""


def counter_sums(samples: pd.DataFrame, metrics: Sequence[str], by: Sequence[str]) -> pd.DataFrame:
    """Return the sum of metrics over their instances at each time: columns `by`, t_s, value.

    `samples` are rows of `telemetry`. If an instance (core, interface, process) has no sample at a time, the sum is
    unknown and its row is omitted.
    """
    keys = [*by, "t_s"]
    rows = samples[samples["metric"].isin(list(metrics))]
    if rows.empty:
        return pd.DataFrame(columns=[*keys, "value"])
    summed = rows.groupby(keys, dropna=False)["value"].agg(["sum", "count"]).reset_index()
    instances = summed.groupby(list(by), dropna=False)["count"].transform("max")
    return summed[summed["count"] == instances].rename(columns={"sum": "value"})[[*keys, "value"]]


def rates(counters: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """Return the increase per second of a counter between two samples, at the later one: columns `by`, t_s, value.

    A gap gives a row without a value, which interrupts a line through the rows; so does a decrease, as after the
    restart of a process.
    """
    rows = counters.sort_values([*by, "t_s"], kind="stable")
    groups = rows.groupby(list(by), dropna=False, sort=False)
    elapsed_s, increase = groups["t_s"].diff(), groups["value"].diff()
    usual_s = elapsed_s.groupby([rows[key] for key in by], dropna=False).transform("median")
    is_known = (elapsed_s > 0) & (elapsed_s <= GAP * usual_s) & (increase >= 0)
    return rows.assign(value=(increase / elapsed_s).where(is_known, np.nan))[elapsed_s.notna()]
