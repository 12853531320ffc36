"""The outcome of one probe of a capacity search, from its row of `trials` and the findings about it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from benchkit import units
from benchkit.models.capacity import Objective, ProbeOutcome
from benchkit.models.metrics import FAILURES, metric_named
from benchkit.models.rows import TrialRow, VerdictRow
from benchkit.models.thresholds import Thresholds

CHANGING = frozenset({"observed", "service-restarted", "unequal-responses", "changed-response"})
"""Checks whose findings make a probe unusable: it was not the server that is asked about."""
SLOWING = frozenset({"throttled", "noisy-host", "stalled", "ports-exhausted"})
"""Checks on what makes a probe slower, and never faster: one that holds the objective in spite of it has held it."""
SATURATED = "generator-saturated"


def judge_probe(
    row: TrialRow, verdicts: Sequence[VerdictRow], objective: Objective, thresholds: Thresholds
) -> tuple[ProbeOutcome, str]:
    """Return the outcome of a probe, and a clause with the figures that decided.

    A probe that holds the objective shows that the server can, however busy the host and the load tool were; where it
    misses, neither must be at fault. The load tool is if it sent late, or, where it does not state that, had no CPU
    left.
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
    if is_late or (is_late is None and SATURATED in invalid):
        return "generator", f"{'; '.join(missed)}; the load tool was the limit"
    return "missed", "; ".join(missed)


def _missed(row: TrialRow, objective: Objective, thresholds: Thresholds) -> Iterator[str]:
    """Yield a clause for each limit that the trial did not keep."""
    if row.rate_requested is not None and row.rate_achieved is not None:
        share = row.rate_achieved / row.rate_requested
        if share < thresholds.rate_held:
            yield f"{units.share(share)} of the rate achieved"
    for column, limit_s in objective.latencies.items():
        seconds = getattr(row, column)
        if seconds is not None and seconds > limit_s:
            yield f"{metric_named(column).title} {units.seconds(seconds)}"
    failed = sum(getattr(row, name) or 0 for name in FAILURES)
    attempts = (row.requests or 0) + failed
    if not attempts or failed / attempts > objective.error_share:
        yield f"{units.share(failed / attempts if attempts else 1.0)} failed"
