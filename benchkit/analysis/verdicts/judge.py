"""What all checks come to: the reasons against each trial, what could not be checked, and the verdict. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from benchkit.analysis.verdicts.check import Found, Reason, SkippedCheck, Verdict
from benchkit.analysis.verdicts.evidence import Evidence, RunEvidence
from benchkit.analysis.verdicts.registry import CHECKS
from benchkit.models.base import Frozen
from benchkit.models.thresholds import Thresholds, thresholds_of

Row = dict[str, Any]

Scope = Literal["trial", "run"]
"""What a judgement rests on: the trial by itself, or all trials of its run beside each other."""


class Finding(Frozen):
    """A reason, and the check that gives it."""

    check: str
    reason: Reason


class Judgement(Frozen):
    """What checks have to say of one trial."""

    raised: tuple[Finding, ...] = ()
    unchecked: Mapping[str, str] = {}
    """Checks that could not be made: what they lacked, by code."""

    @property
    def verdict(self) -> Verdict:
        """The worst of its reasons."""
        return verdict_of(each.reason.severity for each in self.raised)

    @property
    def invalid(self) -> tuple[Finding, ...]:
        """The reasons that void what they name."""
        return tuple(each for each in self.raised if each.reason.severity == "invalid")

    def verdict_rows(self, trial_id: str, scope: Scope) -> list[Row]:
        """Its rows in `verdicts`."""
        return [
            {
                "trial_id": trial_id,
                "check": each.check,
                "severity": each.reason.severity,
                "metrics": list(each.reason.metrics),
                "seen": each.reason.seen,
                "threshold": each.reason.threshold,
                "text": each.reason.text,
                "scope": scope,
            }
            for each in self.raised
        ]

    def unchecked_rows(self, trial_id: str, scope: Scope) -> list[Row]:
        """Its rows in `unchecked`."""
        return [
            {"trial_id": trial_id, "check": check, "why": why, "scope": scope} for check, why in self.unchecked.items()
        ]


def verdict_of(severities: Iterable[str]) -> Verdict:
    """The worst of these severities; `valid` for none."""
    found = set(severities)
    return "invalid" if "invalid" in found else "suspect" if found else "valid"


def judgement(found: Mapping[str, Found]) -> Judgement:
    """What checks came to, by their code, as one."""
    return Judgement(
        raised=tuple(
            Finding(check=code, reason=reason)
            for code, reasons in found.items()
            if not isinstance(reasons, SkippedCheck)
            for reason in reasons
        ),
        unchecked={code: reasons.why for code, reasons in found.items() if isinstance(reasons, SkippedCheck)},
    )


def judge_trial(evidence: Evidence, thresholds: Thresholds) -> Judgement:
    """What a trial shows by itself."""
    return judgement({code: check.of_trial(evidence, thresholds) for code, check in CHECKS.items()})


def judge_run(evidence: RunEvidence) -> dict[str, Judgement]:
    """What only the trials of a run beside each other show, by trial_id, by the thresholds it was run under."""
    thresholds = thresholds_of(evidence.manifest)
    found: dict[str, dict[str, Found]] = {str(trial_id): {} for trial_id in evidence.trials["trial_id"]}
    for code, check in CHECKS.items():
        for trial_id, came_to in check.of_run(evidence, thresholds).items():
            found[trial_id][code] = came_to
    nothing = judgement({})
    return {trial_id: judgement(of_trial) if of_trial else nothing for trial_id, of_trial in found.items()}
