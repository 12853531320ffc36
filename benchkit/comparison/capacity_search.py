"""Search for a capacity: the rate at which a probe holds an objective with a probability of one half. Pure.

Between rates that a server always holds and those that it never does lies a band in which chance decides. Its middle
is estimated with every probe so far, by Bayes' rule on a grid of capacities and widths of that band, with a logistic
curve of log-rate and a share of lapses; the next probe goes where the posterior says most is to be learned. This is the
psi method of psychophysics (Kontsevich and Tyler, Bayesian adaptive estimation of psychometric slope and threshold,
Vision Research 39, 1999). Probing at the posterior's median alone is probabilistic bisection (Horstein, IEEE
Transactions on Information Theory 9, 1963). `make bench` compares it with that, and with a bisection that believes
every probe, which MLRsearch refines (draft-ietf-bmwg-mlrsearch).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Reals = npt.NDArray[np.float64]

LOWEST, HIGHEST = 0.02, 1.25
"""Range of capacities, as shares of the rate at full speed: objectives lower the capacity, and noise may raise it."""
STEP = 0.005
"""Step of the grid in log-rate: a tenth of the usual precision."""
WIDTHS = (0.005, 0.01, 0.02, 0.04, 0.08)
"""Scales of the logistic curve in log-rate: spreads of a rate within minutes on quiet and on noisy hosts."""
LAPSE = 0.02
"""Probability of a probe that shows the opposite, whatever its rate."""
LEVEL = 0.95
MIN_PROBES = 6
MAX_PROBES = 60


@dataclass(frozen=True)
class Interval:
    """A capacity with its interval, in requests per second."""

    rps: float
    low: float
    high: float

    @property
    def precision(self) -> float:
        """Largest relative distance from the capacity to an end of the interval."""
        return max(self.high / self.rps, self.rps / self.low) - 1


class CapacitySearch:
    """The posterior of a capacity, given the probes so far."""

    def __init__(self, ceiling_rps: float, precision: float) -> None:
        """Begin with the rate at full speed; before any probe, all rates up to a little above it are equally likely."""
        self.precision = precision
        self._logs: Reals = math.log(ceiling_rps) + np.arange(math.log(LOWEST), math.log(HIGHEST), STEP)
        prior = np.exp(self._logs - self._logs[-1])  # even in the rate itself
        self._weights: Reals = np.outer(prior, np.full(len(WIDTHS), 1 / len(WIDTHS))) / prior.sum()
        self._widths: Reals = np.array(WIDTHS)
        self.probes: list[tuple[float, bool]] = []

    def add(self, rate: float, *, is_held: bool) -> None:
        """Add a probe."""
        self.probes.append((rate, is_held))
        likelihood = self._held(math.log(rate))
        self._weights = self._weights * (likelihood if is_held else 1 - likelihood)
        self._weights /= self._weights.sum()

    def next_rate(self) -> float:
        """Return the rate whose probe is expected to leave the least entropy."""
        marginal = self._weights.sum(axis=1)
        cumulative = np.cumsum(marginal)
        shares = (0.05, 0.15, 0.25, 0.4, 0.5, 0.6, 0.75, 0.85, 0.95)
        candidates = [float(self._logs[int(np.searchsorted(cumulative, share))]) for share in shares]
        return math.exp(min(candidates, key=self._expected_entropy))

    @property
    def interval(self) -> Interval:
        """The median of the posterior, and the interval that leaves equal shares to both sides."""
        cumulative = np.cumsum(self._weights.sum(axis=1))
        tail = (1 - LEVEL) / 2
        low, middle, high = (
            float(self._logs[min(int(np.searchsorted(cumulative, share)), len(cumulative) - 1)])
            for share in (tail, 0.5, 1 - tail)
        )
        return Interval(math.exp(middle), math.exp(low), math.exp(high))

    @property
    def is_precise(self) -> bool:
        """True if the interval is as narrow as asked for."""
        return len(self.probes) >= MIN_PROBES and self.interval.precision <= self.precision

    @property
    def violations(self) -> int:
        """Number of probes that missed at a lower rate than one that held."""
        return count_violations(self.probes)

    def _held(self, log_rate: float) -> Reals:
        """Return the probability that a probe holds, for each capacity and width."""
        distance = (self._logs[:, None] - log_rate) / self._widths[None, :]
        curve: Reals = LAPSE + (1 - 2 * LAPSE) / (1 + np.exp(-np.clip(distance, -50, 50)))
        return curve

    def _expected_entropy(self, log_rate: float) -> float:
        held = self._held(log_rate)
        total = 0.0
        for joint in (self._weights * held, self._weights * (1 - held)):
            probability = float(joint.sum())
            marginal = joint.sum(axis=1) / probability
            total -= probability * float(np.sum(marginal * np.log(np.maximum(marginal, 1e-300))))
        return total


def count_violations(probes: Sequence[tuple[float, bool]]) -> int:
    """Return how many probes missed at a lower rate than another one that held."""
    highest_held = max((rate for rate, is_held in probes if is_held), default=0.0)
    return sum(not is_held and rate < highest_held for rate, is_held in probes)
