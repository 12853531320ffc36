"""Trend of a metric over a numeric factor (connections): a line within blocks, with a band."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import special

from benchkit.comparison.run_data import RunData, read_run_data
from benchkit.errors import InputError
from benchkit.models.base import Frozen, level_text
from benchkit.models.design import controlled
from benchkit.models.run import CellRecord
from benchkit.stats.inference import MIN_BLOCKS, t_p_values, t_quantile, t_statistics
from benchkit.stats.multiple_tests import ALPHA
from benchkit.stats.samples import Reals, Samples, describe_reasons, take_samples
from benchkit.store.store_choice import open_store

_CURVED_FROM = 3
"""Two levels always lie on a line."""


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
    own and is the sample, as for ratios: a change of all levels of a block leaves the slope unchanged. Raises
    InputError for a factor without at least two positive numeric levels.
    """
    samples = take_samples(data.trials, metric, data.exclusions)
    wide = cells_along(data, factor)
    if data.design == "sequential":
        blocks, why = len(samples.blocks), "the design is sequential: no block has all levels"
        return tuple(
            Trend(metric=metric, factor=factor, levels=dict(others), blocks=blocks, reason=why) for others, _ in wide
        )
    return tuple(_trend(samples, factor, dict(others), found, data.alpha) for others, found in wide)


def cells_along(
    data: RunData, factor: str
) -> tuple[tuple[tuple[tuple[str, str], ...], Sequence[tuple[float, str]]], ...]:
    """Return the cells that differ only in a factor, with its level, ascending, by the levels of the other factors.

    Raises InputError for a factor without at least two positive numeric levels.
    """
    groups: dict[tuple[tuple[str, str], ...], list[tuple[float, str]]] = {}
    for cell in data.manifest.cells:
        if cell.unsupported is not None or controlled(cell.cell_id) is not None:
            continue
        others = tuple((name, level_text(value)) for name, value in cell.levels.items() if name != factor)
        groups.setdefault(others, []).append((_number(cell, factor), cell.cell_id))
    wide = {others: sorted(found) for others, found in groups.items() if len(found) > 1}
    if not wide:
        raise InputError(f"no trend over {factor!r}", why="no two cells differ only in it")
    return tuple(wide.items())


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
    logs = np.array([samples.of(cell_id) for _, cell_id in cells]).T
    complete: Reals = logs[~np.isnan(logs).any(axis=1)]
    blocks = len(complete)
    trend = Trend(metric=samples.metric, factor=factor, levels=others, blocks=blocks)
    if blocks < MIN_BLOCKS:
        _, rarest = cells[int(np.isnan(logs).sum(axis=0).argmax())]
        excluded = samples.excluded_of(rarest)
        why = f"{blocks} blocks have every level; a line needs {MIN_BLOCKS}"
        return trend.model_copy(
            update={"reason": f"{why} ({rarest}: {describe_reasons(excluded)})" if excluded else why}
        )
    x = np.log2([number for number, _ in cells])
    design = np.column_stack([np.ones_like(x), x - x.mean()])
    lines: Reals = complete @ np.linalg.pinv(design).T  # (blocks, 2): least squares, block by block
    mean, error = t_statistics(lines.T)
    p = t_p_values(mean, error, blocks - 1)
    reach = t_quantile(1 - alpha, blocks - 1) * float(error[1])
    slope = float(mean[1])
    return trend.model_copy(
        update={
            "per_doubling": math.exp(slope),
            "low": math.exp(slope - reach),
            "high": math.exp(slope + reach),
            "p": float(p[1]),
            "p_curved": _curved(x, complete),
            "points": _points(cells, complete, design, lines, alpha),
        }
    )


def _points(
    cells: Sequence[tuple[float, str]], logs: Reals, design: Reals, lines: Reals, alpha: float
) -> tuple[TrendPoint, ...]:
    """Return every level with its own interval, and the line with a band that holds for all of it at once.

    The band is Hotelling's T² over the blocks' two coefficients (Johnson and Wichern, Applied Multivariate Statistical
    Analysis, 5.4), as Working and Hotelling (1929) derived for a regression line.
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
    quadratic = np.linalg.pinv(np.vander(x - x.mean(), 3))[0]
    mean, error = t_statistics((logs @ quadratic)[None, :])
    return float(t_p_values(mean, error, len(logs) - 1)[0])
