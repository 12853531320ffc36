"""Exclusions from ratios that follow from verdicts: which trial, for which metrics, and why."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pandas as pd

from benchkit.judge.checks.load_tool import required_requests
from benchkit.judge.evidence import RunEvidence
from benchkit.judge.verdicts.judgement import judge_run
from benchkit.models.metrics import PERCENTILES
from benchkit.models.rows import TrialRow
from benchkit.models.run import Manifest
from benchkit.models.thresholds import Thresholds, thresholds_of
from benchkit.stats.samples import Exclusion
from benchkit.store.parquet_files import arrow_table, empty_frame


def exclusions(trials: pd.DataFrame, verdicts: pd.DataFrame, manifest: Manifest) -> tuple[Exclusion, ...]:
    """Return the invalid trials, for the metrics that their findings name, and percentiles of too few requests.

    Both tables hold rows of one run, as `benchkit.load` returns them. Trials without a verdict are not excluded.
    """
    rows = verdicts[verdicts["severity"] == "invalid"]
    findings = zip(rows["trial_id"], rows["check"], rows["metrics"], strict=True)
    return (*exclusions_from_findings(findings), *_percentile_exclusions(trials, thresholds_of(manifest)))


def trials_so_far(
    rows: Sequence[TrialRow], manifest: Manifest, of_trials: Iterable[Exclusion]
) -> tuple[pd.DataFrame, tuple[Exclusion, ...]]:
    """Return the trials of a run that goes on, and their exclusions; checks on single trials gave `of_trials`.

    To these it adds exclusions by checks on all trials of the run, and percentiles of too few requests.
    """
    trials = arrow_table(TrialRow.TABLE, rows).to_pandas()
    of_run = exclusions_from_findings(judge_run(RunEvidence(manifest, trials, empty_frame("hosts"))).invalid)
    return trials, (*of_trials, *of_run, *_percentile_exclusions(trials, thresholds_of(manifest)))


def exclusions_from_findings(invalid: Iterable[tuple[str, str, Iterable[str]]]) -> Iterator[Exclusion]:
    """Yield the exclusions that follow from findings, each given as trial_id, check and the metrics it invalidates."""
    checks: dict[str, dict[str, list[str]]] = {}
    for trial_id, check, metrics in invalid:
        for metric in metrics:
            checks.setdefault(trial_id, {}).setdefault(metric, []).append(check)
    for trial_id, by_metric in checks.items():
        by_codes: dict[tuple[str, ...], list[str]] = {}
        for metric, codes in by_metric.items():
            by_codes.setdefault(tuple(dict.fromkeys(codes)), []).append(metric)
        for codes_, excluded in by_codes.items():
            yield Exclusion(trial_id, f"invalid: {', '.join(codes_)}", frozenset(excluded), frozenset(codes_))


def _percentile_exclusions(trials: pd.DataFrame, thresholds: Thresholds) -> Iterator[Exclusion]:
    requests = pd.to_numeric(trials["requests"])
    for metric in PERCENTILES:
        required = required_requests(metric, thresholds)
        rows = trials[requests < required]
        for trial_id in rows.loc[rows[metric].notna(), "trial_id"]:
            yield Exclusion(
                str(trial_id), f"too few requests for this percentile: it needs {required:,.0f}", frozenset({metric})
            )
