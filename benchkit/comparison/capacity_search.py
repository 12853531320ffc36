"""Search for a capacity: the rate at which a probe holds an objective with a probability of one half. Pure.

A server always holds low rates and never high ones; in the band between, chance decides. All probes so far give an
estimate of its middle, by Bayes' rule on a grid of capacities and widths of the band. The chance that a probe holds is
a logistic curve of log-rate, with a share of lapses. The next probe has the rate from which the posterior expects most
information. This is the psi method of psychophysics (Kontsevich and Tyler, Bayesian adaptive estimation of psychometric
slope and threshold, Vision Research 39, 1999). `make bench` compares it with two bisections. One probes at the
posterior's median (Horstein, IEEE Transactions on Information Theory 9, 1963). The other believes every probe, as in
simple searches that MLRsearch refines (draft-ietf-bmwg-mlrsearch).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from benchkit import units
from benchkit.models.capacity import Objective, ProbeOutcome
from benchkit.models.metrics import FAILURES, metric_named
from benchkit.models.rows import TrialRow, VerdictRow
from benchkit.models.thresholds import Thresholds
from benchkit.stats.samples import Reals

LOWEST, HIGHEST = 0.02, 1.25
"""Range of capacities, as shares of the rate at full speed: objectives lower the capacity, noise may raise it."""
STEP = 0.005
"""Step of the grid in log-rate: a tenth of the usual precision."""
WIDTHS = (0.005, 0.01, 0.02, 0.04, 0.08)
"""Scales of the logistic curve in log-rate: spreads of a rate within minutes on quiet and on noisy hosts."""
LAPSE = 0.02
"""Probability that a probe shows the opposite, at any rate (a lapse)."""
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
        """Begin with the rate at full speed: before any probe, rates up to `HIGHEST` times it are equally likely."""
        self.precision = precision
        self._logs: Reals = math.log(ceiling_rps) + np.arange(math.log(LOWEST), math.log(HIGHEST), STEP)
        prior = np.exp(self._logs - self._logs[-1])  # uniform in the rate, not in its logarithm
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
        """The median of the posterior, with the interval that leaves equal probability on both sides."""
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
        highest_held = max((rate for rate, is_held in self.probes if is_held), default=0.0)
        return sum(not is_held and rate < highest_held for rate, is_held in self.probes)

    def _held(self, log_rate: float) -> Reals:
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


CHANGING = frozenset({"observed", "service-restarted", "unequal-responses", "changed-response"})
"""Checks whose findings make a probe unusable: it did not measure the server as requested."""
SLOWING = frozenset({"throttled", "noisy-host", "stalled", "ports-exhausted"})
"""Checks of what can only slow a probe: one that still holds the objective counts."""
SATURATED = "generator-saturated"


def judge_probe(
    row: TrialRow, verdicts: Sequence[VerdictRow], objective: Objective, thresholds: Thresholds
) -> tuple[ProbeOutcome, str]:
    """Return the outcome of a probe, and a clause with the figures that decided.

    A probe that holds the objective shows that the server can, however busy the host and the load tool were. A miss
    counts only if neither was at fault. The load tool is at fault if it sent late; if it does not state lateness, if it
    had no CPU left. A server that refuses requests does so whenever they were sent.
    """
    invalid = {verdict.check for verdict in verdicts if verdict.severity == "invalid"}
    if changed := sorted(invalid & CHANGING):
        return "unusable", f"disturbed: {', '.join(changed)}"
    if unknown := [column for column in objective.latencies if getattr(row, column) is None and row.requests]:
        return "unusable", f"too few requests for a {metric_named(unknown[0]).title}"
    missed = list(_missed(row, objective, thresholds))
    if not missed:
        return "held", f"p99 latency {units.seconds(row.latency_p99_s)}"
    if slowed := sorted(invalid & SLOWING):
        return "unusable", f"disturbed: {', '.join(slowed)}"
    lag_s, latency_s = row.send_lag_p99_s, row.latency_p99_s
    is_late = None if lag_s is None or latency_s is None else lag_s > thresholds.send_lag * latency_s
    is_refused = (row.non_2xx or 0) > objective.error_share * (row.requests or 0)
    if not is_refused and (is_late or (is_late is None and SATURATED in invalid)):
        return "generator", f"{'; '.join(missed)}; the load tool was the limit"
    return "missed", "; ".join(missed)


def _missed(row: TrialRow, objective: Objective, thresholds: Thresholds) -> Iterator[str]:
    if row.rate_requested is not None and row.rate_achieved is not None:
        share = row.rate_achieved / row.rate_requested
        if share < thresholds.rate_held:
            yield f"{units.share(share)} of the rate achieved"
    for column, limit_s in objective.latencies.items():
        seconds = getattr(row, column)
        if seconds is not None and seconds > limit_s:
            yield f"{metric_named(column).title} {units.seconds(seconds)}"
    failed = sum(getattr(row, name) or 0 for name in FAILURES)
    attempts = (row.requests or 0) + failed - (row.non_2xx or 0)
    if not attempts or failed / attempts > objective.error_share:
        yield f"{units.share(failed / attempts if attempts else 1.0)} failed"
