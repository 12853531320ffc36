"""The profiler was on."""

from __future__ import annotations

from benchkit.analysis.verdicts.check import ALL, Check, CheckResult, Finding
from benchkit.analysis.verdicts.evidence import Evidence
from benchkit.models.thresholds import Thresholds


def of_trial(evidence: Evidence, _thresholds: Thresholds) -> CheckResult:
    """Profile trials are their own kind; their figures are shown, and never among those measured."""
    if evidence.record.kind != "profile":
        return ()
    return [
        Finding(
            severity="invalid",
            metrics=ALL,
            seen="the trial was carried out for its profile",
            threshold="no profiler",
            means="A profiler takes time of its own: the figures are those of a server that is watched closely.",
            advice="Read its profile, and take figures from the measured trials.",
        )
    ]


CHECK = Check("observed", "the profiler was on", of_trial=of_trial)
