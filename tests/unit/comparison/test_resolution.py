from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from benchkit.comparison.power import Noise, mde, noise_of, resolution
from benchkit.stats.samples import Exclusion

MakeTrials = Callable[..., pd.DataFrame]
NOISE = Noise(0.1)


def effect(blocks: int, family: int = 1) -> float:
    found = mde(NOISE, blocks, family)
    assert found is not None
    return math.log(found) / NOISE.sd


def test_detectable_effect_of_six_blocks_by_hand() -> None:
    # Six blocks show a difference only if all signs agree: Φ(effect)⁶ is the power.
    assert stats.norm.cdf(effect(6)) ** 6 == pytest.approx(0.82, abs=0.015)


def test_with_t_the_effect_is_that_of_its_power_function() -> None:
    found = effect(20)
    critical = stats.t.ppf(0.975, 19)
    assert stats.nct.sf(critical, 19, found * math.sqrt(20)) == pytest.approx(0.82)


def test_too_few_blocks_detect_nothing() -> None:
    assert mde(NOISE, 2) is None
    assert resolution(2, 1, NOISE).half_width is None
    five, six = (resolution(blocks, 1, NOISE) for blocks in (5, 6))
    assert (five.test, five.shown_from, six.test) == ("t", 6, "sign-flip")
    assert (five.detectable or 0) > (six.detectable or 9)
    assert five.text.startswith(
        "5 blocks are too few for the sign-flip test (smallest p 0.062; 6 blocks can): t decides at a fifth of the level, "
    )
    assert five.half_width == pytest.approx(math.exp(2.776445 * 0.1 / math.sqrt(5)))


def test_limits_of_a_large_family_are_stated() -> None:
    found = resolution(6, 3, NOISE)
    assert found.test == "t"
    assert (
        "6 blocks are too few for the sign-flip test among 3 comparisons (smallest p 0.031; 7 blocks can)" in found.text
    )
    assert "a difference of" in found.text
    assert resolution(6, 1).text == ""
    assert "no number of blocks can" in resolution(10, 500).text


@pytest.mark.parametrize("family", [1, 3])
def test_more_blocks_with_the_same_test_detect_less(family: int) -> None:
    found = [effect(blocks, family) for blocks in (8, 10, 12, 14, 20, 30)]
    assert found == sorted(found, reverse=True)
    assert effect(10, 1) < effect(10, 3) < effect(10, 7)


def test_noise_is_the_residual_of_cells_and_blocks(make_trials: MakeTrials) -> None:
    generator = np.random.default_rng(4)
    noise = 0.08 * generator.standard_normal((4, 60))
    levels, drift = np.array([[5], [6], [4], [5.5]]), np.linspace(0, -1, 60)
    trials = make_trials({name: np.exp(row) for name, row in zip("abcd", levels + drift + noise, strict=True)})
    found = noise_of(trials, "rps")
    assert found is not None
    assert found.df == 3 * 59
    assert found.sd == pytest.approx(0.08 * math.sqrt(2), rel=0.1)
    out = [Exclusion(f"r1.a.b{block}", "invalid") for block in range(1, 31)]
    less = noise_of(trials, "rps", out)
    assert less is not None
    assert less.df == 3 * 59 - 30
    assert less.sd == pytest.approx(0.08 * math.sqrt(2), rel=0.1)
    assert noise_of(make_trials({"a": [1, 2, 3]}), "rps") is None
    assert noise_of(make_trials({"a": [1], "b": [2]}), "rps") is None


def test_cell_without_usable_trials_does_not_affect_others(make_trials: MakeTrials) -> None:
    generator = np.random.default_rng(4)
    rates = {name: np.exp(0.1 * generator.standard_normal(8)) for name in "abc"}
    excluded = [Exclusion(f"r1.c.b{block}", "the generator was the limit") for block in range(1, 9)]
    found = noise_of(make_trials(rates), "rps", excluded)
    without = noise_of(make_trials({name: rates[name] for name in "ab"}), "rps")
    assert found is not None
    assert without is not None
    assert found.df == 7
    assert found.sd == pytest.approx(without.sd)
    assert without.sd == pytest.approx(np.std(np.log(rates["a"] / rates["b"]), ddof=1))


def test_noise_of_an_incomplete_layout_equals_least_squares(make_trials: MakeTrials) -> None:
    generator = np.random.default_rng(9)
    logs = np.arange(3.0)[:, None] + generator.standard_normal(5) + 0.1 * generator.standard_normal((3, 5))
    trials = make_trials({name: np.exp(row) for name, row in zip("abc", logs, strict=True)})
    lost = {("a", 1), ("b", 2), ("b", 3), ("c", 4), ("a", 5)}  # no block is whole
    found = noise_of(trials, "rps", [Exclusion(f"r1.{cell}.b{block}", "invalid") for cell, block in lost])
    kept = [(c, b) for c in range(3) for b in range(5) if ("abc"[c], b + 1) not in lost]
    design = np.array([[*(c == i for i in range(3)), *(b == j for j in range(5))] for c, b in kept], dtype=float)
    values = np.array([logs[place] for place in kept])
    residual = values - design @ np.linalg.lstsq(design, values, rcond=None)[0]
    df = len(kept) - np.linalg.matrix_rank(design)
    assert found is not None
    assert found.df == df == 10 - 7
    assert found.sd == pytest.approx(math.sqrt(2 * float(residual @ residual) / df))


def test_noise_from_a_pilot_is_taken_at_its_upper_limit() -> None:
    # 80 % of pilots of normal noise have an upper limit above the truth.
    pilots = np.random.default_rng(2).standard_normal((4_000, 5)).std(axis=1, ddof=1)
    above = [Noise(float(sd), 4).safe_sd >= 1 for sd in pilots]
    assert np.mean(above) == pytest.approx(0.8, abs=0.02)
    assert Noise(0.1).safe_sd == 0.1
    assert (mde(Noise(0.1, 4), 10) or 0) > (mde(Noise(0.1), 10) or 9)


def test_limits_of_a_family_name_its_size() -> None:
    """Two families with different limits must not read like one sentence with two ends."""
    assert resolution(2).limits == "2 blocks cannot show a difference: an interval needs 3."
    assert resolution(5).limits.startswith(
        "5 blocks are too few for the sign-flip test (smallest p 0.062; 6 blocks can)"
    )
    assert " among 9 comparisons (smallest p 0.062; 9 blocks can)" in resolution(5, 9).limits
