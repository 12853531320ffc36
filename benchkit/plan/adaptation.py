"""Adaptation of a comparison to its servers: a change of load tool, quota, rate or design. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

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

LAST_REVIEWED = 2
"""Block before which a comparison begins anew at the latest: its first block shows what idle servers use."""
LATEST_RESTART = 0.5
"""Share of a comparison's time after which it is not started again: few blocks would fit into the rest."""


@dataclass(frozen=True)
class Adaptation:
    """A changed comparison, and the reason as a sentence."""

    comparison: ServerComparison
    reason: str


def adapt(
    comparison: ServerComparison,
    thresholds: Thresholds,
    *,
    causes: Collection[FailureCause] = (),
    limited_at: Collection[float] = (),
    measured: Iterable[TrialRecord] = (),
) -> Adaptation | None:
    """Return the comparison with the next change that is called for; None: no change is needed.

    `causes` are those of failed trials, `limited_at` the cores of each server that the load tool limits, by its load
    curve, and `measured` the trials of the first block.
    """
    if "load-tool" in causes and "tool" not in comparison.fixed and comparison.keepalive:
        reason = f"A server closes connections: each request now opens a new one ({CONNECTING_TOOL})."
        return Adaptation(replace(comparison, tool=CONNECTING_TOOL, keepalive=False), reason)
    uneven = neighbour_inequality(share for record in measured if (share := neighbour_share(record)) is not None)
    if uneven > thresholds.neighbour_cpu and comparison.is_sliced and comparison.design is None:
        reason = (
            f"Servers without load used {units.share(uneven)} more of one server's CPU time than of another's: "
            "servers now run one at a time (--design blocks)."
        )
        return Adaptation(replace(comparison, is_sliced=False), reason)
    quotas = [each for each in QUOTAS if each < (comparison.quota or 1.0)]
    if quotas and "quota" not in comparison.fixed and limited_at:
        quota = next((each for each in quotas if each < min(limited_at)), quotas[-1])
        reason = f"The load tool is the limit: each server now gets {quota:g} CPUs."
        return Adaptation(replace(comparison, quota=quota), reason)
    return None
