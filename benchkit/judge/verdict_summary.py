"""Summaries of the verdicts of a run: counts by verdict, and each finding once for all trials of a cell."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pandas as pd

from benchkit import units
from benchkit.judge.check import Verdict
from benchkit.judge.checks.registry import check_order
from benchkit.judge.evidence import Severity
from benchkit.models.base import Frozen

FINDING_COLUMNS = ("check", "severity", "metrics", "seen", "threshold", "text")
"""Columns of `verdicts` that are shown of a finding."""
SKIPPED_COLUMNS = ("check", "why")
"""Columns of `unchecked` that are shown of a skipped check."""

WORST_FIRST: tuple[Verdict, ...] = ("invalid", "suspect", "valid")


class FindingGroup(Frozen):
    """A finding that some trials of a cell share."""

    severity: Severity
    check: str
    cell_id: str
    trial_ids: tuple[str, ...]
    blocks: tuple[int, ...]
    metrics: tuple[str, ...]
    """Metrics that it affects in any of these trials."""
    text: str
    """Text of the first of these trials."""


class SkippedCheckGroup(Frozen):
    """A check that was skipped for some trials, and the evidence that it lacked."""

    check: str
    why: str
    trials: int


class VerdictCounts(Frozen):
    """Numbers of trials by verdict; `unjudged` trials have none."""

    valid: int = 0
    suspect: int = 0
    invalid: int = 0
    unjudged: int = 0

    @property
    def judged(self) -> int:
        """Number of trials that have a verdict."""
        return self.valid + self.suspect + self.invalid

    @property
    def trials(self) -> int:
        """Number of all trials."""
        return self.judged + self.unjudged

    @property
    def problems(self) -> str:
        """Numbers of the trials that are not valid: `1 suspect, 2 invalid`; empty for none."""
        numbers = (("suspect", self.suspect), ("invalid", self.invalid))
        return ", ".join(f"{number} {verdict}" for verdict, number in numbers if number)

    @property
    def text(self) -> str:
        """All numbers as a clause: `8 of 10 trials are valid, 1 suspect, 1 invalid`."""
        if not self.judged:
            return "no trial was judged"
        valid = f"{self.valid} of {units.counted(self.judged, 'trial')} {'is' if self.valid == 1 else 'are'} valid"
        return ", ".join(filter(None, (valid, self.problems)))


def count_verdicts(trials: pd.DataFrame) -> VerdictCounts:
    """Count the verdicts of these rows of `trials`."""
    numbers = trials["verdict"].value_counts(dropna=False)
    by_verdict = {verdict: int(numbers.get(verdict, 0)) for verdict in WORST_FIRST}
    return VerdictCounts(**by_verdict, unjudged=len(trials) - sum(by_verdict.values()))


def group_findings(trials: pd.DataFrame, verdicts: pd.DataFrame) -> list[FindingGroup]:
    """Return every finding once for each cell: by severity, then in the order of the checks and of the cells."""
    places = trials[["trial_id", "cell_id", "block", "position"]]
    findings = verdicts[["trial_id", "check", "severity", "metrics", "text"]].merge(places, on="trial_id")
    groups = [
        FindingGroup(
            severity=severity,
            check=str(check),
            cell_id=str(cell_id),
            trial_ids=tuple(rows["trial_id"]),
            blocks=tuple(int(block) for block in rows["block"]),
            metrics=tuple(dict.fromkeys(str(metric) for metrics in rows["metrics"] for metric in metrics)),
            text=str(rows["text"].iloc[0]),
        )
        for (severity, check, cell_id), rows in findings.sort_values(["block", "position"]).groupby(
            ["severity", "check", "cell_id"], sort=False
        )
    ]
    cells = list(dict.fromkeys(trials["cell_id"]))
    return sorted(
        groups,
        key=lambda each: (WORST_FIRST.index(each.severity), check_order(each.check), cells.index(each.cell_id)),
    )


def group_skipped_checks(unchecked: pd.DataFrame) -> list[SkippedCheckGroup]:
    """Return the skipped checks, each reason once, in the order of the checks."""
    groups = [
        SkippedCheckGroup(check=str(check), why=str(why), trials=rows["trial_id"].nunique())
        for (check, why), rows in unchecked.groupby(["check", "why"], sort=False)
    ]
    return sorted(groups, key=lambda each: check_order(each.check))


def checks_by_trial(verdicts: pd.DataFrame) -> Mapping[str, tuple[str, ...]]:
    """Return the checks with findings about each trial, in their order."""
    by_trial: dict[str, set[str]] = {}
    for trial_id, check in zip(verdicts["trial_id"], verdicts["check"], strict=True):
        by_trial.setdefault(str(trial_id), set()).add(str(check))
    return {trial_id: tuple(sorted(checks, key=check_order)) for trial_id, checks in by_trial.items()}


def finding_details(
    verdicts: pd.DataFrame, unchecked: pd.DataFrame
) -> Callable[[str], dict[str, list[dict[str, Any]]]]:
    """Return a function from a trial_id to its findings and skipped checks, ready for JSON."""
    by_trial: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for name, table, columns in (("reasons", verdicts, FINDING_COLUMNS), ("unchecked", unchecked, SKIPPED_COLUMNS)):
        for row in table.to_dict("records"):
            details = {column: list(row[column]) if column == "metrics" else row[column] for column in columns}
            by_trial.setdefault(str(row["trial_id"]), {"reasons": [], "unchecked": []})[name].append(details)
    return lambda trial_id: by_trial.get(trial_id, {"reasons": [], "unchecked": []})


def verdict_label(verdict: object, checks: Iterable[str]) -> str:
    """Return a verdict with its checks: `invalid (link-saturated)`."""
    codes = ", ".join(checks)
    return f"{verdict} ({codes})" if codes else str(verdict)
