"""Metrics over a numeric factor such as connections: a power law, the Universal Scalability Law, memory.

A trend is a line of logarithms within blocks, with a band.

The Universal Scalability Law is X(N) = r N / (1 + a (N - 1) + b N (N - 1)) (Gunther, Guerrilla Capacity Planning, 2007,
ch. 4 to 6). r is the rate of one. The contention a is the share of the work that only one can do at a time. The
coherency b is the cost of each pair that has to agree. With b above 0 the rate has a peak and falls beyond it.

The memory of a connection is the slope of resident memory over connections. Memory divided by connections would count
the server's own memory as memory of its connections.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import optimize, special

from benchkit import units
from benchkit.comparison.runs.run_data import RunData, read_run_data
from benchkit.errors import InputError
from benchkit.models.base import Frozen, level_text
from benchkit.models.design import controlled
from benchkit.models.metrics import RPS
from benchkit.models.run import CellRecord
from benchkit.stats.inference import ALPHA, MIN_BLOCKS, mean_interval, t_p_values, t_quantile, t_statistics
from benchkit.stats.samples import Reals, Samples, describe_reasons
from benchkit.store.store import open_store

_CURVED_FROM = 3
"""Smallest number of levels that can show a bend: two always lie on a line."""

MIN_LEVELS = 4
"""Smallest number of levels of a fit: three parameters, and one degree of freedom that can show a misfit."""
MISFIT = 0.05
"""Relative distance of a level's mean from the law above which the law does not fit, unless chance explains it. It is
the usual precision of a ratio."""

MEMORY = "server_memory_bytes"
CONNECTIONS = "connections"


class TrendPoint(Frozen):
    """The metric at one level: the measured value, and the line with its band; geometric means over blocks.

    `low` and `high` hold for this level alone, `band_low` and `band_high` for the whole line at once.
    """

    level: float
    value: float
    low: float
    high: float
    line: float
    band_low: float
    band_high: float


class Trend(Frozen):
    """The trend of a metric over a factor, the other factors at `levels`.

    `per_doubling` is the ratio by which the metric changes when the level doubles. `p_curved` tests for a bend: if it
    is small, the line does not describe the points. With too few blocks there are no points, and a `reason`.
    """

    metric: str
    factor: str
    levels: Mapping[str, str]
    blocks: int
    per_doubling: float | None = None
    low: float | None = None
    high: float | None = None
    confidence: float = 1 - ALPHA
    p: float | None = None
    p_curved: float | None = None
    points: tuple[TrendPoint, ...] = ()
    reason: str | None = None

    def frame(self) -> pd.DataFrame:
        """Return the points as a table, a row each, with the levels of the other factors as columns `factor_<name>`."""
        factors = {f"factor_{name}": level for name, level in self.levels.items()}
        rows = [{**factors, f"factor_{self.factor}": point.level, **point.model_dump()} for point in self.points]
        columns = [*factors, f"factor_{self.factor}", *TrendPoint.model_fields]
        return pd.DataFrame(rows, columns=columns).drop(columns="level")


def trends(run: str, factor: str, metric: str = "rps", *, store: str | Path | None = None) -> tuple[Trend, ...]:
    """Return the trends of a run, one per combination of other factors: `benchkit.trends("latest", "connections")`.

    `run` is an id, its beginning, or `latest`. Invalid trials are excluded. Raises InputError.
    """
    where = open_store(store)
    return trends_of(read_run_data(where, where.run(run)), metric, factor)


def trends_of(data: RunData, metric: str, factor: str) -> tuple[Trend, ...]:
    """Return a trend for every combination of the other factors.

    Levels and metric are taken as logarithms, so that a straight line is a power law. Each block gives a line of its
    own and is the sample, as for ratios. A change of all levels of a block leaves the slope unchanged. Raises
    InputError for a factor without at least two positive numeric levels.
    """
    samples = data.samples(metric)
    wide = cells_along(data, factor)
    if data.design == "sequential":
        blocks, why = len(samples.blocks), "the design is sequential: no block has all levels"
        return tuple(
            Trend(metric=metric, factor=factor, levels=others, blocks=blocks, reason=why) for others, _ in wide
        )
    return tuple(_trend(samples, factor, others, found, data.alpha) for others, found in wide)


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
        raise InputError(f"no trend over {factor!r}", why="no two cells differ only in it")
    return wide


def _complete_logs(samples: Samples, cells: Sequence[tuple[float, str]]) -> tuple[Reals, str | None]:
    """Return the logarithms of these cells, (blocks, cells), in the blocks that have all of them.

    The second value is the reason why there is no interval, if these blocks are too few.
    """
    logs = np.array([samples.of(cell_id) for _, cell_id in cells]).T
    complete: Reals = logs[~np.isnan(logs).any(axis=1)]
    if len(complete) >= MIN_BLOCKS:
        return complete, None
    rarest = min((cell_id for _, cell_id in cells), key=lambda cell_id: len(samples.known(cell_id)))
    excluded = samples.excluded_of(rarest)
    why = f" ({rarest}: {describe_reasons(excluded)})" if excluded else ""
    return complete, f"too few blocks with every level: {len(complete)} of {MIN_BLOCKS} needed{why}"


def _number(cell: CellRecord, factor: str) -> float:
    found = cell.levels.get(factor)
    if isinstance(found, bool) or not isinstance(found, int | float) or found <= 0:
        shown = "nothing" if found is None else level_text(found)
        raise InputError(
            f"no trend over {factor!r}", where=cell.cell_id, why=f"its level is {shown}, not a positive number"
        )
    return float(found)


def _trend(
    samples: Samples, factor: str, others: Mapping[str, str], cells: Sequence[tuple[float, str]], alpha: float
) -> Trend:
    complete, reason = _complete_logs(samples, cells)
    trend = Trend(metric=samples.metric, factor=factor, levels=others, blocks=len(complete), reason=reason)
    if reason is not None:
        return trend
    x = np.log2([number for number, _ in cells])
    design = np.column_stack([np.ones_like(x), x - x.mean()])
    lines: Reals = complete @ np.linalg.pinv(design).T  # (blocks, 2): least squares, block by block
    slopes = lines[:, 1]
    slope, reach = mean_interval(slopes, alpha)
    return trend.model_copy(
        update={
            "per_doubling": math.exp(slope),
            "low": math.exp(slope - reach),
            "high": math.exp(slope + reach),
            "p": _p_of_zero(slopes),
            "p_curved": _curved(x, complete),
            "points": _points(cells, complete, design, lines, alpha),
        }
    )


def _points(
    cells: Sequence[tuple[float, str]], logs: Reals, design: Reals, lines: Reals, alpha: float
) -> tuple[TrendPoint, ...]:
    """Return every level with its own interval, and the line with a band that holds for all of it at once.

    The band is Hotelling's T² over the blocks' two coefficients (Johnson and Wichern, Applied Multivariate Statistical
    Analysis, 5.4). It is built as Working and Hotelling (1929) derived for a regression line.
    """
    blocks = len(logs)
    mean, error = t_statistics(logs.T)
    own = t_quantile(1 - alpha, blocks - 1) * error
    middle = design @ lines.mean(axis=0)
    covariance = np.cov(lines, rowvar=False) / blocks
    scale = 2 * (blocks - 1) / (blocks - 2) * float(special.fdtri(2, blocks - 2, 1 - alpha))
    band = np.sqrt(scale * np.maximum(np.einsum("ij,jk,ik->i", design, covariance, design), 0))
    columns = (mean, mean - own, mean + own, middle, middle - band, middle + band)
    return tuple(
        TrendPoint(level=number, value=value, low=low, high=high, line=line, band_low=band_low, band_high=band_high)
        for (number, _), (value, low, high, line, band_low, band_high) in zip(
            cells, np.exp(np.column_stack(columns)).tolist(), strict=True
        )
    )


def _curved(x: Reals, logs: Reals) -> float | None:
    """Return the p-value of the quadratic contrast, block by block (Montgomery, Design and Analysis of Experiments)."""
    if len(x) < _CURVED_FROM:
        return None
    return _p_of_zero(logs @ np.linalg.pinv(np.vander(x - x.mean(), 3))[0])


def _p_of_zero(values: Reals) -> float:
    """Return the two-sided p of a sample's mean against zero."""
    mean, error = t_statistics(values[None, :])
    return float(t_p_values(mean, error, len(values) - 1)[0])


