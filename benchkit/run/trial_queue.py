"""The trials of a run that are still to run, in an order that depends on the outcome of earlier ones.

The plan draws the order before anything runs. This is the only place that changes it afterwards: a rule may end the run
early, and invalid trials may have a block added. A block is repeated after a pause or the loss of a testbed, and a
resumed run skips finished trials. What concurrent testbeds share is here too, under one lock; `run_concurrently` runs
each in a thread.
"""

from __future__ import annotations

import hashlib
import itertools
import threading
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from types import MappingProxyType

from benchkit.comparison.adaptive import StopDecision, StopRule
from benchkit.comparison.lost_blocks import SpareBlocks
from benchkit.models.rows import TrialRow
from benchkit.scenario.trial_order import PlannedTrial
from benchkit.stats.samples import Exclusion

CALIBRATION_BLOCK = 0
"""Block of the trials that find the rates of all others."""


def hash_order(planned_trials: Iterable[PlannedTrial]) -> str:
    """Return a hash of the order of trials, without the rounds of their blocks."""
    text = "\n".join(f"{trial.block} {trial.position} {trial.kind} {trial.cell_id}" for trial in planned_trials)
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True)
class AddedBlock:
    """A block that was added in place of the block `lost`, which has invalid trials."""

    block: int
    lost: int

    def trials(self, planned: Iterable[PlannedTrial]) -> tuple[PlannedTrial, ...]:
        """Return its trials: the planned ones of the lost block, in the same order."""
        return tuple(replace(trial, block=self.block, round=1) for trial in planned if trial.block == self.lost)


