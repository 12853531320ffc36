"""What people see during a run: its matrix on a terminal (`benchkit.cli.matrix`), plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

from benchkit import units

if TYPE_CHECKING:
    from benchkit.hosts.connect import Hosts
    from benchkit.planning.plan import RunPlan
    from benchkit.scenario.schedule import Slot


class Silent:
    """Nothing is shown (`-q`)."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing was opened."""

    def stage(self, text: str) -> None:
        """A stage of the run begins."""

    def trial_started(self, slot: Slot) -> None:
        """A trial begins."""

    def trial_ended(self, slot: Slot, rps: float | None, verdict: str) -> None:
        """A trial ended with this rate, which is so much worth."""

    def trial_failed(self, slot: Slot, why: str) -> None:
        """A trial could not be carried out."""

    def trial_again(self, slot: Slot, why: str) -> None:
        """A trial could not be carried out, and is tried again."""

    def taken_up(self, over: int) -> None:
        """So many trials of the run were over before it was taken up again."""


class Plain(Silent):
    """One line for every finished trial, on stderr."""

    def __init__(self, plan: RunPlan) -> None:
        """Count against the trials of the plan."""
        self._plan = plan
        self._done = 0
        self._over = 0
        self._began = time.monotonic()

    def taken_up(self, over: int) -> None:
        """Count on from those."""
        self._over = over

    def trial_started(self, slot: Slot) -> None:  # noqa: ARG002 - every display is told which
        """Count time from the first trial on: building and deploying come once."""
        if self._done == 0:
            self._began = time.monotonic()

    def stage(self, text: str) -> None:
        """Print the stage."""
        print(text, file=sys.stderr, flush=True)

    def trial_ended(self, slot: Slot, rps: float | None, verdict: str) -> None:
        """Print block, cell and rate, and how long it will still take."""
        self._line(slot, shown(slot, rps, verdict))

    def trial_failed(self, slot: Slot, why: str) -> None:
        """Print block, cell and the reason."""
        self._line(slot, f"failed: {why}")

    def trial_again(self, slot: Slot, why: str) -> None:
        """Print block, cell and the reason, without counting it."""
        self.stage(f"block {slot.block}  {slot.title}  is tried again: {why}")

    def _line(self, slot: Slot, outcome: str) -> None:
        self._done += 1
        total, over = len(self._plan.slots), self._over + self._done
        elapsed = time.monotonic() - self._began
        left = max(0.0, elapsed / self._done * (total - over))
        print(
            f"[{over}/{total}] block {slot.block}  {slot.title}  {outcome}"
            f"  ({units.seconds(elapsed)} gone, about {units.seconds(left)} left)",
            file=sys.stderr,
            flush=True,
        )


def shown(slot: Slot, rps: float | None, verdict: str) -> str:
    """A rate, and what doubts it; of one that is there for its profile nobody takes a rate."""
    doubted = verdict != "valid" and slot.kind != "profile"
    return units.requests_per_s(rps) + (f" ({verdict})" if doubted else "")


def display(plan: RunPlan, hosts: Hosts, *, quiet: bool) -> Silent:
    """What fits: nothing, the matrix of the run on a terminal, or plain lines."""
    if quiet:
        return Silent()
    if not sys.stderr.isatty():
        return Plain(plan)
    from benchkit.cli.matrix import Live  # rich takes a while

    return Live(plan, hosts)
