"""What all checks come to: the reasons against each trial, what could not be checked, and the verdict. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from benchkit.analysis.verdicts.check import CheckResult, Finding, SkippedCheck, Verdict
from benchkit.analysis.verdicts.evidence import Evidence, RunEvidence
from benchkit.analysis.verdicts.registry import CHECKS
from benchkit.models.base import Frozen
from benchkit.models.rows import UncheckedRow, VerdictRow
from benchkit.models.thresholds import Thresholds, thresholds_of

Scope = Literal["trial", "run"]
"""What a judgement rests on: the trial by itself, or all trials of its run beside each other."""


class TrialFinding(Frozen):
    """A reason, and the check that gives it."""

    check: str
    finding: Finding


class Judgement(Frozen):
    """What checks have to say of one trial."""

    findings: tuple[TrialFinding, ...] = ()
    skipped: Mapping[str, str] = {}
    """Checks that could not be made: what they lacked, by code."""

    @property
    def verdict(self) -> Verdict:
        """The worst of its reasons."""
        return verdict_of(each.finding.severity for each in self.findings)

    @property
    def invalid(self) -> tuple[TrialFinding, ...]:
        """The reasons that void what they name."""
        return tuple(each for each in self.findings if each.finding.severity == "invalid")

    def verdict_rows(self, trial_id: str, scope: Scope) -> tuple[VerdictRow, ...]:
        """Its rows in `verdicts`."""
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
        """Its rows in `unchecked`."""
        return tuple(
            UncheckedRow(trial_id=trial_id, check=check, why=why, scope=scope) for check, why in self.skipped.items()
        )


def verdict_of(severities: Iterable[str]) -> Verdict:
    """The worst of these severities; `valid` for none."""
    found = set(severities)
    return "invalid" if "invalid" in found else "suspect" if found else "valid"


def combine_results(results: Mapping[str, CheckResult]) -> Judgement:
    """What checks came to, by their code, as one."""
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
    """What a trial shows by itself."""
    return combine_results({code: check.of_trial(evidence, thresholds) for code, check in CHECKS.items()})


def judge_run(evidence: RunEvidence) -> dict[str, Judgement]:
    """What only the trials of a run beside each other show, by trial_id, by the thresholds it was run under."""
    thresholds = thresholds_of(evidence.manifest)
    found: dict[str, dict[str, CheckResult]] = {str(trial_id): {} for trial_id in evidence.trials["trial_id"]}
    for code, check in CHECKS.items():
        for trial_id, came_to in check.of_run(evidence, thresholds).items():
            found[trial_id][code] = came_to
    nothing = combine_results({})
    return {trial_id: combine_results(of_trial) if of_trial else nothing for trial_id, of_trial in found.items()}
