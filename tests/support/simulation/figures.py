"""Coverage, false alarms and power, counted over simulated runs with fixed seeds."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Literal

import numpy as np
from scipy import stats

from benchkit.comparison.power import RatioNoise, mde
from benchkit.models.design import ALPHA_PER_LOOK
from benchkit.stats.inference import (
    ALPHA,
    binary_patterns,
    deciding_test,
    holm,
    serial_inflation,
    sign_flip_p_values,
    t_p_values,
    t_quantile,
    t_share,
    t_statistics,
    welch,
)
from benchkit.stats.samples import Reals
from tests.support.simulation.noise import Model, cells_in_blocks

Interval = Callable[[Reals], tuple[Reals, Reals]]
"""(rows, blocks) of log-ratios → lower and upper limits, 95 %."""

_RESAMPLES = 999
_BATCH = 50
_TESTED = 500
"""Number of adaptive runs that are also tested: each test of a long one uses thousands of sign patterns."""


def student(differences: Reals) -> tuple[Reals, Reals]:
    """Return the interval of Student's t, which benchkit uses."""
    mean, error = t_statistics(differences)
    reach = t_quantile(1 - ALPHA, differences.shape[1] - 1) * error
    return mean - reach, mean + reach


def inverted_sign_flip(differences: Reals) -> tuple[Reals, Reals]:
    """Return all shifts that the sign-flip test does not reject: order statistics of means of subsets (Hartigan 1969).

    Of every subset up to 10 blocks, of drawn ones beyond; below 6 blocks the interval is unlimited.
    """
    rows, blocks = differences.shape
    if blocks <= 10:
        subsets = binary_patterns(blocks, 2**blocks)[1:]
    else:
        subsets = np.random.default_rng(blocks).integers(0, 2, (1_999, blocks))
        subsets = subsets[subsets.any(axis=1)]
    k = int(ALPHA / 2 * (len(subsets) + 1))
    if k == 0:
        return np.full(rows, -np.inf), np.full(rows, np.inf)
    means = differences @ (subsets / subsets.sum(axis=1, keepdims=True)).T
    limits = np.partition(means, (k - 1, len(subsets) - k), axis=1)
    return limits[:, k - 1], limits[:, len(subsets) - k]


def percentile_bootstrap(differences: Reals) -> tuple[Reals, Reals]:
    """Return Efron's percentile bootstrap interval."""
    return _bootstrap(differences, "percentile")


def bca_bootstrap(differences: Reals) -> tuple[Reals, Reals]:
    """Return Efron's bias-corrected and accelerated bootstrap interval."""
    return _bootstrap(differences, "BCa")


CANDIDATES: Mapping[str, Interval] = MappingProxyType(
    {
        "t": student,
        "inverted sign-flip": inverted_sign_flip,
        "percentile bootstrap": percentile_bootstrap,
        "BCa bootstrap": bca_bootstrap,
    }
)


def coverage(interval: Interval, model: Model, blocks: int, *, cells: int = 2, runs: int = 4_000) -> float:
    """Return the share of intervals that contain the true ratio of two equal cells."""
    differences = _differences(model, blocks, cells, runs)[:, 0]
    low, high = interval(differences)
    return float(((low <= 0) & (high >= 0)).mean())


def coverage_unequal(model: Model, blocks: int, *, response: float = 2.0, runs: int = 4_000) -> float:
    """Return the coverage of t where the noise of the host affects one cell `response` times as much as the other.

    Its ratio then changes with the state of the host, and the true ratio is that over all states, of which a run sees
    some. If the states last long, no interval from one run covers it.
    """
    generator = np.random.default_rng(blocks)
    logs = cells_in_blocks(model, generator, runs, 2, blocks)
    truth = (response - 1) * float(model(generator, 20_000, 2 * blocks).mean())
    low, high = student(response * logs[:, 1] - logs[:, 0])
    return float(((low <= truth) & (high >= truth)).mean())


def false_alarms(model: Model, blocks: int, *, comparisons: int, runs: int = 1_000) -> float:
    """Return the share of runs of equal cells that show any difference to the baseline."""
    differences = _differences(model, blocks, comparisons + 1, runs)
    return float((_adjusted(differences) <= ALPHA).any(axis=1).mean())


