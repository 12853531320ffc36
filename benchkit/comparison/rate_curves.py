"""Latency against rate: cells that differ only in their target rate, as curves with bands over blocks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from benchkit.comparison.runs.run_data import RunData, read_run_data
from benchkit.errors import InputError
from benchkit.models.base import Frozen, level_text
from benchkit.models.capacity import Objective, goal_of
from benchkit.models.design import controlled
from benchkit.models.load import RATE, RATE_SHARES
from benchkit.models.metrics import P99, percentile_column
from benchkit.models.run import CellRecord
from benchkit.stats.inference import MIN_BLOCKS, mean_interval
from benchkit.stats.samples import Reals, Samples
from benchkit.store.store import open_store

CURVES = (percentile_column(50), P99, percentile_column(99.9))
"""Latency percentiles of a curve."""
MIN_RATES = 3
"""Smallest number of rates that give a curve its shape."""


class RatePoint(Frozen):
    """A percentile at one rate: geometric mean over blocks, and its interval where there are enough of them."""

    level: float
    rate: float
    value: float
    low: float | None = None
    high: float | None = None
    blocks: int


class CapacityFound(Frozen):
    """The capacity that the rates of a curve are shares of; `high` None: only the lower bound `low` is known."""

    rps: float
    low: float
    high: float | None


class RateCurves(Frozen):
    """The curves of the cells that differ in their target rate alone, the other factors at `levels`."""

    factor: str
    levels: Mapping[str, str]
    cells: tuple[tuple[float, str], ...]
    """(level, cell_id), ascending."""
    points: Mapping[str, tuple[RatePoint, ...]]
    """Points by percentile, ascending; rates of which all trials are excluded have none."""
    capacity: CapacityFound | None = None
    objective: Objective | None = None

    def frame(self) -> pd.DataFrame:
        """Return the points as a table, a row each, with the other factors as columns `factor_<name>`."""
        factors = {f"factor_{name}": level for name, level in self.levels.items()}
        rows = [
            {**factors, self.factor: point.level, "percentile": metric, **point.model_dump(exclude={"level"})}
            for metric, points in self.points.items()
            for point in points
        ]
        columns = [*factors, self.factor, "percentile", *(name for name in RatePoint.model_fields if name != "level")]
        return pd.DataFrame(rows, columns=columns)


def rate_curves(run: str, *, store: str | Path | None = None) -> tuple[RateCurves, ...]:
    """Return the latency against the rate of a run, one for each combination of other factors.

    `run` is an id, its beginning, or `latest`. Invalid trials are excluded. Raises InputError for a run whose rate is
    no factor.
    """
    where = open_store(store)
    return rate_curves_of(read_run_data(where, where.run(run)))


def rate_curves_of(data: RunData) -> tuple[RateCurves, ...]:
    """Return the curves of a run. Raises InputError for a run whose target rate is no factor."""
    factor = rate_factor(data.manifest.scenario)
    if factor is None:
        raise InputError(
            f"{data.manifest.run_id} has no latency against rate",
            why="no factor sets its target rate",
            hint="write rate: {share_of_capacity: $share} and a factor `share`",
        )
    samples = {metric: data.samples(metric) for metric in CURVES}
    return tuple(_curves(data, samples, factor, others, cells) for others, cells in cells_along(data, factor))


def rate_factor(scenario: Mapping[str, Any]) -> str | None:
    """Return the factor that sets the target rate of a stored scenario; None without one, and for shaped rates."""
    load = scenario.get("load")
    if not isinstance(load, Mapping) or load.get("shape") is not None:
        return None
    stated = load.get(RATE)
    values = [stated, *(load.get(name) for name in RATE_SHARES)]
    values += [stated.get(name) for name in RATE_SHARES] if isinstance(stated, Mapping) else []
    references = (value[1:] for value in values if isinstance(value, str) and value.startswith("$"))
    return next((name for name in references if len(scenario.get("factors", {}).get(name, ())) >= MIN_RATES), None)


def _curves(
    data: RunData,
    samples: Mapping[str, Samples],
    factor: str,
    levels: Mapping[str, str],
    cells: Sequence[tuple[float, str]],
) -> RateCurves:
    trials = data.trials[data.trials["kind"] == "measure"]
    rates = pd.to_numeric(trials["rate_requested"]).groupby(trials["cell_id"]).median()
    points = {
        metric: tuple(
            _point(level, float(rates[cell_id]), known, data.alpha)
            for level, cell_id in cells
            if len(known := of_metric.known(cell_id)) and not math.isnan(rates.get(cell_id, math.nan))
        )
        for metric, of_metric in samples.items()
    }
    goal = goal_of(data.manifest.scenario)
    return RateCurves(
        factor=factor,
        levels=levels,
        cells=tuple(cells),
        points=points,
        capacity=_capacity(data.trials, [cell_id for _, cell_id in cells]),
        objective=None if goal is None else goal.slo,
    )


def _point(level: float, rate: float, logs: Reals, alpha: float) -> RatePoint:
    point = RatePoint(level=level, rate=rate, value=math.exp(float(logs.mean())), blocks=len(logs))
    if len(logs) < MIN_BLOCKS:
        return point
    mean, reach = mean_interval(logs, alpha)
    return point.model_copy(update={"low": math.exp(mean - reach), "high": math.exp(mean + reach)})


def _capacity(trials: pd.DataFrame, cells: Sequence[str]) -> CapacityFound | None:
    """Return the capacity that the run searched for in one of these cells before its first block."""
    found = trials[(trials["kind"] == "calibrate") & trials["cell_id"].isin(cells) & trials["capacity_rps"].notna()]
    if found.empty:
        return None
    last = found.iloc[-1]
    high = last["capacity_high"]
    return CapacityFound(
        rps=float(last["capacity_rps"]),
        low=float(last["capacity_low"]),
        high=None if pd.isna(high) else float(high),
    )


def cells_along(data: RunData, factor: str) -> list[tuple[dict[str, str], list[tuple[float, str]]]]:
    """Return the other factors' levels, with the (level, cell_id) of the cells that have them, ascending.

    Raises InputError for a factor without at least two positive numeric levels.
    """
    groups: dict[tuple[tuple[str, str], ...], list[tuple[float, str]]] = {}
    for cell in data.manifest.cells:
        if cell.unsupported is not None or controlled(cell.cell_id) is not None:
            continue
        others = tuple((name, level_text(value)) for name, value in cell.levels.items() if name != factor)
        groups.setdefault(others, []).append((_number(cell, factor), cell.cell_id))
    wide = [(dict(others), sorted(found)) for others, found in groups.items() if len(found) > 1]
    if not wide:
        raise InputError(f"no curve over {factor!r}", why="no two cells differ only in it")
    return wide


def _number(cell: CellRecord, factor: str) -> float:
    found = cell.levels.get(factor)
    if isinstance(found, bool) or not isinstance(found, int | float) or found <= 0:
        shown = "nothing" if found is None else level_text(found)
        raise InputError(
            f"no curve over {factor!r}", where=cell.cell_id, why=f"its level is {shown}, not a positive number"
        )
    return float(found)
