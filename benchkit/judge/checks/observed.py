"""Check observed: the profiler was on."""

from __future__ import annotations

from benchkit.judge.check import ALL, Check, CheckResult, Finding
from benchkit.judge.evidence import Evidence
from benchkit.models.thresholds import Thresholds


def of_trial(evidence: Evidence, _thresholds: Thresholds) -> CheckResult:
    """Mark profile trials, whose figures are shown but never mixed with measured ones."""
    if evidence.record.kind != "profile":
        return ()
    return [
        Finding(
            severity="invalid",
            metrics=ALL,
            seen="the trial ran under a profiler",
            threshold="limit: no profiler",
            means="A profiler uses CPU time itself: the figures are those of a profiled server.",
            advice="Read its profile, and take figures from the measured trials.",
        )
    ]


CHECK = Check("observed", "the profiler was on", of_trial=of_trial)
