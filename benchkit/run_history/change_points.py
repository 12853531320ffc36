"""Change points of a series of estimates, each with a standard error of its own. Pure.

1. The variance of a run is the sum of two. One is the variance of its estimate, moderated towards the typical one
   (Smyth, Statistical Applications in Genetics and Molecular Biology 3, 2004). The other is the variance between runs,
   from the differences of neighbours.
2. Outliers from the running median of five runs are pulled in to three standard deviations (Hampel's filter; Davies and
   Gather, JASA 88, 1993).
3. Candidates are the partition with the least weighted sum of squares and a penalty of 2 log n for each shift (Yao,
   Statistics & Probability Letters 6, 1988). It is found by optimal partitioning (Jackson et al. 2005), which PELT
   prunes.
4. The largest weighted CUSUM on the two stretches beside a candidate is computed. The candidate stays if this is rare
   among permutations of their runs (Antoch and Hušková, Statistics & Probability Letters 53, 2001). The least
   significant one is removed until all are significant. This assumes no distribution of the noise. Stretches of very
   few runs have too few permutations. They are tested by the largest t statistic, with Bonferroni's bound over its
   places (Worsley, JASA 74, 1979). Its variance is not below the runs' own.
5. Shifts in one direction that a line describes better (Schwarz's criterion) are one slow drift.

`tests/bench/bench_history.py` simulates how often shifts are found, and how often one is invented.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy import special

from benchkit.stats.inference import t_quantile
from benchkit.stats.samples import Reals

ALPHA = 0.02
"""Largest p of a shift that is reported. Each new run repeats the search: at 0.04, simulated histories had up to one
invented shift in 100 runs, at 0.02 half of that."""

MIN_RUNS = 3
"""Fewest runs on either side of a shift: fewer cannot be told from outliers."""

PERMUTATIONS = 1999
"""Permutations of a test, besides the observed order."""

CONFIDENCE = 0.95

PENALTY = 2.0
"""Penalty of a candidate, in log n (Yao 1988)."""

_PRIOR_DF = 4.0
"""Degrees of freedom of the typical variance in the moderated one: the variance of a run of three blocks has two."""

_OUTLIER_SD = 3.0
_NEIGHBOURS = 2
_MAD_TO_SD = 1.4826
_BATCH = 1 << 20
"""Numbers held at once while runs are permuted: 8 MiB per array."""

ShiftKind = Literal["step", "drift"]


@dataclass(frozen=True)
class Shift:
    """A change of the level of a series: from the run `first` on (a step), or from `start` to `end` (a drift).

    Indexes count the runs of the series from 0; `end` is exclusive. `change`, `low` and `high` are differences of
    logarithms: between the levels of both sides, or between the ends of a drift's line.
    """

    kind: ShiftKind
    start: int
    first: int
    end: int
    change: float
    low: float
    high: float
    p: float


def find_shifts(values: npt.ArrayLike, errors: npt.ArrayLike, dfs: npt.ArrayLike) -> tuple[Shift, ...]:
    """Return the shifts of a series in the order of time.

    `values` are logarithms, `errors` their standard errors, `dfs` the degrees of freedom of these.
    """
    raw = np.asarray(values, dtype=np.float64)
    if len(raw) < 2 * MIN_RUNS:
        return ()
    variances = _variances(raw, np.asarray(errors, dtype=np.float64), np.asarray(dfs, dtype=np.float64))
    series = _WeightedValues(_pull_outliers_in(raw, variances), 1 / variances)
    steps = _significant(series, _partition(series))
    return tuple(_merge_drifts(series, steps))


class _WeightedValues:
    def __init__(self, values: Reals, weights: Reals) -> None:
        self.values, self.weights = values, weights
        self._sums = [np.concatenate(([0.0], np.cumsum(weights * values**power))) for power in (0, 1, 2)]

    def __len__(self) -> int:
        return len(self.values)

    def squares(self, starts: npt.NDArray[np.int64] | int, end: int) -> Reals:
        """Return the weighted sums of squares about the mean of the stretches from each of `starts` to `end`."""
        zero, one, two = (sums[end] - sums[starts] for sums in self._sums)
        return np.asarray(np.maximum(two - one**2 / zero, 0.0))

    def level(self, start: int, end: int) -> tuple[float, float]:
        """Return the weighted mean of a stretch and the sum of its weights."""
        zero, one = (sums[end] - sums[start] for sums in self._sums[:2])
        return float(one / zero), float(zero)

    def line_squares(self, start: int, end: int) -> tuple[float, float, float]:
        """Return the weighted sum of squares about the line through a stretch, its slope, and the slope's scale."""
        weights, values = self.weights[start:end], self.values[start:end]
        places = np.arange(start, end, dtype=np.float64)
        places -= float((weights * places).sum() / weights.sum())
        centred = values - float((weights * values).sum() / weights.sum())
        scale = float((weights * places**2).sum())
        slope = float((weights * places * centred).sum()) / scale
        return float((weights * (centred - slope * places) ** 2).sum()), slope, scale


