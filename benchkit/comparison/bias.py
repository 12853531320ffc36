"""Bias of a ratio: the part of a disturbance that random order does not turn into noise.

In a random order a disturbance from outside meets every cell alike: it makes log-ratios vary, which their interval
includes, and has no direction. It biases a ratio only as far as it left one cell more CPU time than the other over all
blocks. Work of servers without load is another matter: it always takes from the others, in every order.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from benchkit.stats.inference import MIN_BLOCKS, t_quantile
from benchkit.stats.samples import Reals

CONTAINED = 0.2
"""Largest bias that an interval includes anyway, as a share of its half-width. A normal estimate that is off by that
much, 0.39 standard errors, still lies within 1.96 of them in Φ(1.57) - Φ(-2.35) = 93 % of runs: the limit of the
coverage that intervals keep."""


@dataclass(frozen=True)
class Bias:
    """Largest systematic error of a log-ratio; positive where disturbances favoured the cell over its baseline."""

    outside: float = 0.0
    neighbours: float = 0.0
    """A server that works while others are under load takes this time from them, and may save as much work in its own
    slices for each of them: a share of the CPU time in each of n cells' slices changes a ratio by up to n shares."""

    @property
    def size(self) -> float:
        """Largest error in either direction."""
        return abs(self.outside) + abs(self.neighbours)


def bias_of(outside: Reals, neighbours: Reals, half_width: float, alpha: float) -> Bias:
    """Return the bias of a ratio that its interval, with this half-width of the logarithm, does not include anyway.

    The others are log-ratios of the CPU time left, one for each block. Those from outside count only where their own
    interval shows that they differ from zero: otherwise they are a part of the noise.
    """
    if len(outside) < MIN_BLOCKS:
        return Bias()
    mean = float(outside.mean())
    reach = t_quantile(1 - alpha, len(outside) - 1) * float(outside.std(ddof=1)) / math.sqrt(len(outside))
    bias = Bias(mean if abs(mean) > reach else 0.0, float(neighbours.mean()))
    return bias if bias.size > CONTAINED * half_width else Bias()
