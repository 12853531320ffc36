"""Tests of the exclusions that follow from verdicts."""

from __future__ import annotations

import pandas as pd

from benchkit.judge.check import Finding
from benchkit.judge.verdicts import combine_results, exclusions
from benchkit.store.parquet_files import arrow_table
from tests.support.comparison.fixtures import manifest_of, trials_of
from tests.support.judge.builders import SERVERS


def verdict_table(*findings: tuple[str, str, Finding]) -> pd.DataFrame:
    """Return the table `verdicts` of findings, each with its trial_id and check."""
    rows = [
        row
        for trial_id, check, finding in findings
        for row in combine_results({trial_id: {check: [finding]}}, "trial").verdicts
    ]
    frame: pd.DataFrame = arrow_table("verdicts", rows).to_pandas()
    return frame


def build_finding(severity: str, *metrics: str) -> Finding:
    texts = {"seen": "it", "threshold": "limit: none", "means": "Thus.", "advice": "Do."}
    return Finding.model_validate({"severity": severity, "metrics": metrics, **texts})


def test_invalid_trials_are_excluded_for_the_metrics_of_their_findings() -> None:
    verdicts = verdict_table(
        ("r1.stack=a.b1", "link-saturated", build_finding("invalid", "rps")),
        ("r1.stack=a.b1", "generator-saturated", build_finding("invalid", "rps")),
        ("r1.stack=a.b2", "shared-cpus", build_finding("suspect", "rps", "server_cpu_s_per_request")),
    )
    excluded = exclusions(trials_of({"stack=a": [1, 2, 3]}), verdicts, manifest_of(SERVERS[:1]))
    assert [(each.trial_id, each.covers("rps"), each.reason) for each in excluded] == [
        ("r1.stack=a.b1", True, "invalid: link-saturated, generator-saturated")
    ]
    assert not any(each.covers("server_cpu_s_per_request") for each in excluded)


def test_percentiles_of_too_few_requests_are_excluded() -> None:
    trials = trials_of({"stack=a": [1.0, 1.0, 1.0]}, metric="latency_p999_s").assign(requests=[9_999, 10_000, 12_000])
    excluded = exclusions(trials, verdict_table(), manifest_of(SERVERS[:1]))
    assert [(each.trial_id, each.metrics) for each in excluded] == [("r1.stack=a.b1", frozenset({"latency_p999_s"}))]