class TrialQueue:
    """The trials still to run, and as much about the finished ones as decides what comes next; safe for many threads.

    Testbeds take trials at the same time, each by its name. A block whose trials follow each other belongs to the
    testbed that has taken its first trial, until the block is finished or interrupted.
    """

    def __init__(
        self,
        planned_trials: Sequence[PlannedTrial],
        rule: StopRule | None = None,
        *,
        together: bool = False,
        testbeds: Collection[str | None] = (None,),
        assignments: Mapping[int, str | None] = MappingProxyType({}),
        spare: SpareBlocks | None = None,
        added: Mapping[int, int] = MappingProxyType({}),
    ) -> None:
        """Take the planned order, the rule by which the measured blocks may end early, and the testbeds.

        With `together` all measured trials of a block run at the same time, as in a sliced design. A block in
        `assignments` runs on its testbed alone. `spare` is the rule for blocks that replace lost ones; None: none is
        added. `added` has the lost block of each added block whose trials are planned already.
        """
        self._together = together
        self._planned = tuple(planned_trials)
        self._pending = deque(planned_trials)
        self._finished: set[PlannedTrial] = set()
        self._rule = rule
        self._unfinished = Counter(trial.block for trial in planned_trials)
        self._measured_blocks = {trial.block for trial in planned_trials if trial.is_measured}
        self._contiguous = _contiguous_blocks(self._planned)
        self._rows: list[TrialRow] = []
        self._finished_blocks = 0
        self._elapsed_s = 0.0
        self._testbeds = set(testbeds)
        self._speed = len(self._testbeds)
        self._assignments = {
            **assignments,
            **{block: assignments[lost] for block, lost in added.items() if lost in assignments},
        }
        self._spare = spare
        self._added = dict(added)
        self._owners: dict[int, str | None] = {}
        self._kept_blocks: frozenset[int] = frozenset()
        self._is_stopped = False
        self._changed = threading.Condition()
        self.early_stop: StopDecision | None = None
        """The decision that ended the measured blocks early; None where all of them run."""

    def batches(self, testbed: str | None = None) -> Iterator[tuple[PlannedTrial, ...]]:
        """Yield the trials that a testbed runs next, together; ask for more when all of them have finished.

        A profile pass runs even if the measured blocks before it ended early. The iterator waits while trials of other
        testbeds may return to the queue.
        """
        while batch := self._take(testbed):
            yield batch

    def _take(self, testbed: str | None) -> tuple[PlannedTrial, ...]:
        with self._changed:
            while not self._is_stopped:
                if (first := self._first_free(testbed)) is not None:
                    return self._take_with_its_block(first, testbed)
                if not any(owner != testbed for owner in self._owners.values()):
                    return ()
                self._changed.wait()
            return ()

    def _first_free(self, testbed: str | None) -> PlannedTrial | None:
        """Return the first trial that a testbed may take now; none while another one finds the rates of all others."""
        if self._owners.get(CALIBRATION_BLOCK, testbed) != testbed:
            return None
        pairs = ((trial, self._assignments.get(trial.block, testbed)) for trial in self._pending)
        free = (trial for trial, assigned in pairs if assigned == self._owners.get(trial.block, testbed) == testbed)
        return next(filter(self._is_wanted, free), None)

    def _take_with_its_block(self, first: PlannedTrial, testbed: str | None) -> tuple[PlannedTrial, ...]:
        """Take a trial for a testbed, and with it the others of its block that run at the same time."""
        batch = [first]
        if self._together and first.is_measured:
            batch = [trial for trial in self._pending if trial.block == first.block]
        for trial in batch:
            self._pending.remove(trial)
        if first.block in self._contiguous:
            self._owners[first.block] = testbed
        return tuple(batch)

    def stop(self) -> None:
        """Give no more trials to any testbed."""
        with self._changed:
            self._is_stopped = True
            self._changed.notify_all()

    def leave(self, testbed: str | None) -> bool:
        """Give no more trials to a testbed that has lost a host, if others can run them; return whether they can."""
        with self._changed:
            if self._assignments or self._testbeds == {testbed}:
                return False
            self._testbeds.discard(testbed)
            return True

    @property
    def finished(self) -> frozenset[PlannedTrial]:
        """Finished trials, without blocks that are repeated."""
        return frozenset(self._finished)

    @property
    def is_empty(self) -> bool:
        """True if no trial is left to run."""
        return not any(map(self._is_wanted, self._pending))

    def finish(
        self, trial: PlannedTrial, row: TrialRow | None, duration_s: float, exclusions: Iterable[Exclusion] = ()
    ) -> StopDecision | None:
        """Add a finished trial with its row of `trials` (None where it failed) and its duration.

        `exclusions` covers all trials so far. Returns the decision of the rule after the last trial of a block,
        else None.
        """
        with self._changed:
            self._finished.add(trial)
            self._unfinished[trial.block] -= 1
            if trial.is_measured:
                self._elapsed_s += duration_s / self._speed
                self._rows += [] if row is None else [row]
            if self._unfinished[trial.block]:
                return None
            self._owners.pop(trial.block, None)
            self._changed.notify_all()
            return self._decide(exclusions) if trial.is_measured else None

    def _decide(self, exclusions: Iterable[Exclusion]) -> StopDecision | None:
        self._finished_blocks += 1
        if self._rule is None or self.early_stop is not None:
            return None
        rows = [row for row in self._rows if not self._unfinished[row.block]]
        decision = self._rule(rows, self._elapsed_s, self._elapsed_s / self._finished_blocks, exclusions)
        decision = decision.model_copy(update={"blocks": self._finished_blocks})  # also blocks without any success
        unfinished = {block for block in self._measured_blocks if self._unfinished[block]}
        if decision.stop and unfinished - self._owners.keys():
            self._kept_blocks = frozenset(unfinished & self._owners.keys())
            self.early_stop = decision.model_copy(update={"blocks": self._finished_blocks + len(self._kept_blocks)})
        return decision

    def add_block(self, exclusions: Iterable[Exclusion]) -> AddedBlock | None:
        """Add a block in place of one that has invalid trials, once all measured ones have finished.

        `exclusions` covers all trials so far. Returns None where no block is lost, or no further one is allowed.
        """
        with self._changed:
            if self._spare is None or len(self._added) >= self._spare.most:
                return None
            if any(self._unfinished[block] for block in self._measured_blocks):
                return None
            lost = self._spare.lost_block(self._rows, exclusions, self._added)
            if lost is None:
                return None
            same_group = (lost - 1) % self._spare.groups
            after = max(trial.block for trial in self._planned) + 1
            number = next(block for block in itertools.count(after) if (block - 1) % self._spare.groups == same_group)
            added = AddedBlock(number, lost)
            self._append(added)
            return added

    def trials_of(self, block: int) -> tuple[PlannedTrial, ...]:
        """Return the trials of a block, finished or not."""
        return tuple(trial for trial in self._planned if trial.block == block)

    def _append(self, added: AddedBlock) -> None:
        trials = added.trials(self._planned)
        self._planned = (*self._planned, *trials)
        self._pending.extend(trials)
        self._added[added.block] = added.lost
        self._unfinished[added.block] = len(trials)
        self._measured_blocks.add(added.block)
        self._contiguous |= {added.block}
        if added.lost in self._assignments:
            self._assignments[added.block] = self._assignments[added.lost]
        self._changed.notify_all()

    def skip_finished(
        self, trial: PlannedTrial, row: TrialRow | None, duration_s: float, exclusions: Iterable[Exclusion] = ()
    ) -> None:
        """Add a trial that finished before the run was resumed: it does not run again."""
        self._pending.remove(trial)
        self.finish(trial, row, duration_s, exclusions)

    def finished_with(self, trial: PlannedTrial) -> tuple[PlannedTrial, ...] | None:
        """Return the finished trials that are repeated if this one is interrupted; None where it alone is repeated."""
        if trial.block not in self._contiguous:
            return None
        with self._changed:
            of_block = [each for each in self._finished if each.block == trial.block]
            return tuple(sorted(of_block, key=lambda each: each.position))

    def interrupt(self, trial: PlannedTrial) -> tuple[PlannedTrial, ...] | None:
        """Queue the whole block of an interrupted trial once more; return the block's finished trials.

        Returns None where the block is not contiguous: then only the trial returns to the queue.
        """
        with self._changed:
            if trial.block in self._contiguous:
                return self.repeat_block(trial.block)
            self._pending.appendleft(trial)
            return None

    def repeat_block(self, block: int) -> tuple[PlannedTrial, ...]:
        """Queue a whole block before those that no testbed has begun, as its next round.

        Returns its trials that had finished.
        """
        with self._changed:
            of_block = [trial for trial in self._finished if trial.block == block]
            finished = tuple(sorted(of_block, key=lambda trial: trial.position))
            self._planned = tuple(
                replace(trial, round=trial.round + 1) if trial.block == block else trial for trial in self._planned
            )
            repeated = [trial for trial in self._planned if trial.block == block]
            self._owners.pop(block, None)
            others = [trial for trial in self._pending if trial.block != block]
            begun = [trial for trial in others if trial.block in self._owners]
            self._pending = deque((*begun, *repeated, *(trial for trial in others if trial.block not in self._owners)))
            self._finished -= set(finished)
            self._rows = [row for row in self._rows if row.block != block]
            self._unfinished[block] = len(repeated)
            self._changed.notify_all()
            return finished

    def _is_wanted(self, trial: PlannedTrial) -> bool:
        """Return whether a pending trial still has to run; blocks that were running at an early stop are finished."""
        return self.early_stop is None or not trial.is_measured or trial.block in self._kept_blocks


