"""Counters of hosts and services: increases in measured windows, and the balance of work among workers."""

from __future__ import annotations

from statistics import median
from typing import Literal

import pandas as pd

from benchkit.models.base import Frozen
from benchkit.models.telemetry import AGENT_SERVICE, is_neighbour, is_of_load_tool

KEYS = ["trial_id", "host", "service", "metric", "instance"]


def of_servers(telemetry: pd.DataFrame) -> pd.DataFrame:
    """Return the samples of hosts and of servers under load, without samples of benchkit's own processes."""
    names = telemetry["service"].dropna().astype(str).unique()
    others = {name for name in names if name == AGENT_SERVICE or is_neighbour(name) or is_of_load_tool(name)}
    return telemetry[~telemetry["service"].isin(others)]


def increases_of(telemetry: pd.DataFrame, trials: pd.DataFrame) -> pd.DataFrame:
    """Return the increase of each counter in each trial: `KEYS`, value, elapsed_s; rows of a host have no service.

    `telemetry` and `trials` are rows of the tables of these names. An increase begins at the last sample before the
    window, else at the first in it. It ends at the first sample after the window, else at the last in it. `elapsed_s`
    is the time between.
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


PROCESS_CPU = "process_cpu_s_total"


class WorkerBalance(Frozen):
    """The workers of a service of a cell.

    `busiest` is the CPU time of the busiest worker over the mean of all: 1 if all work alike, their number if one does
    everything. It is the median over trials.
    """

    service: str
    workers: int
    busiest: float


def worker_balances(trials: pd.DataFrame, telemetry: pd.DataFrame) -> tuple[WorkerBalance, ...]:
    """Return the services of a cell that have several workers; `trials` are rows of the cell, `telemetry` its table.

    CPU time shows the balance, not accepted connections: kernels and servers count these by socket or in total.
    Services of one name on several hosts are several services, as their processes may have the same pids.
    """
    rows = telemetry[telemetry["metric"] == PROCESS_CPU]
    rows = rows[~rows["service"].astype(str).map(is_of_load_tool).astype(bool)]
    rows = trials[["trial_id", "duration_s"]].merge(rows, on="trial_id")
    by_service: dict[tuple[str, str], list[tuple[int, float]]] = {}
    for (_, host, service), samples in rows.groupby(["trial_id", "host", "service"], sort=False):
        cpu_s = _worker_cpu_times(samples)
        if len(cpu_s) > 1 and cpu_s.mean() > 0:
            balance = len(cpu_s), float(cpu_s.max() / cpu_s.mean())
            by_service.setdefault((str(host), str(service)), []).append(balance)
    return tuple(
        WorkerBalance(
            service=service,
            workers=max(workers for workers, _ in of_trials),
            busiest=median(busiest for _, busiest in of_trials),
        )
        for (_, service), of_trials in by_service.items()
    )


def _worker_cpu_times(samples: pd.DataFrame) -> pd.Series[float]:
    """Return the CPU time over the window of each worker of a service in a trial; empty for a single process.

    Workers are the processes that exist before the window and after it, except the one with the lowest pid. That
    process started the others (nginx's master, the primary of Node's cluster) and serves no requests.
    """
    wide = samples.pivot_table(index="t_s", columns="instance", values="value").sort_index()
    before, after = wide[wide.index <= 0], wide[wide.index >= samples["duration_s"].iloc[0]]
    if before.empty or after.empty:
        return pd.Series(dtype="float64")
    cpu_s = (after.iloc[0] - before.iloc[-1]).dropna()
    first = min(cpu_s.index, key=int, default=None)
    workers: pd.Series[float] = cpu_s.drop(first) if first is not None else cpu_s
    return workers