def _variances(values: Reals, errors: Reals, dfs: Reals) -> Reals:
    """Return the variance of each run about its level: moderated within the run, and between runs."""
    typical = float(np.median(errors**2))
    within = (_PRIOR_DF * typical + dfs * errors**2) / (_PRIOR_DF + dfs)
    neighbours = np.diff(values)
    total = float(_MAD_TO_SD * np.median(np.abs(neighbours))) ** 2 / 2
    between = max(0.0, total - float(np.median(within)))
    floor = float(np.finfo(np.float64).eps) * max(1.0, float(np.max(values**2)))  # equal values without any error
    return np.maximum(within + between, floor)


def _pull_outliers_in(values: Reals, variances: Reals) -> Reals:
    count = len(values)
    medians = np.array([np.median(values[max(0, i - _NEIGHBOURS) : i + _NEIGHBOURS + 1]) for i in range(count)])
    reach = _OUTLIER_SD * np.sqrt(variances)
    return np.clip(values, medians - reach, medians + reach)


def _partition(series: _WeightedValues) -> list[int]:
    """Return the first runs of the stretches of the best partition, without 0."""
    count = len(series)
    penalty = PENALTY * math.log(count)
    best = np.full(count + 1, np.inf)
    best[0] = -penalty
    before = np.zeros(count + 1, dtype=np.int64)
    for end in range(MIN_RUNS, count + 1):
        starts = np.arange(0, end - MIN_RUNS + 1, dtype=np.int64)
        costs = best[starts] + series.squares(starts, end) + penalty
        before[end] = int(np.argmin(costs))
        best[end] = costs[before[end]]
    firsts = []
    end = count
    while end > 0:
        end = int(before[end])
        firsts.append(end)
    return sorted(firsts)[1:]


def _significant(series: _WeightedValues, firsts: list[int]) -> list[Shift]:
    """Return the steps that remain when the least significant one is removed until all are significant."""
    known: dict[tuple[int, int, int], float] = {}
    while firsts:
        bounds = [0, *firsts, len(series)]
        sides = [(bounds[i], first, bounds[i + 2]) for i, first in enumerate(firsts)]
        for side in sides:
            if side not in known:
                known[side] = _p_of_step(series, *side)
        worst = max(sides, key=lambda side: (known[side], -_standardised(series, *side)))
        if known[worst] <= ALPHA:
            return [_step(series, *side, known[side]) for side in sides]
        firsts = [first for first in firsts if first != worst[1]]
    return []


def _standardised(series: _WeightedValues, start: int, first: int, end: int) -> float:
    (left, left_weight), (right, right_weight) = series.level(start, first), series.level(first, end)
    return abs(right - left) * math.sqrt(left_weight * right_weight / (left_weight + right_weight))


