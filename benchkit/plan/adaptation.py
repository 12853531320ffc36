"""Adaptation of a comparison to its servers: a change of load tool, quota, rate or design. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace

from benchkit import units
from benchkit.judge.sliced_blocks import neighbour_inequality, neighbour_share
from benchkit.models.thresholds import Thresholds
from benchkit.models.trial import TrialRecord
from benchkit.scenario.versus import ServerComparison
from benchkit.store.journal import FailureCause

QUOTAS = (0.5, 0.25)
"""CPU quotas of a server where the load tool is the limit: the first one below its use, else the last."""

CONNECTING_TOOL = "hey"
"""Load tool that opens a connection for each request. It accepts parts of a second, as slices and load curves need. It
also reads responses that end with their connection; wrk counts these as failed reads."""

LOWER_SHARE = 0.3
"""Share of the slowest server's rate at which latencies are compared where the load tool cannot hold half of it."""
NOT_HELD = frozenset({"rate-held", "generator-saturated", "tool-limit"})
"""Checks with findings where the load tool missed the rate or reached its own limit."""

LATEST_RESTART = 0.5
"""Share of a comparison's time after which it is not started again: few blocks would fit into the rest."""


@dataclass(frozen=True)
class Observed:
    """Observations in the run of a comparison, from its load curves and later from its first block."""

    records: Sequence[TrialRecord]
    thresholds: Thresholds
    limited_at: Collection[float] = ()
    """Cores used by each server whose load curve the load tool limited."""
    causes: Collection[FailureCause] = ()
    """Causes of failed trials."""
    checks: Collection[str] = field(default_factory=frozenset)
    """Checks that invalidate trials at full speed."""
    held_checks: Collection[str] = field(default_factory=frozenset)
    """Checks that invalidate trials at a held rate."""


@dataclass(frozen=True)
class Adaptation:
    """A changed comparison, and the reason as a sentence."""

    comparison: ServerComparison
    reason: str


def adapt(comparison: ServerComparison, observed: Observed) -> Adaptation | None:
    """Return the next change that a comparison needs; None if it needs none."""
    return next(_adaptations(comparison, observed), None)


def _adaptations(comparison: ServerComparison, observed: Observed) -> Iterator[Adaptation]:
    closes = "load-tool" in observed.causes or "missing-connections" in observed.checks
    if closes and "tool" not in comparison.fixed and comparison.keepalive:
        reason = f"A server closes connections: each request now opens a new one ({CONNECTING_TOOL})."
        yield Adaptation(replace(comparison, tool=CONNECTING_TOOL, keepalive=False), reason)
    uneven = neighbour_inequality(
        share for record in observed.records if (share := neighbour_share(record)) is not None
    )
    if uneven > observed.thresholds.neighbour_cpu and comparison.is_sliced and comparison.design is None:
        reason = (
            f"Servers without load used {units.share(uneven)} more of one server's CPU time than of another's: "
            "servers now run one at a time (--design blocks)."
        )
        yield Adaptation(replace(comparison, is_sliced=False), reason)
    if (comparison.held_share or 0.0) > LOWER_SHARE and not NOT_HELD.isdisjoint(observed.held_checks):
        reason = f"The load tool cannot hold the rate: latencies are now compared at {units.share(LOWER_SHARE)}."
        yield Adaptation(replace(comparison, held_share=LOWER_SHARE), reason)
    quotas = [each for each in QUOTAS if each < (comparison.quota or 1.0)]
    if quotas and "quota" not in comparison.fixed and observed.limited_at:
        quota = next((each for each in quotas if each < min(observed.limited_at)), quotas[-1])
        reason = f"The load tool is the limit: each server now gets {quota:g} CPUs."
        yield Adaptation(replace(comparison, quota=quota), reason)
