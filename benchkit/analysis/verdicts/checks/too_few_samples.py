"""A percentile rests on a handful of requests."""

from __future__ import annotations

from collections.abc import Iterable

from benchkit import units
from benchkit.analysis.verdicts.check import Check, CheckResult, Finding, SkippedCheck
from benchkit.analysis.verdicts.evidence import Evidence
from benchkit.models.metrics import PERCENTILES, metric_named
from benchkit.models.thresholds import Thresholds


def least_requests(metric: str, thresholds: Thresholds) -> float:
    """How many requests a percentile needs; 0 for what is none."""
    return thresholds.samples_beyond / (1 - PERCENTILES[metric].share) if metric in PERCENTILES else 0.0


def of_trial(evidence: Evidence, thresholds: Thresholds) -> CheckResult:
    """The percentiles that the scenario asks about against the requests that they rest on.

    Others in the table are void likewise where they are used (`benchkit.analysis.verdicts.exclusions`), but nobody asked
    for them, so that they are no reason to doubt the trial.
    """
    requests = evidence.number("requests")
    if requests is None:
        asked = bool(evidence.requested_metrics & PERCENTILES.keys())
        return SkippedCheck(why="the tool does not say how many requests there were") if asked else ()
    void = _void(evidence.requested_metrics, requests, thresholds)
    if not void:
        return ()
    named = " and ".join(metric_named(metric).title for metric in void)
    return [
        Finding(
            severity="invalid",
            metrics=tuple(void),
            seen=f"{named} of {units.counted(int(requests), 'request')}",
            threshold=f"needs {units.count(max(void.values()))}",
            means=f"Fewer than {thresholds.samples_beyond:g} requests lie beyond it: it is the time of those few.",
            advice="Measure longer, or ask for a lower percentile.",
        )
    ]


CHECK = Check("too-few-samples", "a percentile rests on a handful of requests", of_trial=of_trial)


def _void(metrics: Iterable[str], requests: float, thresholds: Thresholds) -> dict[str, float]:
    """Those of the metrics that so few requests do not give, with how many they need."""
    needed = {metric: least_requests(metric, thresholds) for metric in PERCENTILES if metric in set(metrics)}
    return {metric: least for metric, least in needed.items() if requests < round(least, 6)}
