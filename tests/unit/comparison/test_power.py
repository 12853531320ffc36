from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from benchkit.comparison.power import (
    RatioNoise,
    design_limits,
    mde,
    noise_of,
    resolution,
)
from benchkit.stats.samples import Exclusion
from tests.support.comparison.fixtures import manifest_of, trials_of

CELLS = [{"stack": "go"}, {"stack": "nginx"}, {"stack": "node"}]


def test_a_plan_has_the_limits_of_its_blocks() -> None:
    (limit,) = design_limits(manifest_of(CELLS[:2], blocks=2))
    assert limit == "Cells relative to the baseline: 2 blocks cannot show a difference: an interval needs 3."
    assert design_limits(manifest_of(CELLS[:2], blocks=6)) == []
    assert design_limits(manifest_of(CELLS[:2], blocks=2, scenario={"design": "sequential"})) == []


def test_claims_of_a_plan_have_limits_of_their_own() -> None:
    claim = {"text": "slower", "ratio": {"of": {"stack": "node"}, "to": {"stack": "nginx"}}, "at_most": 1}
    cells, claims = design_limits(manifest_of(CELLS, blocks=5, scenario={"claims": [claim]}))
    assert cells.startswith(
        "Cells relative to the baseline: 5 blocks are too few for the sign-flip test among 2 comparisons"
    )
    assert claims.startswith("Each claim: 5 blocks are too few for the sign-flip test (")


def test_a_run_that_may_end_early_has_the_limits_of_its_fewest_blocks() -> None:
    until = {"precision": 0.05, "min_blocks": 6}
    (limit,) = design_limits(manifest_of(CELLS, blocks=60, scenario={"until": until}))
    assert limit.startswith(
        "Cells relative to the baseline: 6 blocks are too few for the sign-flip test among 2 comparisons"
    )


NOISE = RatioNoise(0.1)


def effect(blocks: int, family: int = 1) -> float:
    found = mde(NOISE, blocks, family)
    assert found is not None
    return math.log(found) / NOISE.sd


def test_detectable_effect_of_six_blocks_by_hand() -> None:
    # Six blocks show a difference only if all signs agree: Φ(effect)⁶ is the power.
    assert 0.82 <= stats.norm.cdf(effect(6)) ** 6 < 0.86


def test_with_t_the_effect_is_that_of_its_power_function() -> None:
    critical = stats.t.ppf(1 - 0.01 / 2, 4)
    assert stats.nct.sf(critical, 4, effect(5) * math.sqrt(5)) == pytest.approx(0.82)


def test_too_few_blocks_detect_nothing() -> None:
    assert mde(NOISE, 2) is None
    two = resolution(2, 1, NOISE)
    assert two.limits == "2 blocks cannot show a difference: an interval needs 3."
    five, six = (resolution(blocks, 1, NOISE) for blocks in (5, 6))
    assert (five.detectable or 0) > (six.detectable or 9)
    assert six.limits == ""
    assert five.limits == (
        "5 blocks are too few for the sign-flip test (smallest p 0.062; 6 blocks can): the t-test decides, at p below 0.01. "
        "It assumes nearly normal noise."
    )


def test_noise_is_the_residual_of_cells_and_blocks() -> None:
    generator = np.random.default_rng(4)
    noise = 0.08 * generator.standard_normal((4, 60))
    levels, drift = np.array([[5], [6], [4], [5.5]]), np.linspace(0, -1, 60)
    trials = trials_of({name: np.exp(row) for name, row in zip("abcd", levels + drift + noise, strict=True)})
    found = noise_of(trials, "rps")
    assert found is not None
    assert found.df == 3 * 59
    assert found.sd == pytest.approx(0.08 * math.sqrt(2), rel=0.1)
    out = [Exclusion(f"r1.a.b{block}", "invalid") for block in range(1, 31)]
    less = noise_of(trials, "rps", out)
    assert less is not None
    assert less.df == 3 * 59 - 30
    assert less.sd == pytest.approx(0.08 * math.sqrt(2), rel=0.1)
    assert noise_of(trials_of({"a": [1, 2, 3]}), "rps") is None
    assert noise_of(trials_of({"a": [1], "b": [2]}), "rps") is None
