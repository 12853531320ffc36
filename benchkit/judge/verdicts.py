"""Verdicts by all checks: findings, skipped checks, exclusions from ratios, and summaries. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import pandas as pd

from benchkit import units
from benchkit.judge.check import Check, CheckResult, SkippedCheck, Verdict
from benchkit.judge.checks.load_tool import required_requests
from benchkit.judge.checks.registry import CHECKS, check_order
from benchkit.judge.evidence import Evidence, RunEvidence, Severity
from benchkit.models.base import Frozen
from benchkit.models.metrics import PERCENTILES
from benchkit.models.rows import TrialRow, UncheckedRow, VerdictRow
from benchkit.models.run import Manifest
from benchkit.models.thresholds import Thresholds, thresholds_of
from benchkit.registry import describe_failure
from benchkit.stats.samples import Exclusion
from benchkit.store.parquet_files import arrow_table, empty_frame

Scope = Literal["trial", "run"]
"""Evidence of a judgement: the trial alone, or all trials of its run."""

Read = TypeVar("Read")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Judgement:
    """Results of all checks, as rows of their tables, trial by trial."""

    verdicts: tuple[VerdictRow, ...]
    unchecked: tuple[UncheckedRow, ...]
    """Checks that could not be made."""

    @property
    def verdict(self) -> Verdict:
        """Verdict of the most severe finding."""
        return verdict_of(each.severity for each in self.verdicts)

    @property
    def invalid(self) -> Iterator[tuple[str, str, tuple[str, ...]]]:
        """Trial, check and metrics of each finding that invalidates the metrics that it names."""
        return ((each.trial_id, each.check, each.metrics) for each in self.verdicts if each.severity == "invalid")


def verdict_of(severities: Iterable[str]) -> Verdict:
    """Return the most severe of these severities; `valid` for none."""
    distinct = set(severities)
    return "invalid" if "invalid" in distinct else "suspect" if distinct else "valid"


def combine_results(by_trial: Mapping[str, Mapping[str, CheckResult]], scope: Scope) -> Judgement:
    """Combine the results of several checks, given by trial_id and code."""
    results = [(trial_id, *each) for trial_id, of_trial in by_trial.items() for each in of_trial.items()]
    return Judgement(
        verdicts=tuple(
            VerdictRow(
                trial_id=trial_id,
                check=code,
                severity=finding.severity,
                metrics=finding.metrics,
                seen=finding.seen,
                threshold=finding.threshold,
                text=finding.text,
                scope=scope,
            )
            for trial_id, code, result in results
            if not isinstance(result, SkippedCheck)
            for finding in result
        ),
        unchecked=tuple(
            UncheckedRow(trial_id=trial_id, check=code, why=result.why, scope=scope)
            for trial_id, code, result in results
            if isinstance(result, SkippedCheck)
        ),
    )


def judge_trial(evidence: Evidence, thresholds: Thresholds) -> Judgement:
    """Run all checks on one trial by itself."""
    results = {code: _result(check, evidence, thresholds) for code, check in CHECKS.items()}
    return combine_results({evidence.record.trial_id: results}, "trial")


def _result(check: Check, evidence: Evidence, thresholds: Thresholds) -> CheckResult:
    """Run a check; without findings it counts as skipped where it needs a host that was not watched."""
    if evidence.record.imported is not None and check.reads != "load":
        return SkippedCheck(why="it was measured elsewhere: its hosts were not watched")
    unwatched = evidence.record.external if check.reads != "load" else ()
    is_needless = unwatched and check.reads == "servers"
    findings: CheckResult = ()
    if check.of_trial is not None and not is_needless:
        findings = _run_check(check, check.of_trial, evidence, thresholds)
    if not unwatched or (findings and not isinstance(findings, SkippedCheck)):
        return findings
    return SkippedCheck(why=f"{' and '.join(unwatched)} is external: its host is not watched")


def judge_run(evidence: RunEvidence) -> Judgement:
    """Run the checks that compare all trials of a run, with its recorded thresholds."""
    thresholds = thresholds_of(evidence.manifest)
    results: dict[str, dict[str, CheckResult]] = {str(trial_id): {} for trial_id in evidence.trials["trial_id"]}
    for code, check in CHECKS.items():
        if check.of_run is None:
            continue
        found = _run_check(check, check.of_run, evidence, thresholds)
        if isinstance(found, SkippedCheck):
            found = dict.fromkeys(results, found)
        for trial_id, result in found.items():
            results[trial_id][code] = result
    return combine_results(results, "run")


def _run_check(
    check: Check, function: Callable[[Read, Thresholds], Result], evidence: Read, thresholds: Thresholds
) -> Result | SkippedCheck:
    """Run a function of a check; one of a plugin that fails is skipped, with the error as the reason."""
    try:
        return function(evidence, thresholds)
    except Exception as error:
        plugin = CHECKS.plugin(check.code)
        if plugin is None:
            raise
        return SkippedCheck(why=f"the check of {plugin.package} {plugin.version} failed: {describe_failure(error)}")


def exclusions(trials: pd.DataFrame, verdicts: pd.DataFrame, manifest: Manifest) -> tuple[Exclusion, ...]:
    """Return the exclusions of invalid trials, by the metrics that findings name, and of percentiles of few requests.

    Both tables hold rows of one run, as `benchkit.load` returns them. Trials without a verdict are not excluded.
    """
    rows = verdicts[verdicts["severity"] == "invalid"]
    findings = zip(rows["trial_id"], rows["check"], rows["metrics"], strict=True)
    return (*exclusions_from_findings(findings), *_percentile_exclusions(trials, thresholds_of(manifest)))


def trials_so_far(
    rows: Sequence[TrialRow], manifest: Manifest, of_trials: Iterable[Exclusion]
) -> tuple[pd.DataFrame, tuple[Exclusion, ...]]:
    """Return the trials of a run in progress, and their exclusions.

    `of_trials` are the exclusions by checks on single trials. Those by checks on the run are added, and those of
    percentiles of too few requests.
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
        groups, key=lambda each: (WORST_FIRST.index(each.severity), check_order(each.check), cells.index(each.cell_id))
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
