"""The course of a run: which trial comes next, given what has ended.

The plan's order is drawn before anything runs. What may shorten it (a rule that ends the run early) or lead back into it
(a run taken up again) is decided here, between two trials, and nowhere else. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from benchkit.scenario.schedule import Slot


class Course:
    """The trials of a run in their order."""

    def __init__(self, slots: Sequence[Slot]) -> None:
        """Take the order that the plan has drawn."""
        self._slots = tuple(slots)

    def __iter__(self) -> Iterator[Slot]:
        """The trials to come, one after the other: each is asked for when the one before it has ended."""
        yield from self._slots
