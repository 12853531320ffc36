"""The check `one-connection`: a rate over one connection is a latency."""

from __future__ import annotations

from benchkit.judge.check import RATES, Check, CheckResult, Finding
from benchkit.judge.evidence import Evidence
from benchkit.models.thresholds import Thresholds


def of_trial(evidence: Evidence, _thresholds: Thresholds) -> CheckResult:
    """Find loads of a single connection."""
    if evidence.record.load.connections > 1:
        return ()
    return [
        Finding(
            severity="suspect",
            metrics=RATES,
            seen="one connection",
            threshold="limit: two",
            means="The rate is the inverse of the latency, and says nothing about the capacity of the server.",
            advice="Use more connections.",
        )
    ]


CHECK = Check("one-connection", "the load had one connection", of_trial=of_trial)
