"""Multiple comparisons: Holm's adjustment, and the test that can decide among them."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Literal

import numpy as np

from benchkit.stats.inference import MIN_BLOCKS, smallest_p

ALPHA = 0.05
"""Probability that a family of comparisons of equal cells shows any difference."""

Test = Literal["sign-flip", "t", "welch"]

FEW_BLOCKS = 0.2
"""Share of the level at which t decides where blocks are too few for the sign-flip test. At the level itself, 3 to 5
blocks of equal cells show a difference in up to 5.3 % of the simulated runs; a fifth of it leaves room for noise that
is less normal than any simulated, and still shows a large difference."""

_MANY = 1_000
"""Upper limit of the search for enough blocks; no run has more."""


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values adjusted for their number, which keep the probability of any false alarm.

    Holm, A simple sequentially rejective multiple test procedure, Scandinavian Journal of Statistics 6 (1979).
    """
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    factors = len(p) - np.arange(len(p))
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(np.maximum.accumulate(p[order] * factors), 1)
    return [float(value) for value in adjusted]


@functools.cache
def blocks_to_decide(family: int = 1, alpha: float = ALPHA) -> int | None:
    """Return the fewest blocks with which the sign-flip test can show a difference in a family of this size.

    None if no number of blocks can, because the number of sign patterns is limited.
    """
    return next((n for n in range(2, _MANY) if smallest_p(n) * max(family, 1) <= alpha), None)


def deciding_test(blocks: int, family: int, alpha: float = ALPHA) -> Test | None:
    """Return the test whose p-values decide, chosen before any result: the sign-flip test wherever it can decide.

    Elsewhere it is t on the same log-ratios, which assumes nearly normal noise: see `t_share`. With too few blocks for
    an interval nothing decides.
    """
    if blocks < MIN_BLOCKS:
        return None
    return "sign-flip" if smallest_p(blocks) * max(family, 1) <= alpha else "t"


def t_share(blocks: int, alpha: float = ALPHA) -> float:
    """Return the share of the level at which t decides: 1 where blocks are enough for one comparison by signs alone."""
    return 1.0 if smallest_p(blocks) <= alpha else FEW_BLOCKS
