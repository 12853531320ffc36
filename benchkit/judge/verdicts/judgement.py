"""Combination of all checks: the findings of each trial, the checks that were skipped, and the verdict. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from benchkit.judge.check import Check, CheckResult, Finding, RunCheckResult, SkippedCheck, Verdict
from benchkit.judge.checks.registry import CHECKS
from benchkit.judge.evidence import Evidence, RunEvidence
from benchkit.models.base import Frozen
from benchkit.models.rows import UncheckedRow, VerdictRow
from benchkit.models.thresholds import Thresholds, thresholds_of
from benchkit.registry import describe_failure

Scope = Literal["trial", "run"]
"""Evidence of a judgement: the trial alone, or all trials of its run."""


class TrialFinding(Frozen):
    """A finding, and the check that made it."""

    check: str
    finding: Finding


class Judgement(Frozen):
    """Results of all checks on one trial."""

    findings: tuple[TrialFinding, ...] = ()
    skipped: Mapping[str, str] = {}
    """Reasons why checks could not be made, by code."""

    @property
    def verdict(self) -> Verdict:
        """Verdict of the most severe finding."""
        return verdict_of(each.finding.severity for each in self.findings)

    @property
    def invalid(self) -> tuple[TrialFinding, ...]:
        """Findings that invalidate the metrics that they name."""
        return tuple(each for each in self.findings if each.finding.severity == "invalid")

    def verdict_rows(self, trial_id: str, scope: Scope) -> tuple[VerdictRow, ...]:
        """Return its rows of the table `verdicts`."""
        return tuple(
            VerdictRow(
                trial_id=trial_id,
                check=each.check,
                severity=each.finding.severity,
                metrics=each.finding.metrics,
                seen=each.finding.seen,
                threshold=each.finding.threshold,
                text=each.finding.text,
                scope=scope,
            )
            for each in self.findings
        )

    def unchecked_rows(self, trial_id: str, scope: Scope) -> tuple[UncheckedRow, ...]:
        """Return its rows of the table `unchecked`."""
        return tuple(
            UncheckedRow(trial_id=trial_id, check=check, why=why, scope=scope) for check, why in self.skipped.items()
        )


def verdict_of(severities: Iterable[str]) -> Verdict:
    """Return the most severe of these severities; `valid` for none."""
    distinct = set(severities)
    return "invalid" if "invalid" in distinct else "suspect" if distinct else "valid"


def combine_results(results: Mapping[str, CheckResult]) -> Judgement:
    """Combine the results of several checks, given by code."""
    return Judgement(
        findings=tuple(
            TrialFinding(check=code, finding=finding)
            for code, result in results.items()
            if not isinstance(result, SkippedCheck)
            for finding in result
        ),
        skipped={code: result.why for code, result in results.items() if isinstance(result, SkippedCheck)},
    )


def judge_trial(evidence: Evidence, thresholds: Thresholds) -> Judgement:
    """Run all checks on one trial by itself."""
    return combine_results({code: _result(check, evidence, thresholds) for code, check in CHECKS.items()})


def _result(check: Check, evidence: Evidence, thresholds: Thresholds) -> CheckResult:
    """Run a check; without findings it is skipped where it needs the host of a server that was not watched.

    Of a trial that ran elsewhere, no host was watched.
    """
    if evidence.record.imported is not None and check.reads != "load":
        return SkippedCheck(why="it was measured elsewhere: its hosts were not watched")
    unwatched = evidence.record.external if check.reads != "load" else ()
    findings = () if unwatched and check.reads == "servers" else _of_trial(check, evidence, thresholds)
    if not unwatched or (findings and not isinstance(findings, SkippedCheck)):
        return findings
    return SkippedCheck(why=f"{' and '.join(unwatched)} is external: its host is not watched")


def judge_run(evidence: RunEvidence) -> dict[str, Judgement]:
    """Run the checks that compare all trials of a run, with its recorded thresholds; judgements by trial_id."""
    thresholds = thresholds_of(evidence.manifest)
    results: dict[str, dict[str, CheckResult]] = {str(trial_id): {} for trial_id in evidence.trials["trial_id"]}
    for code, check in CHECKS.items():
        for trial_id, result in _of_run(check, evidence, thresholds).items():
            results[trial_id][code] = result
    no_findings = Judgement()
    return {trial_id: combine_results(of_trial) if of_trial else no_findings for trial_id, of_trial in results.items()}


def _of_trial(check: Check, evidence: Evidence, thresholds: Thresholds) -> CheckResult:
    """Return the result of a check on a trial; one of a plugin that fails is skipped, with the error as the reason."""
    try:
        return check.of_trial(evidence, thresholds)
    except Exception as error:  # noqa: BLE001 - raised again where benchkit ships the check
        return _skip_failed(check, error)


def _of_run(check: Check, evidence: RunEvidence, thresholds: Thresholds) -> RunCheckResult:
    try:
        return check.of_run(evidence, thresholds)
    except Exception as error:  # noqa: BLE001 - raised again where benchkit ships the check
        return dict.fromkeys(map(str, evidence.trials["trial_id"]), _skip_failed(check, error))


def _skip_failed(check: Check, error: Exception) -> SkippedCheck:
    """Return the skipped check of a plugin; raise the error of a shipped one."""
    plugin = CHECKS.plugin(check.code)
    if plugin is None:
        raise error
    return SkippedCheck(why=f"the check of {plugin.package} {plugin.version} failed: {describe_failure(error)}")
