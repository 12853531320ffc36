from __future__ import annotations

import numpy as np
import pytest

from benchkit.run_history.change_points import MIN_RUNS, find_shifts
from benchkit.stats.samples import Reals

SD = 0.01


def found(levels: Reals, *, seed: int = 1, outliers: tuple[int, ...] = ()) -> list[int]:
    values = levels + SD * np.random.default_rng(seed).standard_normal(len(levels))
    values[list(outliers)] += 0.3
    errors, dfs = np.full(len(levels), SD), np.full(len(levels), 7.0)
    return [shift.first for shift in find_shifts(values, errors, dfs)]


def steps(*parts: tuple[float, int]) -> Reals:
    return np.concatenate([np.full(runs, level) for level, runs in parts])


def test_steps_are_found_where_they_are_and_nothing_else() -> None:
    assert found(steps((0.0, 20), (-0.1, 15), (0.05, 10))) == [20, 35]
    assert found(steps((0.0, 60))) == []


def test_one_or_two_outliers_are_no_shift() -> None:
    assert found(steps((0.0, 30)), outliers=(12,)) == []
    assert found(steps((0.0, 30)), outliers=(28, 29)) == []


def test_sizes_have_intervals_from_the_noise() -> None:
    generator = np.random.default_rng(3)
    covered = 0
    for _ in range(100):
        values = steps((0.0, 15), (0.1, 15)) + SD * generator.standard_normal(30)
        shift = max(find_shifts(values, np.full(30, SD), np.full(30, 7.0)), key=lambda each: abs(each.change))
        covered += shift.low <= 0.1 <= shift.high
    assert covered >= 88  # 95 less what chance allows once in a hundred times, and the choice of the place


def test_runs_with_wide_intervals_weigh_less() -> None:
    values = steps((0.0, 16), (0.05, 5)) + SD * np.random.default_rng(4).standard_normal(21)
    is_late = np.arange(21) >= 16
    narrow, wide = np.full(21, SD), np.where(is_late, 20 * SD, SD)
    dfs = np.full(21, 30.0)
    (shift,) = find_shifts(values, narrow, dfs)
    assert shift.first == pytest.approx(16, abs=1)
    assert find_shifts(values, wide, dfs) == ()


@pytest.mark.parametrize("runs", range(2 * MIN_RUNS))
def test_few_runs_have_no_shift(runs: int) -> None:
    assert find_shifts([float(i) for i in range(runs)], [0.1] * runs, [3.0] * runs) == ()


def test_equal_values_without_errors_have_no_shift() -> None:
    assert find_shifts([1.0] * 20, [0.0] * 20, [3.0] * 20) == ()


def test_steps_of_short_stretches_are_found_by_the_errors_of_their_runs() -> None:
    assert found(steps((0.0, 4), (-0.1, 4), (-0.2, 4))) == [4, 8]
    values = steps((0.0, 4), (-0.1, 4)) + SD * np.random.default_rng(1).standard_normal(8)
    uncertain = np.full(8, 0.1)
    assert find_shifts(values, uncertain, np.full(8, 7.0)) == ()
    assert all(found(np.zeros(8), seed=seed) == [] for seed in range(50))
