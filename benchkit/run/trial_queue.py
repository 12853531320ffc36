"""The trials of a run that are still to run, in their order, given the outcome of those before.

The plan draws the order before anything runs. This is the only place that changes it afterwards: a rule may end the run
early, a pause may repeat a block, and a resumed run skips what has finished. Pure.
"""

from __future__ import annotations

import hashlib
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from benchkit.analysis.adaptive import StopDecision, StopRule
from benchkit.analysis.samples import Exclusion
from benchkit.models.rows import TrialRow
from benchkit.scenario.profile_pass import is_profile_pass
from benchkit.scenario.trial_order import PlannedTrial


def hash_order(planned_trials: Iterable[PlannedTrial]) -> str:
    """Return a hash of the order of trials, without the rounds of their blocks."""
    text = "\n".join(f"{trial.block} {trial.position} {trial.kind} {trial.cell_id}" for trial in planned_trials)
    return hashlib.sha256(text.encode()).hexdigest()


class TrialQueue:
    """The trials still to run, and as much about the finished ones as decides what comes next."""

    def __init__(
        self, planned_trials: Sequence[PlannedTrial], rule: StopRule | None = None, *, together: bool = False
    ) -> None:
        """Take the planned order, and the rule by which the measured blocks may end early.

        With `together` all measured trials of a block run at the same time, as in a sliced design.
        """
        self._together = together
        self._planned = tuple(planned_trials)
        self._pending = deque(planned_trials)
        self._finished: set[PlannedTrial] = set()
        self._rule = rule
        self._pending_in_block = Counter(trial.block for trial in planned_trials if _is_measured(trial))
        self._rows: list[TrialRow] = []
        self._finished_blocks = 0
        self._elapsed_s = 0.0
        self.early_stop: StopDecision | None = None
        """The decision that ended the measured blocks early; None where all of them run."""

    def __iter__(self) -> Iterator[PlannedTrial]:
        """Yield one pending trial after the other; ask for the next when the one before has finished.

        A profile pass runs however early the measured blocks before it ended.
        """
        while self._pending:
            trial = self._pending.popleft()
            if self._is_wanted(trial):
                yield trial

    def batches(self) -> Iterator[tuple[PlannedTrial, ...]]:
        """Yield the trials that run next, together; ask for more when all of them have finished."""
        for trial in self:
            batch = [trial]
            while self._together and _is_measured(trial) and self._pending and self._pending[0].block == trial.block:
                batch.append(self._pending.popleft())
            yield tuple(batch)

    @property
    def finished(self) -> frozenset[PlannedTrial]:
        """Finished trials, without those of blocks that are repeated."""
        return frozenset(self._finished)

    @property
    def is_empty(self) -> bool:
        """True if no trial is left to run."""
        return not any(map(self._is_wanted, self._pending))

    def finish(
        self, trial: PlannedTrial, row: TrialRow | None, duration_s: float, exclusions: Iterable[Exclusion] = ()
    ) -> StopDecision | None:
        """Add a finished trial with its row of `trials` (None where it failed) and its duration.

        `exclusions` are those of all trials so far. Returns the decision of the rule after the last trial of a block,
        else None.
        """
        self._finished.add(trial)
        if not _is_measured(trial):
            return None
        self._pending_in_block[trial.block] -= 1
        self._elapsed_s += duration_s
        if row is not None:
            self._rows.append(row)
        if self._pending_in_block[trial.block]:
            return None
        self._finished_blocks += 1
        if self._rule is None:
            return None
        decision = self._rule(self._rows, self._elapsed_s, self._elapsed_s / self._finished_blocks, exclusions)
        decision = decision.model_copy(update={"blocks": self._finished_blocks})  # also blocks without any success
        if decision.stop and any(self._pending_in_block.values()):
            self.early_stop = decision
        return decision

    def skip_finished(
        self, trial: PlannedTrial, row: TrialRow | None, duration_s: float, exclusions: Iterable[Exclusion] = ()
    ) -> None:
        """Add a trial that finished before the run was resumed: it does not run again."""
        self._pending.remove(trial)
        self.finish(trial, row, duration_s, exclusions)

    def interrupted_blocks(self) -> tuple[int, ...]:
        """Return the contiguous blocks that have both finished and pending trials.

        The blocks of a sequential design are not contiguous, so that no pause interrupts them.
        """
        pending = {trial.block for trial in self._pending}
        return tuple(sorted({trial.block for trial in self._finished} & pending & self._contiguous_blocks()))

    def interrupt(self, trial: PlannedTrial) -> tuple[PlannedTrial, ...] | None:
        """Queue the block of a trial that a pause interrupted again, whole; return its finished trials.

        Returns None where the block is not contiguous: then only the trial returns to the queue.
        """
        if trial.block not in self._contiguous_blocks():
            self._pending.appendleft(trial)
            return None
        return self.repeat_block(trial.block)

    def repeat_block(self, block: int) -> tuple[PlannedTrial, ...]:
        """Put a whole block at the head of the queue, as its next round; return its trials that had finished."""
        finished = tuple(
            sorted((trial for trial in self._finished if trial.block == block), key=lambda trial: trial.position)
        )
        self._planned = tuple(
            replace(trial, round=trial.round + 1) if trial.block == block else trial for trial in self._planned
        )
        repeated = [trial for trial in self._planned if trial.block == block]
        self._pending = deque((*repeated, *(trial for trial in self._pending if trial.block != block)))
        self._finished -= set(finished)
        self._rows = [row for row in self._rows if row.block != block]
        if any(map(_is_measured, repeated)):
            self._pending_in_block[block] = len(repeated)
        return finished

    def _is_wanted(self, trial: PlannedTrial) -> bool:
        return self.early_stop is None or not _is_measured(trial)

    def _contiguous_blocks(self) -> set[int]:
        """Return the blocks whose trials follow each other without another block's in between."""
        first: dict[int, int] = {}
        last: dict[int, int] = {}
        for index, trial in enumerate(self._planned):
            first.setdefault(trial.block, index)
            last[trial.block] = index
        sizes = Counter(trial.block for trial in self._planned)
        return {block for block in sizes if last[block] - first[block] + 1 == sizes[block]}


def _is_measured(trial: PlannedTrial) -> bool:
    return trial.kind != "calibrate" and not is_profile_pass(trial.kind, trial.cell_id)
