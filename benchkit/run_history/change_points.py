"""Change points of a series of estimates, each with a standard error of its own. Pure.

1. The variance of a run is the sum of two. One is the variance of its estimate, moderated towards the typical one
   (Smyth, Statistical Applications in Genetics and Molecular Biology 3, 2004). The other is the variance between runs,
   from the differences of neighbours.
2. Outliers from the running median of five runs are pulled in to three standard deviations (Hampel's filter; Davies and
   Gather, JASA 88, 1993).
3. Candidates are the partition with the least weighted sum of squares and a penalty of 2 log n for each shift (Yao,
   Statistics & Probability Letters 6, 1988), which PELT finds (Killick et al., JASA 107, 2012).
4. A candidate is tested by the t statistic between the stretches beside it, with Bonferroni's bound over its possible
   places (Worsley, JASA 74, 1979). The least significant one is removed until all are significant.

`tests/bench/bench_history.py` simulates how often shifts are found, and how often one is invented.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from ruptures import Pelt
from ruptures.base import BaseCost
from scipy import special

from benchkit.stats.inference import t_quantile
from benchkit.stats.samples import Reals

ALPHA = 0.08
"""Largest p of a shift that is reported. Bonferroni's bound is wide: although each new run repeats the search,
simulated histories have one invented shift in some 200 runs, and 9 of 10 steps of 5 % are found after three runs."""

MIN_RUNS = 3
"""Fewest runs on either side of a shift: fewer cannot be told from outliers."""

CONFIDENCE = 0.95

PENALTY = 2.0
"""Penalty of a candidate, in log n (Yao 1988)."""

_PRIOR_DF = 4.0
"""Degrees of freedom of the typical variance in the moderated one: the variance of a run of three blocks has two."""

_OUTLIER_SD = 3.0
_WINDOW = 5
_MAD_TO_SD = 1.4826


@dataclass(frozen=True)
class Shift:
    """A step of the level of a series with the run `first`.

    The stretches beside it begin at `start` and end before `end`; indexes count the runs of the series from 0.
    `change`, `low` and `high` are the difference of logarithms between the levels of both stretches.
    """

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
    search = Pelt(custom_cost=series, min_size=MIN_RUNS, jump=1).fit(series.signal)
    firsts = search.predict(pen=PENALTY * math.log(len(raw)))[:-1]
    while firsts:
        bounds = [0, *firsts, len(raw)]
        shifts = [series.shift(bounds[i], first, bounds[i + 2]) for i, first in enumerate(firsts)]
        worst = max(shifts, key=lambda shift: shift.p)
        if worst.p <= ALPHA:
            return tuple(shifts)
        firsts = [first for first in firsts if first != worst.first]
    return ()


class _WeightedValues(BaseCost):  # type: ignore[misc] # ruptures has no types
    """Values and their weights; as ruptures' cost of a stretch, the weighted sum of squares about its mean."""

    model = ""
    min_size = MIN_RUNS

    def __init__(self, values: Reals, weights: Reals) -> None:
        self.signal = values
        self._sums = [np.concatenate(([0.0], np.cumsum(weights * values**power))) for power in (0, 1, 2)]

    def fit(self, _signal: Reals) -> _WeightedValues:
        return self

    def error(self, start: int, end: int) -> float:
        zero, one, two = (float(sums[end] - sums[start]) for sums in self._sums)
        return max(two - one**2 / zero, 0.0)

    def shift(self, start: int, first: int, end: int) -> Shift:
        """Return the step between two stretches.

        Its p does not rest on a variance below the runs' own, which few runs may have by chance; its interval may.
        """
        weight, other_weight = (float(self._sums[0][b] - self._sums[0][a]) for a, b in ((start, first), (first, end)))
        level, other = (
            float(self._sums[1][b] - self._sums[1][a]) / each
            for a, b, each in ((start, first, weight), (first, end, other_weight))
        )
        df, change = end - start - 2, other - level
        spread = (self.error(start, first) + self.error(first, end)) / df
        unit_error = math.sqrt(1 / weight + 1 / other_weight)
        statistic = abs(change) / unit_error / math.sqrt(max(1.0, spread))
        places = end - start - 2 * MIN_RUNS + 1
        reach = t_quantile(CONFIDENCE, df) * unit_error * math.sqrt(spread)
        p = min(1.0, places * 2 * float(special.stdtr(df, -statistic)))
        return Shift(start, first, end, change, change - reach, change + reach, p)


def _variances(values: Reals, errors: Reals, dfs: Reals) -> Reals:
    """Return the variance of each run about its level: moderated within the run, and between runs."""
    typical = float(np.median(errors**2))
    within = (_PRIOR_DF * typical + dfs * errors**2) / (_PRIOR_DF + dfs)
    total = float(_MAD_TO_SD * np.median(np.abs(np.diff(values)))) ** 2 / 2
    between = max(0.0, total - float(np.median(within)))
    floor = float(np.finfo(np.float64).eps) * max(1.0, float(np.max(values**2)))  # equal values without any error
    return np.maximum(within + between, floor)


def _pull_outliers_in(values: Reals, variances: Reals) -> Reals:
    medians = np.median(np.lib.stride_tricks.sliding_window_view(values, _WINDOW), axis=1)
    medians = np.pad(medians, _WINDOW // 2, mode="edge")
    reach = _OUTLIER_SD * np.sqrt(variances)
    return np.clip(values, medians - reach, medians + reach)
