"""Which trials do not count, for which metrics, and why: what verdicts mean for ratios."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from benchkit.analysis.samples import Exclusion
from benchkit.analysis.verdicts.checks.too_few_samples import PERCENTILES, least_requests
from benchkit.scenario.thresholds import thresholds_of


def exclusions(trials: pd.DataFrame, verdicts: pd.DataFrame, scenario: Mapping[str, Any]) -> tuple[Exclusion, ...]:
    """Invalid trials for the metrics that their reasons void, and percentiles of too few requests.

    Rows of one run, as `benchkit.load` gives them; `scenario` is that of its manifest. Trials that were never judged
    count.
    """
    return (*_invalid(verdicts), *_too_few(trials, scenario))


def _invalid(verdicts: pd.DataFrame) -> Iterator[Exclusion]:
    rows = verdicts[verdicts["severity"] == "invalid"]
    checks: dict[str, dict[str, list[str]]] = {}
    for trial_id, check, metrics in zip(rows["trial_id"], rows["check"], rows["metrics"], strict=True):
        for metric in metrics:
            checks.setdefault(str(trial_id), {}).setdefault(str(metric), []).append(str(check))
    for trial_id, by_metric in checks.items():
        together: dict[str, list[str]] = {}
        for metric, named in by_metric.items():
            together.setdefault(f"invalid: {', '.join(dict.fromkeys(named))}", []).append(metric)
        for reason, void in together.items():
            yield Exclusion(trial_id, reason, frozenset(void))


def _too_few(trials: pd.DataFrame, scenario: Mapping[str, Any]) -> Iterator[Exclusion]:
    thresholds = thresholds_of(scenario)
    requests = pd.to_numeric(trials["requests"])
    for metric in PERCENTILES:
        least = least_requests(metric, thresholds)
        few = trials[requests < round(least, 6)]
        for trial_id in few.loc[few[metric].notna(), "trial_id"]:
            yield Exclusion(str(trial_id), f"too few requests for it: it needs {least:,.0f}", frozenset({metric}))