def power(model: Model, blocks: int, *, comparisons: int, runs: int = 1_000, pilot: int | None = None) -> float | None:
    """Return the share of runs that show a true difference of the detectable size, among otherwise equal cells.

    The noise is known, or comes from a pilot of `pilot` blocks for each run. None: nothing is detectable.
    """
    differences = _differences(model, blocks, comparisons + 1, runs)
    if pilot is None:
        noise = [RatioNoise(float(_differences(model, blocks, comparisons + 1, 20_000).std()))] * runs
    else:
        seen = _differences(model, pilot, comparisons + 1, runs, seed=1)[:, 0]
        noise = [RatioNoise(float(sd), pilot - 1) for sd in seen.std(axis=1, ddof=1)]
    detectable = [mde(known, blocks, comparisons) for known in noise]
    if any(ratio is None for ratio in detectable):
        return None
    differences[:, 0] += np.log(np.array(detectable, dtype=np.float64))[:, None]
    return float((_adjusted(differences)[:, 0] <= ALPHA).mean())


def coverage_between_runs(model: Model, blocks: int, *, relative: bool, cells: int = 2, runs: int = 2_000) -> float:
    """Return the coverage of the interval of a cell between two runs, direct or relative to another cell."""
    generator = np.random.default_rng([blocks, cells])
    before, after = (cells_in_blocks(model, generator, runs, cells, blocks) for _ in range(2))
    covered = 0
    for one, other in zip(before, after, strict=True):
        if relative:
            mean, error, df = welch(one[1] - one[0], other[1] - other[0])
        else:
            mean, error, df = welch(one[1], other[1], serial_inflation([one, other]))
        covered += abs(mean) <= t_quantile(1 - ALPHA, df) * error
    return covered / runs


def adaptive_run(
    model: Model, precision: float, *, level: float = ALPHA_PER_LOOK, max_blocks: int = 60, runs: int = 4_000
) -> tuple[float, float, float]:
    """Coverage, false alarms and mean number of blocks of runs of two cells that stop at a precision.

    The rule of `adaptive.decide` with at least 6 and at most `max_blocks` blocks; intervals and the test at `level`.
    """
    differences = _differences(model, max_blocks, 2, runs)[:, 0]
    looks = np.arange(6, max_blocks + 1)
    mean, error = (np.array(found).T for found in zip(*(t_statistics(differences[:, :n]) for n in looks), strict=True))
    reach = np.array([t_quantile(1 - level, int(n) - 1) for n in looks]) * error
    narrow = reach <= math.log1p(precision)
    narrow[:, -1] = True
    end = narrow.argmax(axis=1)
    at_end = np.arange(runs), end
    covered = float((np.abs(mean[at_end]) <= reach[at_end]).mean())
    alarms = [_alarms(differences[:_TESTED][end[:_TESTED] == i, :n], level) for i, n in enumerate(looks)]
    return covered, sum(alarms) / min(runs, _TESTED), float(looks[end].mean())


def _alarms(differences: Reals, level: float) -> int:
    """Return the number of rows that the deciding test shows to differ."""
    if not len(differences):
        return 0
    blocks = differences.shape[1]
    if deciding_test(blocks, 1, level) == "t":
        return int((t_p_values(*t_statistics(differences), blocks - 1) <= level * t_share(blocks, level)).sum())
    return int((sign_flip_p_values(differences) <= level).sum())


def _differences(model: Model, blocks: int, cells: int, runs: int, seed: int = 0) -> Reals:
    """Return log-ratios to the first of equal cells: (runs, cells less one, blocks)."""
    logs = cells_in_blocks(model, np.random.default_rng([seed, blocks, cells, runs]), runs, cells, blocks)
    return logs[:, 1:] - logs[:, :1]


def _adjusted(differences: Reals) -> Reals:
    """Return Holm's p of the deciding test for each comparison of each run; 1 where nothing decides."""
    runs, comparisons, blocks = differences.shape
    rows = differences.reshape(-1, blocks)
    match deciding_test(blocks, comparisons):
        case "sign-flip":
            p = sign_flip_p_values(rows)
        case "t":
            p = np.minimum(1, t_p_values(*t_statistics(rows), blocks - 1) / t_share(blocks))
        case _:
            return np.ones((runs, comparisons))
    return np.array([holm(list(family)) for family in p.reshape(runs, comparisons)])


def _bootstrap(differences: Reals, method: Literal["percentile", "BCa"]) -> tuple[Reals, Reals]:
    with warnings.catch_warnings():
        # With three or four blocks some samples have no acceleration; such an interval is NaN, and does not cover.
        warnings.simplefilter("ignore")
        found = stats.bootstrap(
            (differences,),
            np.mean,
            n_resamples=_RESAMPLES,
            batch=_BATCH,
            vectorized=True,
            axis=1,
            method=method,
            rng=np.random.default_rng(0),
        ).confidence_interval
    return np.asarray(found.low), np.asarray(found.high)
