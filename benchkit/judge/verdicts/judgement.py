"""Combination of all checks: the findings of each trial, the checks that were skipped, and the verdict. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, TypeVar

from benchkit.judge.check import Check, CheckResult, SkippedCheck, Verdict
from benchkit.judge.checks.registry import CHECKS
from benchkit.judge.evidence import Evidence, RunEvidence
from benchkit.models.rows import UncheckedRow, VerdictRow
from benchkit.models.thresholds import Thresholds, thresholds_of
from benchkit.registry import describe_failure

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
    """Run a check; without findings it counts as skipped where it needs a host that was not watched.

    No host of a trial that ran elsewhere was watched.
    """
    if evidence.record.imported is not None and check.reads != "load":
        return SkippedCheck(why="it was measured elsewhere: its hosts were not watched")
    unwatched = evidence.record.external if check.reads != "load" else ()
    is_needless = unwatched and check.reads == "servers"
    findings = () if is_needless else _run_check(check, check.of_trial, evidence, thresholds)
    if not unwatched or (findings and not isinstance(findings, SkippedCheck)):
        return findings
    return SkippedCheck(why=f"{' and '.join(unwatched)} is external: its host is not watched")


def judge_run(evidence: RunEvidence) -> Judgement:
    """Run the checks that compare all trials of a run, with its recorded thresholds."""
    thresholds = thresholds_of(evidence.manifest)
    results: dict[str, dict[str, CheckResult]] = {str(trial_id): {} for trial_id in evidence.trials["trial_id"]}
    for code, check in CHECKS.items():
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
