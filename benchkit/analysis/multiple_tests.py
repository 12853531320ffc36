"""Several comparisons at once: Holm's adjustment, and which test can decide among so many with so few blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from benchkit.analysis.inference import smallest_p

ALPHA = 0.05
"""How often a family of comparisons of equal cells may show any difference."""

Test = Literal["sign-flip", "t", "welch"]

_MANY = 1_000
"""No run has more blocks; a search for enough of them ends here."""


def holm(p_values: Sequence[float]) -> list[float]:
    """p-values adjusted for their number, by which the chance of any false alarm keeps the level.

    Holm, A simple sequentially rejective multiple test procedure, Scandinavian Journal of Statistics 6 (1979).
    """
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    factors = len(p) - np.arange(len(p))
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(np.maximum.accumulate(p[order] * factors), 1)
    return [float(value) for value in adjusted]


def blocks_to_decide(family: int = 1, alpha: float = ALPHA) -> int | None:
    """The fewest blocks with which the sign-flip test can show a difference among so many comparisons.

    None where no number of blocks can, because only so many sign patterns are drawn.
    """
    return next((n for n in range(2, _MANY) if smallest_p(n) * max(family, 1) <= alpha), None)


def deciding_test(blocks: int, family: int, alpha: float = ALPHA) -> Test | None:
    """The test whose p-values decide, known before any result is: the sign-flip test wherever it can decide.

    With enough blocks for one comparison, but too few for so many, it is t on the same log-ratios, which takes their
    noise as near normal. With too few blocks for even one comparison nothing decides.
    """
    if smallest_p(blocks) > alpha:
        return None
    return "sign-flip" if smallest_p(blocks) * max(family, 1) <= alpha else "t"
