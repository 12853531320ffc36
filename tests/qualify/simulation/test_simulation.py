"""Error rates and coverage of the statistics, over simulated runs with fixed seeds.

A share counted over n runs is itself uncertain. The decisive figures are counted over enough runs to meet their limits
exactly. Others may miss them by what chance allows once in a hundred times.
"""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from benchkit.comparison.adaptive import decide
from benchkit.comparison.ratios import block_ratios, with_outcomes
from benchkit.models.design import StopCondition
from benchkit.stats.cell_pairs import ComparedCells
from benchkit.stats.samples import Samples
from tests.support.simulation.figures import adaptive_run, coverage, false_alarms, power
from tests.support.simulation.noise import MODELS, cells_in_blocks, lab
from tests.support.simulation.sliced_noise import RECORDED, sliced


def by_chance(share: float, runs: int) -> float:
    """Return the deviation of a counted share from the true one that chance exceeds once in a hundred times."""
    return 2.326 * math.sqrt(share * (1 - share) / runs)


@pytest.mark.parametrize("name", MODELS)
def test_intervals_cover_93_to_97_percent_from_six_blocks_and_92_from_three(name: str) -> None:
    assert coverage(MODELS[name], 3, cells=6) >= 0.92
    for blocks in (6, 8, 15, 30):
        assert 0.93 <= coverage(MODELS[name], blocks, cells=2) <= 0.97


@pytest.mark.parametrize("name", RECORDED)
def test_intervals_of_sliced_blocks_cover_93_to_97_percent(name: str) -> None:
    for blocks in (6, 10):
        assert 0.93 <= coverage(sliced(name, 2), blocks, cells=2) <= 0.97


@pytest.mark.parametrize("name", MODELS)
def test_equal_cells_keep_the_false_alarm_rate(name: str) -> None:
    for blocks, comparisons in ((3, 1), (6, 1), (6, 3), (8, 2)):
        assert false_alarms(MODELS[name], blocks, comparisons=comparisons, runs=10_000) <= 0.05


@pytest.mark.parametrize("name", MODELS)
def test_detectable_effect_has_the_stated_power(name: str) -> None:
    assert (power(MODELS[name], 6, comparisons=1, runs=10_000) or 0) >= 0.8
    assert (power(MODELS[name], 8, comparisons=3) or 0) >= 0.8 - by_chance(0.8, 1_000)
    assert power(MODELS[name], 2, comparisons=1) is None


@pytest.mark.parametrize(("name", "precision"), [("normal", 0.07), ("autocorrelated", 0.05), ("lab", 0.05)])
def test_adaptive_runs_keep_coverage_and_error_rate(name: str, precision: float) -> None:
    covered, alarms, blocks = adaptive_run(MODELS[name], precision, runs=2_000)
    assert covered >= 0.95 - by_chance(0.95, 2_000)
    assert alarms <= 0.05 + by_chance(0.05, 500)
    assert blocks > 6


def test_simulation_uses_the_outcomes_that_users_see() -> None:
    generator = np.random.default_rng(1)
    runs, alarms = 400, 0
    for logs in cells_in_blocks(lab, generator, runs, 4, 7):
        samples = Samples("rps", ("a", "b", "c", "d"), tuple(range(1, 8)), logs, {})
        ratios = with_outcomes(block_ratios(samples, [ComparedCells(cell, "a") for cell in "bcd"]))
        alarms += any(ratio.outcome in {"higher", "lower"} for ratio in ratios)
    assert alarms / runs == pytest.approx(false_alarms(lab, 7, comparisons=3), abs=0.03)


def test_simulated_rule_is_the_production_rule() -> None:
    until = StopCondition(precision=0.07, min_blocks=6)
    differences = cells_in_blocks(lab, np.random.default_rng([0, 20, 2, 40]), 40, 2, 20)
    ends = []
    for logs in differences:
        for blocks in range(3, 21):
            rows = [
                {"cell_id": cell, "trial_id": f"{cell}{b}", "block": b, "kind": "measure", "rps": math.exp(logs[i, b])}
                for i, cell in enumerate("ab")
                for b in range(blocks)
            ]
            if decide(pd.DataFrame(rows), [("rps", ComparedCells("b", "a"))], until, max_blocks=20).stop:
                ends.append(blocks)
                break
    assert np.mean(ends) == pytest.approx(adaptive_run(lab, 0.07, max_blocks=20, runs=40)[2])
