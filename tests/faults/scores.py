"""What the suite counts: faults noticed, and alarms on healthy trials, with intervals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from scipy import stats

from benchkit.analysis.verdicts.registry import CHECKS
from tests.faults.faults import Proof
from tests.faults.stage import Judged


@dataclass
class Scores:
    """What came of all trials of a session."""

    faults: list[tuple[Proof, int, int]] = field(default_factory=list)
    """(what was to be noticed, detected, injected)"""
    undisturbed: list[Judged] = field(default_factory=list)
    disturbed: list[Judged] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    """Why trials failed by themselves; they were made again."""

    def add(self, proof: Proof, trials: Sequence[Judged]) -> None:
        """Count trials that had a fault."""
        self.faults.append((proof, sum(proof.check in trial.raised for trial in trials), len(trials)))

    def healthy(self, trials: Sequence[Judged], disturbed: Sequence[Judged]) -> None:
        """Count trials that had none, and those that others disturbed."""
        self.undisturbed += trials
        self.disturbed += disturbed

    def markdown(self) -> str:
        """The table of the README."""
        return "\n".join(["", *self._lines(), ""])

    def _lines(self) -> Iterator[str]:
        yield "| check | fault | detected / injected | raised / healthy |"
        yield "|---|---|---|---|"
        for proof, detected, trials in sorted(self.faults, key=lambda each: list(CHECKS).index(each[0].check)):
            yield f"| `{proof.check}` | {proof.made} | {share(detected, trials)} | {self._raised(proof.check)} |"
        shown = {proof.check for proof, _, _ in self.faults}
        for check in CHECKS:
            if check not in shown and any(check in trial.raised for trial in self.undisturbed):
                yield f"| `{check}` | | | {self._raised(check)} |"
        yield f"| any check | | | {_any(self.undisturbed)} |"
        yield "\n`throttled` is shown by a quota alone: a lab cannot steal time from itself, nor slow its clock."
        if self.failed:
            yield f"\n{len(self.failed)} trials failed by themselves and were made again: {'; '.join(self.failed)}."
        if self.disturbed:
            every = [*self.undisturbed, *self.disturbed]
            yield (
                f"\n{len(self.disturbed)} healthy trials were set aside, as others worked on the lab's cores meanwhile or "
                f"slowed them; with them any check was raised on {_any(every)}."
            )

    def _raised(self, check: str) -> str:
        return share(sum(check in trial.raised for trial in self.undisturbed), len(self.undisturbed))


def _any(trials: Sequence[Judged]) -> str:
    """On how many of them any check was raised."""
    return share(sum(bool(trial.raised) for trial in trials), len(trials))


def share(hits: int, trials: int) -> str:
    """`60 / 60 (94 to 100 %)`: with the exact 95 % interval (Clopper and Pearson, Biometrika 26, 1934)."""
    if not trials:
        return "none made"
    interval = stats.binomtest(hits, trials).proportion_ci(0.95, method="exact")
    return f"{hits} / {trials} ({100 * interval.low:.0f} to {100 * interval.high:.0f} %)"
