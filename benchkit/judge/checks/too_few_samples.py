"""Check too-few-samples: a percentile rests on a handful of requests."""

from __future__ import annotations

from collections.abc import Iterable

from benchkit import units
from benchkit.judge.check import Check, CheckResult, Finding, SkippedCheck
from benchkit.judge.evidence import Evidence
from benchkit.models.metrics import PERCENTILES, metric_named
from benchkit.models.thresholds import Thresholds


def required_requests(metric: str, thresholds: Thresholds) -> float:
    """Return the number of requests that a percentile needs; 0 for other metrics."""
    return thresholds.samples_beyond / (1 - PERCENTILES[metric].share) if metric in PERCENTILES else 0.0


def of_trial(evidence: Evidence, thresholds: Thresholds) -> CheckResult:
    """Compare the number of requests with what the requested percentiles need.

    Other percentiles in the table are excluded where they are used (`benchkit.judge.exclusions`), but as
    the scenario does not ask about them, they are no finding.
    """
    requests = evidence.number("requests")
    if requests is None:
        is_requested = bool(evidence.requested_metrics & PERCENTILES.keys())
        return SkippedCheck(why="the tool does not report the number of requests") if is_requested else ()
    lacking = _lacking_percentiles(evidence.requested_metrics, requests, thresholds)
    if not lacking:
        return ()
    titles = " and ".join(metric_named(metric).title for metric in lacking)
    return [
        Finding(
            severity="invalid",
            metrics=tuple(lacking),
            seen=f"{titles} of {units.counted(int(requests), 'request')}",
            threshold=f"needs {units.count(max(lacking.values()))}",
            means=f"Fewer than {thresholds.samples_beyond:g} requests lie beyond it: it is the latency of those few.",
            advice="Measure longer, or ask for a lower percentile.",
        )
    ]


CHECK = Check("too-few-samples", "a percentile rests on a handful of requests", of_trial=of_trial)


def _lacking_percentiles(metrics: Iterable[str], requests: float, thresholds: Thresholds) -> dict[str, float]:
    """Return the metrics that need more requests, with the number that they need."""
    requested = set(metrics)
    required = {metric: required_requests(metric, thresholds) for metric in PERCENTILES if metric in requested}
    return {metric: number for metric, number in required.items() if requests < round(number, 6)}