def _contiguous_blocks(planned: Sequence[PlannedTrial]) -> frozenset[int]:
    """Return the blocks whose trials follow each other without another block's in between."""
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for index, trial in enumerate(planned):
        first.setdefault(trial.block, index)
        last[trial.block] = index
    sizes = Counter(trial.block for trial in planned)
    return frozenset(block for block in sizes if last[block] - first[block] + 1 == sizes[block])


def interrupted_blocks(planned: Sequence[PlannedTrial], finished: Collection[PlannedTrial]) -> frozenset[int]:
    """Return the contiguous blocks with both finished and pending trials.

    The blocks of a sequential design are not contiguous, so that no pause interrupts them.
    """
    pending = {trial.block for trial in planned if trial not in finished}
    return _contiguous_blocks(planned) & pending & {trial.block for trial in finished}


WAKE_S = 0.2
"""Time in which an interruption is noticed. A wait without an end may sleep on through a signal: libraries can have
signals restart system calls (SA_RESTART in sigaction(2))."""


def run_concurrently(
    works: Sequence[Callable[[], None]], *, stop: Callable[[], None], abort: Callable[[], None]
) -> None:
    """Run these functions in threads of their own and return when all have ended; run a single one in this thread.

    After an error in one, `stop` makes the others end after their present trial; then the first error is raised. At an
    interruption, which reaches this thread alone, `abort` makes the others fail at once.
    """
    if len(works) == 1:
        works[0]()
        return
    pool = ThreadPoolExecutor(len(works), thread_name_prefix="testbed")
    try:
        futures = [pool.submit(work) for work in works]
        try:
            _wait_for_error(futures)
            stop()
            wait(futures)
        except KeyboardInterrupt:
            stop()
            abort()
            wait(futures)
            raise
        for future in futures:
            future.result()
    finally:
        pool.shutdown(wait=False)


def _wait_for_error(futures: Sequence[Future[None]]) -> None:
    pending = set(futures)
    while pending:
        done, pending = wait(pending, timeout=WAKE_S, return_when=FIRST_EXCEPTION)
        if any(future.exception() is not None for future in done):
            return
