from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchkit.stats.inference import smallest_p
from benchkit.stats.multiple_tests import blocks_to_decide, deciding_test, holm, t_share


def test_holm_by_hand() -> None:
    # The smallest times 4, the next times 3, … and never below one that came before; what R's p.adjust gives.
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.5, 0.9]) == pytest.approx([1, 1])
    assert holm([0.2]) == [0.2]
    assert holm([]) == []


@given(st.lists(st.floats(1e-6, 1), min_size=1, max_size=30))
def test_holm_keeps_the_order_and_lies_between_p_and_bonferroni(p_values: list[float]) -> None:
    adjusted = holm(p_values)
    for p, q in zip(p_values, adjusted, strict=True):
        assert p <= q * (1 + 1e-12)
        assert q <= min(1, p * len(p_values)) + 1e-12 or q == max(adjusted)
    assert [p for _, p in sorted(zip(adjusted, p_values, strict=True))] == sorted(p_values)
    assert min(adjusted) == pytest.approx(min(1, min(p_values) * len(p_values)))


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
