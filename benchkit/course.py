"""The course of a run: which trial comes next, given what has ended.

The plan's order is drawn before anything runs. What may shorten it (a rule that ends the run early) or lead back into it
(a run taken up again) is decided here, between two trials, and nowhere else. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from benchkit.analysis.adaptive import Rule, StopDecision
from benchkit.analysis.samples import Exclusion
from benchkit.results.rows import Row
from benchkit.scenario.profiling import in_pass
from benchkit.scenario.schedule import Slot


class Course:
    """The trials of a run in their order, and what has come of them as far as that decides what comes next."""

    def __init__(self, slots: Sequence[Slot], rule: Rule | None = None) -> None:
        """Take the order that the plan has drawn, and the rule by which the measured blocks may end early."""
        self._slots = tuple(slots)
        self._rule = rule
        self._left = Counter(slot.block for slot in slots if _measured(slot))
        self._rows: list[Row] = []
        self._blocks = 0
        self._spent_s = 0.0
        self.early: StopDecision | None = None
        """Why the measured blocks ended before all of them were done; None: they did not."""

    def __iter__(self) -> Iterator[Slot]:
        """The trials to come, one after the other: each is asked for when the one before it has ended.

        A profile pass is run however early the measured blocks before it ended.
        """
        for slot in self._slots:
            if self.early is None or not _measured(slot):
                yield slot

    def ended(
        self, slot: Slot, row: Row | None, took_s: float, exclusions: Iterable[Exclusion] = ()
    ) -> StopDecision | None:
        """Take in what came of a trial: its row of `trials`, None where it failed, and the time that it took.

        `exclusions` are the trials so far that do not count. What the rule says where the trial was the last of its
        block, else None.
        """
        if not _measured(slot):
            return None
        self._left[slot.block] -= 1
        self._spent_s += took_s
        if row is not None:
            self._rows.append(row)
        if self._left[slot.block]:
            return None
        self._blocks += 1
        if self._rule is None:
            return None
        decision = self._rule(self._rows, self._spent_s, self._spent_s / self._blocks, exclusions)
        decision = decision.model_copy(update={"blocks": self._blocks})  # also those of which all trials failed
        if decision.stop and any(self._left.values()):
            self.early = decision
        return decision


def _measured(slot: Slot) -> bool:
    return not in_pass(slot.kind, slot.cell_id)
