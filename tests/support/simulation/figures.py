"""Coverage, false alarms and power, counted over simulated runs with fixed seeds."""

from __future__ import annotations

import math

import numpy as np

from benchkit.comparison.power import RatioNoise, mde
from benchkit.models.design import ALPHA_PER_LOOK
from benchkit.stats.inference import (
    ALPHA,
    deciding_test,
    holm,
    sign_flip_p_values,
    t_p_values,
    t_quantile,
    t_share,
    t_statistics,
)
from benchkit.stats.samples import Reals
from tests.support.simulation.noise import Model, cells_in_blocks

_TESTED = 500
"""Number of adaptive runs that are also tested: each test of a long one uses thousands of sign patterns."""


def coverage(model: Model, blocks: int, *, cells: int = 2, runs: int = 4_000) -> float:
    """Return the share of intervals of Student's t that contain the true ratio of two equal cells."""
    mean, error = t_statistics(_differences(model, blocks, cells, runs)[:, 0])
    return float((np.abs(mean) <= t_quantile(1 - ALPHA, blocks - 1) * error).mean())


def false_alarms(model: Model, blocks: int, *, comparisons: int, runs: int = 1_000) -> float:
    """Return the share of runs of equal cells that show any difference to the baseline."""
    differences = _differences(model, blocks, comparisons + 1, runs)
    return float((_adjusted(differences) <= ALPHA).any(axis=1).mean())


def power(model: Model, blocks: int, *, comparisons: int, runs: int = 1_000) -> float | None:
    """Return the share of runs that show a true difference of the detectable size, among otherwise equal cells.

    The noise is known. None: nothing is detectable.
    """
    differences = _differences(model, blocks, comparisons + 1, runs)
    detectable = mde(RatioNoise(float(_differences(model, blocks, comparisons + 1, 20_000).std())), blocks, comparisons)
    if detectable is None:
        return None
    differences[:, 0] += math.log(detectable)
    return float((_adjusted(differences)[:, 0] <= ALPHA).mean())


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
