"""Scores of the suite: detected faults, and alarms on healthy trials, with intervals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from scipy import stats

from benchkit.judge.checks.registry import CHECKS
from tests.faults.fault_lab import JudgedTrial
from tests.faults.faults import ExpectedFinding


@dataclass
class Scores:
    """Results of all trials of a session."""

    faults: list[tuple[ExpectedFinding, int, int]] = field(default_factory=list)
    """(expectation, detected, injected)"""
    undisturbed: list[JudgedTrial] = field(default_factory=list)
    disturbed: list[JudgedTrial] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    """Reasons why trials failed by themselves; these were repeated."""

    def add(self, expectation: ExpectedFinding, trials: Sequence[JudgedTrial]) -> None:
        """Count trials with a fault."""
        self.faults.append((expectation, sum(map(expectation.is_noticed, trials)), len(trials)))

    def healthy(self, trials: Sequence[JudgedTrial], disturbed: Sequence[JudgedTrial]) -> None:
        """Count trials without a fault, and those that others disturbed."""
        self.undisturbed += trials
        self.disturbed += disturbed

    def markdown(self) -> str:
        """Return the table of `benchkit/judge/RESULTS.md`."""
        return "\n".join(["", *self._lines(), ""])

    def _lines(self) -> Iterator[str]:
        yield "| check | fault | detected / injected | raised / healthy |"
        yield "|---|---|---|---|"
        for expectation, detected, trials in sorted(self.faults, key=lambda each: list(CHECKS).index(each[0].check)):
            yield f"| `{expectation.check}` | {expectation.injection} | {share(detected, trials)} | {self._alarm_share(expectation.check)} |"
        shown = {expectation.check for expectation, _, _ in self.faults}
        for check in CHECKS:
            if check not in shown and any(check in trial.findings for trial in self.undisturbed):
                yield f"| `{check}` | | | {self._alarm_share(check)} |"
        yield f"| any check | | | {_any_alarm(self.undisturbed)} |"
        yield "\n`throttled` is shown by a quota alone: a lab cannot steal time from itself, nor slow its clock."
        if self.failed:
            yield f"\n{len(self.failed)} trials failed for other reasons and were repeated: {'; '.join(self.failed)}."
        if self.disturbed:
            every = [*self.undisturbed, *self.disturbed]
            yield (
                f"\n{len(self.disturbed)} healthy trials were excluded because other processes used the lab's cores or "
                f"slowed them; with them, any check had a finding on {_any_alarm(every)}."
            )

    def _alarm_share(self, check: str) -> str:
        return share(sum(check in trial.findings for trial in self.undisturbed), len(self.undisturbed))


def _any_alarm(trials: Sequence[JudgedTrial]) -> str:
    return share(sum(bool(trial.findings) for trial in trials), len(trials))


def share(hits: int, trials: int) -> str:
    """Return `60 / 60 (94 to 100 %)`, with the exact 95 % interval (Clopper and Pearson, Biometrika 26, 1934)."""
    if not trials:
        return "none made"
    interval = stats.binomtest(hits, trials).proportion_ci(0.95, method="exact")
    return f"{hits} / {trials} ({100 * interval.low:.0f} to {100 * interval.high:.0f} %)"
