"""How evenly the workers of a service share its work: the CPU time of each of its processes over the measured window."""

from __future__ import annotations

from collections.abc import Collection

import pandas as pd

from benchkit.models.base import Frozen
from benchkit.models.telemetry import is_of_load_tool

PROCESS_CPU = "process_cpu_s_total"
_WITH_WORKERS = 2
"""Processes that are no more than this are at most one worker and what started it."""
IDLE = 0.1
"""Of the mean of its siblings: a worker that took less has had next to nothing of the work."""


class WorkerBalance(Frozen):
    """The workers of a service of a cell, over its measured trials that count; `only_invalid`: over all, because none does.

    `busiest` is the CPU time of the busiest worker over the mean of all: 1 where all work alike, their number where one
    does everything. `idle` counts those that took less than a tenth of the mean. Both are medians over trials, `highest`
    is the largest that any trial had of `busiest`.
    """

    cell_id: str
    service: str
    workers: int
    busiest: float
    highest: float
    idle: float
    trials: int
    only_invalid: bool = False


def worker_balances(
    trials: pd.DataFrame, telemetry: pd.DataFrame, excluded: Collection[str] = frozenset()
) -> tuple[WorkerBalance, ...]:
    """The services with several workers, cell by cell in the order of `trials`.

    `trials` are the measured ones of a run, `telemetry` its table, `excluded` the excluded trials. What is known of
    a worker is its CPU time, not what it accepted: kernels and servers count connections by socket or in all.
    """
    found = []
    of_trials = _of_trials(trials, telemetry)
    for (cell_id, service), rows in of_trials.groupby(["cell_id", "service"], sort=False):
        counting = rows[~rows["trial_id"].isin(list(excluded))]
        used = rows if counting.empty else counting
        found.append(
            WorkerBalance(
                cell_id=str(cell_id),
                service=str(service),
                workers=int(used["workers"].max()),
                busiest=float(used["busiest"].median()),
                highest=float(used["busiest"].max()),
                idle=float(used["idle"].median()),
                trials=len(used),
                only_invalid=counting.empty,
            )
        )
    return tuple(found)


def _of_trials(trials: pd.DataFrame, telemetry: pd.DataFrame) -> pd.DataFrame:
    """trial_id, cell_id, service, workers, busiest, idle; a row for each service of a trial with several workers."""
    columns = ["trial_id", "cell_id", "service", "workers", "busiest", "idle"]
    rows = telemetry[telemetry["metric"] == PROCESS_CPU]
    rows = rows[~rows["service"].astype(str).map(is_of_load_tool).astype(bool)]
    processes = rows.groupby(["trial_id", "service"])["instance"].transform("nunique")
    rows = rows[processes > _WITH_WORKERS]
    rows = trials[["trial_id", "cell_id", "duration_s"]].merge(rows, on="trial_id")
    made = []
    for (trial_id, service), samples in rows.groupby(["trial_id", "service"], sort=False):
        taken = _taken(samples)
        if len(taken) > 1 and taken.mean() > 0:
            mean = float(taken.mean())
            idle = int((taken < IDLE * mean).sum())
            cell_id = samples["cell_id"].iloc[0]
            made.append((trial_id, cell_id, service, len(taken), float(taken.max()) / mean, idle))
    return pd.DataFrame(made, columns=columns)


def _taken(samples: pd.DataFrame) -> pd.Series[float]:
    """The CPU time over the window of each worker of a service in a trial; empty where it has but one process.

    Workers are the processes that were there before the window and after it, but for the first of them: it started the
    others (nginx's master, the primary of Node's cluster) and serves nobody. It has the lowest pid.
    """
    wide = samples.pivot_table(index="t_s", columns="instance", values="value").sort_index()
    before, after = wide[wide.index <= 0], wide[wide.index >= samples["duration_s"].iloc[0]]
    if before.empty or after.empty:
        return pd.Series(dtype="float64")
    taken = (after.iloc[0] - before.iloc[-1]).dropna()
    first = min(taken.index, key=int, default=None)
    workers: pd.Series[float] = taken.drop(first) if first is not None else taken
    return workers
