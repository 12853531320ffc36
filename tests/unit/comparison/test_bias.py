"""Tests of the bias that disturbances put into ratios."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from benchkit.comparison.ratios import CONTAINED, Ratio, bias_of, block_ratios, with_outcomes
from benchkit.stats.cell_pairs import ComparedCells
from benchkit.stats.inference import t_quantile, t_statistics
from benchkit.stats.samples import take_samples
from tests.support.comparison.fixtures import MakeTrials

NOISE = np.array([0.01, -0.02, 0.0, 0.02, -0.01, 0.015, -0.015, 0.005])
BLOCKS = len(NOISE)


def ratio_of(
    make_trials: MakeTrials,
    times: float,
    column: str = "foreign_share",
    share_of_b: float | Sequence[float] = 0.0,
    metric: str = "rps",
) -> Ratio:
    """Return the ratio of b to a, where this column of the trials of b is not 0."""
    rates = {"a": 100 * np.exp(NOISE), "b": times * 100 * np.exp(-NOISE)}
    trials = make_trials({cell: list(values) for cell, values in rates.items()}, slices=20)
    trials["server_cpu_s_per_request"] = 1 / trials["rps"]
    trials[column] = 0.0
    trials.loc[trials["cell_id"] == "b", column] = share_of_b
    (ratio,) = with_outcomes(block_ratios(take_samples(trials, metric), [ComparedCells("b", "a")]))
    return ratio


def test_disturbance_that_meets_cells_at_random_is_noise(make_trials: MakeTrials) -> None:
    shares = [0.3, 0.0, 0.0, 0.4, 0.0, 0.0, 0.3, 0.0]
    found = ratio_of(make_trials, 1.5, "foreign_share", shares)
    assert (found.outcome, found.bias, found.notes) == ("higher", 0.0, ())


@pytest.mark.parametrize("column", ["foreign_share", "stolen_share", "withheld_share"])
def test_disturbance_of_one_cell_in_every_block_widens_the_interval(make_trials: MakeTrials, column: str) -> None:
    shares = list(0.1 + NOISE)
    plain, found = ratio_of(make_trials, 1.5), ratio_of(make_trials, 1.5, column, shares)
    assert found.bias == pytest.approx(-np.log1p(-np.array(shares)).mean())
    assert (plain.low, plain.high) != (None, None)
    assert found.low == pytest.approx((plain.low or 0) * math.exp(-found.bias))
    assert found.high == pytest.approx((plain.high or 0) * math.exp(found.bias))
    assert found.interval(0.05) == pytest.approx((found.low, found.high))
    assert found.outcome == "higher"
    assert found.doubts == (
        (
            "what ran beside the servers took more CPU time from b than from a: the ratio may be off by up to 11.2 %, "
            "which its interval includes"
        ),
    )


def test_disturbance_that_is_unknown_beside_one_cell_is_no_bias(make_trials: MakeTrials) -> None:
    rates = {"a": 100 * np.exp(NOISE), "b": 150 * np.exp(-NOISE)}
    trials = make_trials({cell: list(values) for cell, values in rates.items()}, slices=20)
    trials["foreign_share"] = np.where(trials["cell_id"] == "a", 0.5, np.nan)
    (ratio,) = with_outcomes(block_ratios(take_samples(trials, "rps"), [ComparedCells("b", "a")]))
    assert (ratio.outcome, ratio.bias) == ("higher", 0.0)


def test_difference_that_the_bias_explains_is_undecided(make_trials: MakeTrials) -> None:
    assert ratio_of(make_trials, 0.92).outcome == "lower"
    found = ratio_of(make_trials, 0.92, "foreign_share", list(0.1 + NOISE))
    assert found.outcome == "undecided"
    assert found.reason == "the difference is no larger than the 11.2% that unequal CPU time can explain"


def test_background_work_counts_once_for_each_cell(make_trials: MakeTrials) -> None:
    """A server takes 3 % from the other's slices, and may save as much in its own."""
    found = ratio_of(make_trials, 9.0, "neighbour_share", 0.03)
    assert found.bias == pytest.approx(-2 * math.log(0.97))
    assert found.outcome == "higher"
    assert "servers without load took CPU time from b while it was under load" in found.notes[0]


def test_bias_far_below_the_interval_is_in_it_anyway(make_trials: MakeTrials) -> None:
    assert ratio_of(make_trials, 1.5, "neighbour_share", 0.001).bias == 0
    half_width = 0.1
    constant = np.full(BLOCKS, 0.2 * half_width)
    assert bias_of(constant * 0.99, np.zeros(BLOCKS), half_width, 0.05).size == 0
    assert bias_of(constant * 1.01, np.zeros(BLOCKS), half_width, 0.05).size > 0


def test_cpu_time_per_request_has_no_such_bias(make_trials: MakeTrials) -> None:
    found = ratio_of(make_trials, 1.5, "foreign_share", 0.3, "server_cpu_s_per_request")
    assert (found.outcome, found.bias) == ("lower", 0.0)


def test_interval_with_the_largest_bias_that_it_ignores_covers() -> None:
    mean, error = t_statistics(np.random.default_rng(4).standard_normal((20_000, BLOCKS)))
    reach = t_quantile(0.95, BLOCKS - 1) * error
    assert np.mean(np.abs(mean + CONTAINED * reach) <= reach) >= 0.93