class Parameter(Frozen):
    """A parameter of the law, with its interval over blocks; neither can be below 0."""

    value: float
    low: float
    high: float


class Scalability(Frozen):
    """The law fitted to the cells that differ only in the factor, the other factors at `levels`.

    Without a fit there is a `reason`. `misfit` is the level that the law misses most, and the relative distance there.
    """

    factor: str
    levels: Mapping[str, str]
    blocks: int
    contention: Parameter | None = None
    coherency: Parameter | None = None
    peak: float | None = None
    """Level at which the rate is highest: √((1 - contention) / coherency); None where the fitted coherency is 0."""
    misfit: tuple[float, float] | None = None
    reason: str | None = None

    @property
    def fits(self) -> bool:
        """True if the law describes the rates of all levels."""
        return self.contention is not None and self.misfit is None

    @property
    def text(self) -> str:
        """The fit as a clause."""
        if self.contention is None or self.coherency is None:
            return f"no fit: {self.reason}"
        if self.misfit is not None:
            level, distance = self.misfit
            return f"the law does not fit: at {level:g} it is {units.share(abs(distance))} off"
        contention, coherency = self.contention, self.coherency
        return (
            f"contention {units.share(contention.value)} [{units.share(contention.low)}, {units.share(contention.high)}], "
            f"coherency {coherency.value:.2g} [{coherency.low:.2g}, {coherency.high:.2g}]"
        )


