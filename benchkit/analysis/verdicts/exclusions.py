"""Which trials do not count, for which metrics, and why: what verdicts mean for ratios."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pandas as pd

from benchkit.analysis.samples import Exclusion
from benchkit.analysis.verdicts.checks.too_few_samples import least_requests
from benchkit.analysis.verdicts.evidence import RunEvidence
from benchkit.analysis.verdicts.judge import judge_run
from benchkit.models.metrics import PERCENTILES
from benchkit.models.run import Manifest
from benchkit.models.thresholds import Thresholds, thresholds_of
from benchkit.results.schema import empty_frame


def exclusions(trials: pd.DataFrame, verdicts: pd.DataFrame, manifest: Manifest) -> tuple[Exclusion, ...]:
    """Invalid trials for the metrics that their reasons void, and percentiles of too few requests.

    Rows of one run, as `benchkit.load` gives them. Trials that were never judged count.
    """
    rows = verdicts[verdicts["severity"] == "invalid"]
    reasons = zip(rows["trial_id"], rows["check"], rows["metrics"], strict=True)
    return (*exclusions_from_findings(reasons), *_percentile_exclusions(trials, thresholds_of(manifest)))


def run_check_exclusions(trials: pd.DataFrame, manifest: Manifest) -> Iterator[Exclusion]:
    """What only the trials of a run beside each other show, as far as it has come; and percentiles of too few requests.

    `trials` are rows of the table, without factors.
    """
    found = judge_run(RunEvidence(manifest, trials, empty_frame("hosts")))
    invalid = ((trial, each.check, each.finding.metrics) for trial, of in found.items() for each in of.invalid)
    yield from exclusions_from_findings(invalid)
    yield from _percentile_exclusions(trials, thresholds_of(manifest))


def exclusions_from_findings(invalid: Iterable[tuple[str, str, Iterable[str]]]) -> Iterator[Exclusion]:
    """The exclusions that reasons come to, each a trial, its check, and the metrics that it voids."""
    checks: dict[str, dict[str, list[str]]] = {}
    for trial_id, check, metrics in invalid:
        for metric in metrics:
            checks.setdefault(trial_id, {}).setdefault(metric, []).append(check)
    for trial_id, by_metric in checks.items():
        together: dict[str, list[str]] = {}
        for metric, named in by_metric.items():
            together.setdefault(f"invalid: {', '.join(dict.fromkeys(named))}", []).append(metric)
        for reason, void in together.items():
            yield Exclusion(trial_id, reason, frozenset(void))


def _percentile_exclusions(trials: pd.DataFrame, thresholds: Thresholds) -> Iterator[Exclusion]:
    requests = pd.to_numeric(trials["requests"])
    for metric in PERCENTILES:
        least = least_requests(metric, thresholds)
        few = trials[requests < round(least, 6)]
        for trial_id in few.loc[few[metric].notna(), "trial_id"]:
            yield Exclusion(str(trial_id), f"too few requests for it: it needs {least:,.0f}", frozenset({metric}))
