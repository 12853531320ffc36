"""Tests of intervals, tests, and their level in families of comparisons."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from benchkit.stats.inference import (
    blocks_to_decide,
    deciding_test,
    holm,
    serial_inflation,
    sign_flip_p_values,
    smallest_p,
    t_p_values,
    t_quantile,
    t_share,
    t_statistics,
    welch,
)
from benchkit.stats.samples import Reals


def random(*shape: int, seed: int = 1) -> Reals:
    return np.random.default_rng(seed).standard_normal(shape)


def test_t_is_students() -> None:
    differences = random(5, 7) + 0.4
    mean, error = t_statistics(differences)
    theirs = stats.ttest_1samp(differences, 0, axis=1)
    assert t_p_values(mean, error, 6) == pytest.approx(theirs.pvalue)
    interval = theirs.confidence_interval(0.95)
    reach = t_quantile(0.95, 6) * error
    assert mean - reach == pytest.approx(interval.low)
    assert mean + reach == pytest.approx(interval.high)


@pytest.mark.parametrize("blocks", [2, 3, 5, 6, 8])
def test_sign_flip_p_value_equals_enumeration(blocks: int) -> None:
    differences = random(6, blocks) + 0.5
    flips = np.array(list(itertools.product((-1, 1), repeat=blocks)))
    for row, p in zip(differences, sign_flip_p_values(differences), strict=True):
        as_far = np.abs(flips @ row) >= abs(row.sum()) * (1 - 1e-9)
        assert p == pytest.approx(as_far.mean())


def test_drawn_signs_are_reproducible_and_close_to_exact() -> None:
    differences = random(4, 14) + 0.4
    assert np.array_equal(sign_flip_p_values(differences), sign_flip_p_values(differences))
    flips = np.array(list(itertools.product((-1, 1), repeat=14)))
    exact = (np.abs(flips @ differences.T) >= np.abs(differences.sum(axis=1)) * (1 - 1e-9)).mean(axis=0)
    assert sign_flip_p_values(differences) == pytest.approx(exact, abs=4 * np.sqrt(0.25 / 9_999))


@given(
    hnp.arrays(np.float64, (2, 6), elements=st.floats(-3, 3, allow_subnormal=False).map(lambda x: round(x, 6))),
    st.floats(0.1, 10),
)
def test_sign_flip_test_is_invariant_to_sign_scale_and_order(differences: Reals, scale: float) -> None:
    p = sign_flip_p_values(differences)
    assert ((p > 0) & (p <= 1)).all()
    assert sign_flip_p_values(-differences) == pytest.approx(p)
    assert sign_flip_p_values(differences * scale) == pytest.approx(p)
    assert sign_flip_p_values(differences[:, ::-1]) == pytest.approx(p)


def test_welch_is_welchs() -> None:
    one, other = random(6), 3 * random(9, seed=2) + 1
    theirs = stats.ttest_ind(other, one, equal_var=False)
    mean, error, df = welch(one, other)
    assert mean / error == pytest.approx(theirs.statistic)
    assert df == pytest.approx(theirs.df)
    assert welch(one, other, 4.0)[1] == pytest.approx(2 * error)
    assert welch(np.ones(3), np.full(3, 2.0)) == (1.0, 0.0, 4.0)


def test_autocorrelated_blocks_inflate_the_variance() -> None:
    generator = np.random.default_rng(5)
    independent = [generator.standard_normal((3, 400)) for _ in range(2)]
    assert serial_inflation(independent) < 1.2
    following = np.empty((2, 400))
    following[:, 0] = generator.standard_normal(2)
    for i in range(1, 400):
        following[:, i] = 0.5 * following[:, i - 1] + np.sqrt(0.75) * generator.standard_normal(2)
    assert serial_inflation([following]) == pytest.approx(3.0, rel=0.25)  # (1 + 0.5) / (1 - 0.5)
    rising = np.tile(np.arange(30.0), (2, 1))
    assert serial_inflation([rising]) == pytest.approx(9)  # the most that is believed
    assert serial_inflation([np.full((2, 6), np.nan)]) == 1
    assert serial_inflation([np.ones((2, 6))]) == 1


def test_holm_by_hand() -> None:
    # The smallest times 4, the next times 3, … and never below one that came before; what R's p.adjust gives.
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.5, 0.9]) == pytest.approx([1, 1])
    assert holm([0.2]) == [0.2]
    assert holm([]) == []


def test_too_few_blocks_cannot_decide() -> None:
    assert smallest_p(5) == 0.0625
    assert smallest_p(6) == 0.03125
    assert [deciding_test(blocks, 1) for blocks in (1, 3, 5, 6, 30)] == [None, "t", "t", "sign-flip", "sign-flip"]
    assert [t_share(blocks) for blocks in (3, 5, 6)] == [0.2, 0.2, 1.0]
    # Six blocks are enough for one comparison and for no more by signs alone; Holm asks three of them for p = 0.0167.
    assert [deciding_test(blocks, 3) for blocks in (5, 6, 7)] == ["t", "t", "sign-flip"]
    assert deciding_test(6, 2) == "t"
    assert deciding_test(10, 500) == "t"
    assert [blocks_to_decide(family) for family in (1, 2, 3, 7, 100)] == [6, 7, 7, 9, 12]
    assert blocks_to_decide(500) is None  # more sign patterns than are drawn


@given(st.integers(2, 40), st.integers(1, 600))
def test_the_deciding_test_can_decide(blocks: int, family: int) -> None:
    test = deciding_test(blocks, family)
    if test == "sign-flip":
        assert smallest_p(blocks) * family <= 0.05
    elif test == "t":
        assert blocks >= 3
        assert smallest_p(blocks) * family > 0.05
    else:
        assert blocks < 3
