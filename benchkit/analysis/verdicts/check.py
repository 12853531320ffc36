"""The shape that every check has; `benchkit.analysis.verdicts.registry` lists them.

A check looks at evidence and gives reasons, none where it has nothing against the trial. Where the evidence is missing
it says so: what nobody looked at is not the same as what is all right.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from benchkit.analysis.verdicts.evidence import Evidence, RunEvidence
from benchkit.models.base import Frozen
from benchkit.models.metrics import LATENCIES
from benchkit.models.thresholds import Thresholds

Severity = Literal["suspect", "invalid"]
"""`suspect`: shown, marked and ranked with a warning; `invalid`: shown, never ranked or used in a ratio."""

Verdict = Literal["valid", "suspect", "invalid"]

RATES = ("rps", "requests", "bytes_per_s", "bytes_total")
LOAD = (*RATES, *LATENCIES)
"""What the load tool measured: void where it was not the server that was measured."""
CPU = ("server_cpu_s_per_request",)
ALL = (*LOAD, *CPU)


class Finding(Frozen):
    """Why figures of a trial are doubted: those named, and no others."""

    severity: Severity
    metrics: tuple[str, ...]
    """Columns of `trials` that are void (`invalid`) or doubtful (`suspect`)."""
    seen: str
    threshold: str
    means: str
    """What it means for the figures: a sentence."""
    advice: str
    """What to do about it: a sentence."""

    @property
    def text(self) -> str:
        """What was seen, what it means, what to do: for people."""
        return f"{self.seen[:1].upper()}{self.seen[1:]} ({self.threshold}). {self.means} {self.advice}"


class SkippedCheck(Frozen):
    """A check that could not be made, and what it lacked: a clause."""

    why: str


CheckResult = Sequence[Finding] | SkippedCheck
"""What a check came to."""

RunCheckResult = Mapping[str, CheckResult]
"""What a check over a whole run came to, by trial_id; trials with nothing against them may be left out."""


def _nothing_of_a_trial(_evidence: Evidence, _thresholds: Thresholds) -> CheckResult:
    return ()


def _nothing_of_a_run(_evidence: RunEvidence, _thresholds: Thresholds) -> RunCheckResult:
    return {}


@dataclass(frozen=True)
class Check:
    """One way in which a number can be worthless, and how that is noticed."""

    code: str
    because: str
    """The number is wrong because …: a clause."""
    of_trial: Callable[[Evidence, Thresholds], CheckResult] = field(default=_nothing_of_a_trial, repr=False)
    """What a trial shows by itself."""
    of_run: Callable[[RunEvidence, Thresholds], RunCheckResult] = field(default=_nothing_of_a_run, repr=False)
    """What only the trials of a run beside each other show."""