def scalability(run: str, factor: str = "connections", *, store: str | Path | None = None) -> tuple[Scalability, ...]:
    """Return the Universal Scalability Law fitted to the rates of a run, one per combination of other factors.

    `run` is an id, its beginning, or `latest`. Invalid trials are excluded. Raises InputError.
    """
    where = open_store(store)
    return scalability_of(read_run_data(where, where.run(run)), factor)


def scalability_of(data: RunData, factor: str) -> tuple[Scalability, ...]:
    """Return a fit for every combination of the other factors.

    Each block is fitted by itself, in log-rates by least squares, and is the sample. A change common to all levels of a
    block affects only its rate of one. Raises InputError for a factor without at least two positive numeric levels.
    """
    samples = data.samples(RPS)
    return tuple(_fit(samples, factor, others, cells, data.alpha) for others, cells in cells_along(data, factor))


def _fit(
    samples: Samples, factor: str, others: Mapping[str, str], cells: Sequence[tuple[float, str]], alpha: float
) -> Scalability:
    complete, reason = _complete_logs(samples, cells)
    if len(cells) < MIN_LEVELS:
        reason = f"{len(cells)} levels; the law needs {MIN_LEVELS}"
    found = Scalability(factor=factor, levels=others, blocks=len(complete), reason=reason)
    if reason is not None:
        return found
    numbers = np.array([number for number, _ in cells])
    fitted = np.array([fit_block(numbers, block) for block in complete])
    contention, coherency = (_parameter(fitted[:, place], alpha) for place in (1, 2))
    has_peak = coherency.value > 0 and contention.value < 1
    residuals = complete - np.array([_log_rates(block, numbers) for block in fitted])
    return found.model_copy(
        update={
            "contention": contention,
            "coherency": coherency,
            "peak": math.sqrt((1 - contention.value) / coherency.value) if has_peak else None,
            "misfit": _misfit(numbers, residuals, alpha),
        }
    )


