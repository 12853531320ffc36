"""What people see during a run: a live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

from benchkit import units

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

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
        self._line(slot, _shown(slot, rps, verdict))

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


class Live(Silent):
    """A progress line on a terminal: block, cell, time gone and left, the last rate."""

    def __init__(self, plan: RunPlan) -> None:
        """Count against the trials of the plan."""
        self._plan = plan
        self._blocks = max((slot.block for slot in plan.slots), default=0)
        self._last = ""
        self._progress: Progress | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
        from rich.progress import TimeRemainingColumn as Remaining

        text = TextColumn("{task.description}", markup=False)
        columns = (MofNCompleteColumn(), BarColumn(bar_width=20), TimeElapsedColumn(), Remaining(), text)
        self._progress = Progress(*columns, console=Console(stderr=True), transient=False)
        self._task = self._progress.add_task("", total=len(self._plan.slots))
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the terminal as it was."""
        if self._progress is not None:
            self._progress.stop()

    def stage(self, text: str) -> None:
        """Show the stage in the place of the cell."""
        self._update(text)

    def trial_started(self, slot: Slot) -> None:
        """Show block and cell."""
        self._update(f"block {slot.block}/{self._blocks}  {slot.title}")

    def trial_ended(self, slot: Slot, rps: float | None, verdict: str) -> None:
        """Show the rate beside what comes next."""
        self._last = f"  last: {slot.title} {_shown(slot, rps, verdict)}"
        self._update(advance=1)

    def trial_failed(self, slot: Slot, why: str) -> None:
        """Print the failure above the progress line, where it stays."""
        if self._progress is not None:
            self._progress.console.print(f"block {slot.block}  {slot.title}  failed: {why}", markup=False)
        self._update(advance=1)

    def trial_again(self, slot: Slot, why: str) -> None:
        """Print the reason above the progress line."""
        if self._progress is not None:
            self._progress.console.print(f"block {slot.block}  {slot.title}  is tried again: {why}", markup=False)

    def taken_up(self, over: int) -> None:
        """Count on from those."""
        self._update(advance=over)

    def _update(self, text: str | None = None, advance: float = 0) -> None:
        if self._progress is None or self._task is None:
            return
        if text is None:
            self._progress.update(self._task, advance=advance)
        else:
            self._progress.update(self._task, description=text + self._last, advance=advance)


def _shown(slot: Slot, rps: float | None, verdict: str) -> str:
    """A rate, and what doubts it; of one that is there for its profile nobody takes a rate."""
    doubted = verdict != "valid" and slot.kind != "profile"
    return units.requests_per_s(rps) + (f" ({verdict})" if doubted else "")


def display(plan: RunPlan, *, quiet: bool) -> Silent:
    """What fits: nothing, a live line, or plain lines."""
    if quiet:
        return Silent()
    return Live(plan) if sys.stderr.isatty() else Plain(plan)
