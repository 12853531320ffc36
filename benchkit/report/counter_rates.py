"""Rates out of telemetry: what counters say of an interval, with gaps left as gaps. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

GAP = 3.0
"""Samples further apart than so many usual intervals have a gap between them, across which no line is drawn."""


def series(samples: pd.DataFrame, metrics: Sequence[str], by: Sequence[str]) -> pd.DataFrame:
    """The sum of metrics over their instances at each instant: columns `by`, t_s, value.

    `samples` are rows of `telemetry`; an instance (core, interface, process) that is missing at an instant makes the sum
    there unknown, and the row is left out.
    """
    keys = [*by, "t_s"]
    rows = samples[samples["metric"].isin(list(metrics))]
    if rows.empty:
        return pd.DataFrame(columns=[*keys, "value"])
    summed = rows.groupby(keys, dropna=False)["value"].agg(["sum", "count"]).reset_index()
    whole = summed.groupby(list(by), dropna=False)["count"].transform("max")
    return summed[summed["count"] == whole].rename(columns={"sum": "value"})[[*keys, "value"]]


def rates(counted: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """Increase per second of a counter between two samples, at the later of them: columns `by`, t_s, value.

    A gap gives one row without a value, so that a line drawn through the rows is broken there; so does a counter that
    went back, which one of a process that was started anew does.
    """
    rows = counted.sort_values([*by, "t_s"], kind="stable")
    groups = rows.groupby(list(by), dropna=False, sort=False)
    apart, grown = groups["t_s"].diff(), groups["value"].diff()
    usual = apart.groupby([rows[key] for key in by], dropna=False).transform("median")
    known = (apart > 0) & (apart <= GAP * usual) & (grown >= 0)
    return rows.assign(value=(grown / apart).where(known, np.nan))[apart.notna()]