def fit_block(numbers: Reals, logs: Reals) -> Reals:
    """Return the log of the rate of one, contention and coherency of one block by bounded least squares."""
    largest = float(numbers.max())
    start = [float(logs[0] - np.log(numbers[0])) + 0.1, 0.1, 0.1 / largest**2]

    def residuals(parameters: Reals) -> Reals:
        return _log_rates(parameters, numbers) - logs

    result = optimize.least_squares(
        residuals,
        start,
        bounds=([-np.inf, 0.0, 0.0], [np.inf, 1.0, 1.0]),
        x_scale=[1.0, 0.1, 1 / largest**2],
    )
    parameters: Reals = result.x
    return parameters


def _log_rates(parameters: Reals, numbers: Reals) -> Reals:
    log_one, contention, coherency = parameters
    waiting = 1 + contention * (numbers - 1) + coherency * numbers * (numbers - 1)
    rates: Reals = log_one + np.log(numbers) - np.log(waiting)
    return rates


def _parameter(values: Reals, alpha: float) -> Parameter:
    """Return the mean over blocks with its interval by Student's t, cut at 0."""
    mean, reach = mean_interval(values, alpha)
    return Parameter(value=mean, low=max(0.0, mean - reach), high=mean + reach)


def _misfit(numbers: Reals, residuals: Reals, alpha: float) -> tuple[float, float] | None:
    """Return the level that the law misses most, by more than chance (Bonferroni over levels) and than `MISFIT`."""
    mean, error = t_statistics(residuals.T)
    p_values = t_p_values(mean, error, len(residuals) - 1)
    missed = (p_values <= alpha / len(numbers)) & (np.abs(np.expm1(mean)) > MISFIT)
    if not missed.any():
        return None
    worst = int(np.argmax(np.where(missed, np.abs(mean), 0)))
    return float(numbers[worst]), float(np.expm1(mean[worst]))


class ConnectionMemory(Frozen):
    """Bytes per connection in the cells that differ in connections alone, with the interval over blocks.

    The other factors are at `levels`. With too few blocks there is a `reason` instead.
    """

    levels: Mapping[str, str]
    blocks: int
    bytes_per_connection: float | None = None
    low: float | None = None
    high: float | None = None
    reason: str | None = None

    @property
    def text(self) -> str:
        """The slope with its interval: `17.9 KiB [17.1 KiB, 18.8 KiB]`."""
        if self.bytes_per_connection is None:
            return f"unknown: {self.reason}"
        return f"{units.size(self.bytes_per_connection)} [{units.size(self.low)}, {units.size(self.high)}]"


def connection_memory_of(data: RunData) -> tuple[ConnectionMemory, ...]:
    """Return the memory per connection for every combination of the factors beside connections.

    Each block has a least-squares line of its own, and is the sample: Student's t over their slopes, at the level of
    the run. Raises InputError where connections have fewer than two positive levels.
    """
    samples = data.samples(MEMORY)
    return tuple(_slope(samples, others, cells, data.alpha) for others, cells in cells_along(data, CONNECTIONS))


def _slope(
    samples: Samples, others: Mapping[str, str], cells: Sequence[tuple[float, str]], alpha: float
) -> ConnectionMemory:
    complete, reason = _complete_logs(samples, cells)
    found = ConnectionMemory(levels=others, blocks=len(complete), reason=reason)
    if reason is not None:
        return found
    connections = np.array([level for level, _ in cells])
    centred = connections - connections.mean()
    slope, reach = mean_interval(np.exp(complete) @ centred / (centred @ centred), alpha)
    return found.model_copy(update={"bytes_per_connection": slope, "low": slope - reach, "high": slope + reach})
