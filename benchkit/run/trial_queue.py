"""The course of a run: which trial comes next, given what has ended.

The plan's order is drawn before anything runs. What may shorten it (a rule that ends the run early) or lead back into it
(a run taken up again) is decided here, between two trials, and nowhere else. Pure.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from benchkit.analysis.adaptive import StopDecision, StopRule
from benchkit.analysis.samples import Exclusion
from benchkit.results.rows import Row
from benchkit.scenario.profile_pass import is_profile_pass
from benchkit.scenario.trial_order import PlannedTrial


class TrialQueue:
    """The trials of a run in their order, and what has come of them as far as that decides what comes next."""

    def __init__(self, planned_trials: Sequence[PlannedTrial], rule: StopRule | None = None) -> None:
        """Take the order that the plan has drawn, and the rule by which the measured blocks may end early."""
        self._slots = tuple(planned_trials)
        self._coming = deque(planned_trials)
        self._over: set[PlannedTrial] = set()
        self._rule = rule
        self._left = Counter(planned_trial.block for planned_trial in planned_trials if _measured(planned_trial))
        self._rows: list[Row] = []
        self._blocks = 0
        self._spent_s = 0.0
        self.early: StopDecision | None = None
        """Why the measured blocks ended before all of them were done; None: they did not."""

    def __iter__(self) -> Iterator[PlannedTrial]:
        """The trials to come, one after the other: each is asked for when the one before it has ended.

        A profile pass is run however early the measured blocks before it ended.
        """
        while self._coming:
            planned_trial = self._coming.popleft()
            if self.early is None or not _measured(planned_trial):
                yield planned_trial

    @property
    def over(self) -> frozenset[PlannedTrial]:
        """The trials that are, less those of blocks that come again."""
        return frozenset(self._over)

    @property
    def is_over(self) -> bool:
        """Whether no trial is to come any more."""
        return all(self.early is not None and _measured(planned_trial) for planned_trial in self._coming)

    def already(
        self, planned_trial: PlannedTrial, row: Row | None, took_s: float, exclusions: Iterable[Exclusion] = ()
    ) -> None:
        """Take in what came of a trial before the run was taken up again: it does not come again."""
        self._coming.remove(planned_trial)
        self.ended(planned_trial, row, took_s, exclusions)

    def begun(self) -> tuple[int, ...]:
        """The blocks of which some trials are over and others not: those that a pause has cut.

        Only blocks whose trials follow each other are cut by a pause; those of a sequential design are no stretch of
        time to begin with.
        """
        coming = {planned_trial.block for planned_trial in self._coming}
        return tuple(sorted({planned_trial.block for planned_trial in self._over} & coming & self._stretches()))

    def cut(self, planned_trial: PlannedTrial) -> tuple[PlannedTrial, ...] | None:
        """A pause in the trial `slot`, which did not end: its block comes again, whole; the trials of it that were over.

        None where the block is no stretch of time: it goes on with the trial as it is.
        """
        if planned_trial.block not in self._stretches():
            self._coming.appendleft(planned_trial)
            return None
        return self.again(planned_trial.block)

    def again(self, block: int) -> tuple[PlannedTrial, ...]:
        """Have a block come again, whole, next, as its next round; the trials of it that were over."""
        over = tuple(
            sorted(
                (planned_trial for planned_trial in self._over if planned_trial.block == block),
                key=lambda planned_trial: planned_trial.position,
            )
        )
        whole = [
            replace(planned_trial, round=planned_trial.round + 1)
            for planned_trial in self._slots
            if planned_trial.block == block
        ]
        self._slots = tuple(
            replace(planned_trial, round=planned_trial.round + 1) if planned_trial.block == block else planned_trial
            for planned_trial in self._slots
        )
        self._coming = deque(
            (*whole, *(planned_trial for planned_trial in self._coming if planned_trial.block != block))
        )
        self._over -= set(over)
        self._rows = [row for row in self._rows if row["block"] != block]
        if any(map(_measured, whole)):
            self._left[block] = len(whole)
        return over

    def ended(
        self, planned_trial: PlannedTrial, row: Row | None, took_s: float, exclusions: Iterable[Exclusion] = ()
    ) -> StopDecision | None:
        """Take in what came of a trial: its row of `trials`, None where it failed, and the time that it took.

        `exclusions` are the trials so far that do not count. What the rule says where the trial was the last of its
        block, else None.
        """
        self._over.add(planned_trial)
        if not _measured(planned_trial):
            return None
        self._left[planned_trial.block] -= 1
        self._spent_s += took_s
        if row is not None:
            self._rows.append(row)
        if self._left[planned_trial.block]:
            return None
        self._blocks += 1
        if self._rule is None:
            return None
        decision = self._rule(self._rows, self._spent_s, self._spent_s / self._blocks, exclusions)
        decision = decision.model_copy(update={"blocks": self._blocks})  # also those of which all trials failed
        if decision.stop and any(self._left.values()):
            self.early = decision
        return decision

    def _stretches(self) -> set[int]:
        """The blocks whose trials follow each other."""
        first: dict[int, int] = {}
        last: dict[int, int] = {}
        for place, planned_trial in enumerate(self._slots):
            first.setdefault(planned_trial.block, place)
            last[planned_trial.block] = place
        sizes = Counter(planned_trial.block for planned_trial in self._slots)
        return {block for block in sizes if last[block] - first[block] + 1 == sizes[block]}


def _measured(planned_trial: PlannedTrial) -> bool:
    return not is_profile_pass(planned_trial.kind, planned_trial.cell_id)
