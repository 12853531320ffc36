"""The remaining trials of a run, in an order that depends on the outcome of earlier ones. Pure.

The plan draws the order before the first trial. Only this queue changes it: a rule may end the run early, a block is
repeated after a pause, and a resumed run skips finished trials.
"""

from __future__ import annotations

import hashlib
from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace

from benchkit.comparison.adaptive import StopDecision, StopRule
from benchkit.models.rows import TrialRow
from benchkit.scenario.trial_order import PlannedTrial
from benchkit.stats.samples import Exclusion


def hash_order(planned_trials: Iterable[PlannedTrial]) -> str:
    """Return a hash of the order of trials, without the rounds of their blocks."""
    text = "\n".join(f"{trial.block} {trial.position} {trial.kind} {trial.cell_id}" for trial in planned_trials)
    return hashlib.sha256(text.encode()).hexdigest()


class TrialQueue:
    """The remaining trials, and the results that decide on the next ones."""

    def __init__(
        self, planned_trials: Sequence[PlannedTrial], rule: StopRule | None = None, *, together: bool = False
    ) -> None:
        """Take the planned order, and the rule that may end the measured blocks early.

        With `together` all measured trials of a block run at the same time, as in a sliced design.
        """
        self._planned = tuple(planned_trials)
        self._pending = deque(planned_trials)
        self._rule, self._together = rule, together
        self._finished: set[PlannedTrial] = set()
        self._unfinished = Counter(trial.block for trial in planned_trials)
        self._measured_blocks = {trial.block for trial in planned_trials if trial.is_measured}
        self._contiguous = _contiguous_blocks(self._planned)
        self._rows: list[TrialRow] = []
        self._finished_blocks = 0
        self._elapsed_s = self._block_s = 0.0
        self.early_stop: StopDecision | None = None
        """The decision that ended the measured blocks early; None where all of them run."""

    @property
    def finished(self) -> frozenset[PlannedTrial]:
        """Finished trials, without those of repeated blocks."""
        return frozenset(self._finished)

    @property
    def is_empty(self) -> bool:
        """True if no trial remains."""
        return self._next() is None

    def batches(self) -> Iterator[tuple[PlannedTrial, ...]]:
        """Yield the trials that run together next; all of them must have finished before the next batch is taken.

        A profile pass runs even if the measured blocks before it ended early.
        """
        while (first := self._next()) is not None:
            batch = [first]
            if self._together and first.is_measured:
                batch = [trial for trial in self._pending if trial.block == first.block]
            for trial in batch:
                self._pending.remove(trial)
            yield tuple(batch)

    def _next(self) -> PlannedTrial | None:
        has_stopped = self.early_stop is not None
        return next((trial for trial in self._pending if not (has_stopped and trial.is_measured)), None)

    def finish(
        self, trial: PlannedTrial, row: TrialRow | None, duration_s: float, exclusions: Iterable[Exclusion] = ()
    ) -> StopDecision | None:
        """Add a finished trial with its row (None if it failed), its duration, and the exclusions of all trials so far.

        Returns the decision of the rule after the last trial of a block, else None.
        """
        self._finished.add(trial)
        self._unfinished[trial.block] -= 1
        self._elapsed_s += duration_s
        if not trial.is_measured:
            return None
        self._block_s += duration_s
        self._rows += [] if row is None else [row]
        if self._unfinished[trial.block]:
            return None
        self._finished_blocks += 1
        if self._rule is None or self.early_stop is not None:
            return None
        rows = [row for row in self._rows if not self._unfinished[row.block]]
        decision = self._rule(rows, self._elapsed_s, self._block_s / self._finished_blocks, exclusions)
        decision = decision.model_copy(update={"blocks": self._finished_blocks})  # also blocks without any success
        if decision.stop and self._has_unfinished_blocks:
            self.early_stop = decision
        return decision

    def skip_finished(
        self, trial: PlannedTrial, row: TrialRow | None, duration_s: float, exclusions: Iterable[Exclusion] = ()
    ) -> None:
        """Add a trial that finished before the run was resumed: it does not run again."""
        self._pending.remove(trial)
        self.finish(trial, row, duration_s, exclusions)

    @property
    def _has_unfinished_blocks(self) -> bool:
        return any(self._unfinished[block] for block in self._measured_blocks)

    def trials_of(self, block: int) -> tuple[PlannedTrial, ...]:
        """Return the trials of a block, finished or not."""
        return tuple(trial for trial in self._planned if trial.block == block)

    def interrupt(self, trial: PlannedTrial) -> tuple[PlannedTrial, ...] | None:
        """Queue the whole block of an interrupted trial again, as a new round; return the trials that had finished.

        Queues only the trial, and returns None, if the block is not contiguous.
        """
        block = trial.block
        if block not in self._contiguous:
            self._pending.appendleft(trial)
            return None
        finished = sorted((each for each in self._finished if each.block == block), key=lambda each: each.position)
        self._planned = tuple(
            replace(each, round=each.round + 1) if each.block == block else each for each in self._planned
        )
        self._pending = deque((*self.trials_of(block), *(each for each in self._pending if each.block != block)))
        self._finished -= set(finished)
        self._rows = [row for row in self._rows if row.block != block]
        self._unfinished[block] = len(self.trials_of(block))
        return tuple(finished)


def _contiguous_blocks(planned: Sequence[PlannedTrial]) -> frozenset[int]:
    indexes: dict[int, list[int]] = {}
    for index, trial in enumerate(planned):
        indexes.setdefault(trial.block, []).append(index)
    return frozenset(block for block, own in indexes.items() if own[-1] - own[0] + 1 == len(own))


def interrupted_blocks(planned: Sequence[PlannedTrial], finished: Collection[PlannedTrial]) -> frozenset[int]:
    """Return the contiguous blocks with both finished and pending trials.

    Blocks of a sequential design are not contiguous: no pause interrupts them.
    """
    pending = {trial.block for trial in planned if trial not in finished}
    return _contiguous_blocks(planned) & pending & {trial.block for trial in finished}
