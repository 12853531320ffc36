"""Adaptation of a comparison to its servers: another load tool, quota or design, as its run calls for. Pure."""

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
"""CPUs of a server while the load tool is the limit: the first that is less than it used, or the next one."""

CONNECTING_TOOL = "hey"
"""Load tool that opens a connection for each request. It takes parts of a second, as slices and load curves need, and
reads answers that end with their connection, of which wrk counts each as a failed read."""

LOWER_SHARE = 0.3
"""Share of what the slowest server carries at which latencies are compared where the load tool cannot hold half."""
NOT_HELD = frozenset({"rate-held", "generator-saturated", "tool-limit"})
"""Checks that find a rate which the load tool did not hold, or held at its own limit."""

LATEST_RESTART = 0.5
"""Share of a comparison's time after which its first block starts it no more anew: the rest has room for few blocks."""


@dataclass(frozen=True)
class Observed:
    """Observations of the load of a comparison in its run: of its load curves, and later of its first block."""

    records: Sequence[TrialRecord]
    thresholds: Thresholds
    limited_at: Collection[float] = ()
    """Cores that each server used which the load tool limits, by its load curve."""
    causes: Collection[FailureCause] = ()
    """Causes of failed trials."""
    checks: Collection[str] = field(default_factory=frozenset)
    """Checks that invalidate its trials at full speed."""
    held_checks: Collection[str] = field(default_factory=frozenset)
    """Checks that invalidate its trials at a held rate."""


@dataclass(frozen=True)
class Adaptation:
    """A changed comparison, and the reason as a sentence."""

    comparison: ServerComparison
    reason: str


def adapt(comparison: ServerComparison, observed: Observed) -> Adaptation | None:
    """Return the comparison with the next change that is called for; None: no change is needed."""
    return next(_adaptations(comparison, observed), None)


def _adaptations(comparison: ServerComparison, observed: Observed) -> Iterator[Adaptation]:
    closes = "load-tool" in observed.causes or "missing-connections" in observed.checks
    if closes and "tool" not in comparison.fixed and comparison.keepalive:
        reason = f"A server closes connections, so that each request has a new one ({CONNECTING_TOOL})."
        yield Adaptation(replace(comparison, tool=CONNECTING_TOOL, keepalive=False), reason)
    uneven = neighbour_inequality(
        share for record in observed.records if (share := neighbour_share(record)) is not None
    )
    if uneven > observed.thresholds.neighbour_cpu and comparison.is_sliced and comparison.design is None:
        reason = (
            f"Servers without load used {units.share(uneven)} more of one server's CPU time than of another's, so that "
            "one server runs at a time (--design blocks)."
        )
        yield Adaptation(replace(comparison, is_sliced=False), reason)
    if (comparison.held_share or 0.0) > LOWER_SHARE and not NOT_HELD.isdisjoint(observed.held_checks):
        reason = f"The load tool cannot hold the rate, so that latencies are compared at {units.share(LOWER_SHARE)}."
        yield Adaptation(replace(comparison, held_share=LOWER_SHARE), reason)
    quotas = [each for each in QUOTAS if each < (comparison.quota or 1.0)]
    if quotas and "quota" not in comparison.fixed and observed.limited_at:
        quota = next((each for each in quotas if each < min(observed.limited_at)), quotas[-1])
        reason = f"The load tool is the limit, so that each server gets {quota:g} CPUs."
        yield Adaptation(replace(comparison, quota=quota), reason)
