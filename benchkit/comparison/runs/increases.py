"""Increases of counters in the measured windows of trials."""

from __future__ import annotations

from typing import Literal

import pandas as pd

from benchkit.models.telemetry import AGENT_SERVICE, is_neighbour, is_of_load_tool

KEYS = ["trial_id", "host", "service", "metric", "instance"]


def of_servers(telemetry: pd.DataFrame) -> pd.DataFrame:
    """Return the samples of hosts and of servers under load, without samples of benchkit's own processes."""
    names = telemetry["service"].dropna().astype(str).unique()
    others = {name for name in names if name == AGENT_SERVICE or is_neighbour(name) or is_of_load_tool(name)}
    return telemetry[~telemetry["service"].isin(others)]


def increases_of(telemetry: pd.DataFrame, trials: pd.DataFrame) -> pd.DataFrame:
    """Return the increase of each counter in each trial: `KEYS`, value, elapsed_s; rows of a host have no service.

    `telemetry` and `trials` are rows of the tables of these names. An increase runs from the last sample before the
    window, else the first in it. It ends at the first sample after the window, else the last in it. `elapsed_s` is the
    time between.
    """
    rows = telemetry[telemetry["metric"].astype(str).str.endswith("_total")]
    rows = rows.assign(**{name: rows[name].astype(object).fillna("") for name in ("service", "instance")})
    rows = rows.merge(trials[["trial_id", "duration_s"]], on="trial_id").sort_values("t_s", kind="stable")

    def edges(inside: pd.DataFrame, keep: Literal["first", "last"]) -> pd.DataFrame:
        return inside.drop_duplicates(KEYS, keep=keep).set_index(KEYS)[["t_s", "value"]]

    begin = edges(rows[rows["t_s"] <= 0], "last").combine_first(edges(rows, "first"))
    end = edges(rows[rows["t_s"] >= rows["duration_s"]], "first").combine_first(edges(rows, "last"))
    found = (end - begin).rename(columns={"t_s": "elapsed_s"}).reset_index()
    return found.assign(service=found["service"].where(found["service"] != ""))