def _p_of_step(series: _WeightedValues, start: int, first: int, end: int) -> float:
    """Return p of the largest weighted CUSUM among permutations of the runs of a stretch."""
    if 2 / math.comb(end - start, first - start) > ALPHA:
        return _p_of_few(series, start, first, end)
    values, weights = series.values[start:end], series.weights[start:end]
    generator = np.random.default_rng(0)
    observed = _standardised(series, start, first, end)
    as_large = 1
    batch = max(1, _BATCH // len(values))
    left = PERMUTATIONS
    while left > 0:
        orders = generator.permuted(np.broadcast_to(np.arange(len(values)), (min(batch, left), len(values))), axis=1)
        left -= len(orders)
        as_large += int((_largest_cusums(values[orders], weights[orders]) >= observed * (1 - 1e-9)).sum())
    return as_large / (PERMUTATIONS + 1)


def _p_of_few(series: _WeightedValues, start: int, first: int, end: int) -> float:
    """Return the bound of p for a stretch of few runs: it rests on the standard errors of the runs."""
    df = end - start - 2
    spread = float(series.squares(start, first) + series.squares(first, end)) / df
    statistic = _standardised(series, start, first, end) / math.sqrt(max(1.0, spread))
    places = end - start - 2 * MIN_RUNS + 1
    return min(1.0, places * 2 * float(special.stdtr(df, -statistic)))


def _largest_cusums(values: Reals, weights: Reals) -> Reals:
    """Return the largest standardised difference of means of each row over all places of a step."""
    total = weights.sum(axis=1, keepdims=True)
    mean = (weights * values).sum(axis=1, keepdims=True) / total
    inside = slice(MIN_RUNS - 1, values.shape[1] - MIN_RUNS)
    left = np.cumsum(weights, axis=1)[:, inside]
    sums = np.cumsum(weights * (values - mean), axis=1)[:, inside]
    return np.asarray(np.max(np.abs(sums) * np.sqrt(total / (left * (total - left))), axis=1))


def _step(series: _WeightedValues, start: int, first: int, end: int, p: float) -> Shift:
    (left, left_weight), (right, right_weight) = series.level(start, first), series.level(first, end)
    df = end - start - 2
    spread = float(series.squares(start, first) + series.squares(first, end)) / df
    error = math.sqrt(spread * (1 / left_weight + 1 / right_weight))
    reach = t_quantile(CONFIDENCE, df) * error
    change = right - left
    return Shift("step", start, first, end, change, change - reach, change + reach, p)


def _merge_drifts(series: _WeightedValues, steps: list[Shift]) -> list[Shift]:
    """Return the steps, with those in one direction that a line describes better as one drift."""
    groups: list[list[Shift]] = []
    for step in steps:
        if groups and (groups[-1][-1].change > 0) == (step.change > 0):
            groups[-1].append(step)
        else:
            groups.append([step])
    return [shift for group in groups for shift in _drift_or_steps(series, group)]


def _drift_or_steps(series: _WeightedValues, group: list[Shift]) -> list[Shift]:
    start, end = group[0].start, group[-1].end
    count = end - start
    bounds = [start, *(step.first for step in group), end]
    stepped = sum(float(series.squares(a, b)) for a, b in pairwise(bounds))
    along, slope, scale = series.line_squares(start, end)
    by_line = count * math.log(max(along, 1e-300) / count) + 2 * math.log(count)
    by_steps = count * math.log(max(stepped, 1e-300) / count) + (2 * len(group) + 1) * math.log(count)
    if by_line > by_steps:
        return group
    runs = count - 1
    reach = t_quantile(CONFIDENCE, count - 2) * math.sqrt(along / (count - 2) / scale) * runs
    change, p = slope * runs, min(step.p for step in group)
    return [Shift("drift", start, start, end, change, change - reach, change + reach, p)]
