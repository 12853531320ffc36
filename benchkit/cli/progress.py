"""Progress on stderr, of a run and of work on many runs.

A run has a live matrix on a terminal (`benchkit.cli.live_matrix`) and plain lines elsewhere; many runs have a bar.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

from benchkit import units
from benchkit.cli.console import announced_if_slow, say
from benchkit.run.events import RunObserver

if TYPE_CHECKING:
    from benchkit.hosts.connections import Hosts
    from benchkit.plan.model import RunPlan
    from benchkit.scenario.trial_order import PlannedTrial
    from benchkit.store.run_folder import RunFolder


Position = tuple[int, int]
"""Block of a trial, and its position in the block."""
Positions = frozenset[Position]


class SilentProgress(RunObserver):
    """Display that shows nothing (`-q`), and base of the others: lines that stay go to `print_line`."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def print_line(self, text: str) -> None:
        """Print a line that stays."""

    def trial_failed(self, planned_trial: PlannedTrial, reason: str | None) -> None:
        """Print why a trial failed; `reason` is None if it is the same as an earlier trial's."""
        if reason is not None:
            self.print_line(f"block {planned_trial.block}  {planned_trial.title}  failed: {reason}")

    def trial_retrying(self, planned_trial: PlannedTrial, reason: str, pause_s: float) -> None:
        """Print why a trial failed and is repeated."""
        retrying = f"retrying in {pause_s:g} s" if pause_s else "retrying"
        self.print_line(f"block {planned_trial.block}  {planned_trial.title}  {retrying}: {reason}")

    def block_added(self, trials: Sequence[PlannedTrial], lost: int) -> None:
        """Print that a block was added."""
        self.print_line(f"block {trials[0].block} is added, as invalid trials lost block {lost}")

    def block_interrupted(self, block: int) -> None:
        """Print that a block was interrupted by a pause."""
        self.print_line(f"block {block} was interrupted by a pause and is repeated")


class DelayedDisplay(SilentProgress):
    """Progress of a run: a line if planning takes a while, then a display from its opening to its end."""

    def __init__(
        self, make_display: Callable[[RunPlan, Hosts, RunFolder], SilentProgress], *, quiet: bool = False
    ) -> None:
        self._make_display = make_display
        self._is_quiet = quiet
        self._planning = contextlib.ExitStack()
        self._display = contextlib.ExitStack()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._planning.close()
        self._display.__exit__(kind, error, trace)

    def notify(self, text: str) -> None:
        """Print the stage of the preparation."""
        if not self._is_quiet:
            say(text)

    def planning(self, cells: int) -> None:
        """Print the number of cells if their plan takes longer than a moment."""
        self._planning.enter_context(
            announced_if_slow(f"planning {units.counted(cells, 'cell')}", quiet=self._is_quiet)
        )

    def run_opened(self, plan: RunPlan, hosts: Hosts, folder: RunFolder) -> SilentProgress:
        """Return the display of the run."""
        self._planning.close()
        return self._display.enter_context(self._make_display(plan, hosts, folder))


class PlainProgress(SilentProgress):
    """Display with one line per finished trial."""

    def __init__(self, plan: RunPlan) -> None:
        self._total = len(plan.planned_trials)
        self._done = 0
        self._over: Positions = frozenset()
        self._began = time.monotonic()

    def run_resumed(self, over: Mapping[PlannedTrial, str]) -> None:
        """Count the trials that were finished before."""
        self._over = frozenset(map(position_of, over))

    def block_added(self, trials: Sequence[PlannedTrial], lost: int) -> None:
        """Print that a block was added, and count its trials."""
        self._total += len(trials)
        super().block_added(trials, lost)

    def block_interrupted(self, block: int) -> None:
        """Print that a block was interrupted, and no longer count its trials."""
        self._over = without_block(self._over, block)
        super().block_interrupted(block)

    def trial_started(self, planned_trial: PlannedTrial, testbed: str | None) -> None:  # noqa: ARG002 - the interface's
        """Start the clock with the first trial: building and deploying happen once."""
        if self._done == 0:
            self._began = time.monotonic()

    def print_line(self, text: str) -> None:
        """Print the text on stderr."""
        print(text, file=sys.stderr, flush=True)

    def notify(self, text: str) -> None:
        """Print the stage."""
        self.print_line(text)

    def trial_ended(self, planned_trial: PlannedTrial, rps: float | None, verdict: str, checks: Sequence[str]) -> None:
        """Print block, cell, rate and remaining time."""
        self._count(planned_trial)
        self._line(planned_trial, rate_with_verdict(planned_trial, rps, verdict, checks))

    def trial_failed(self, planned_trial: PlannedTrial, reason: str | None) -> None:
        """Print block, cell and the reason."""
        self._count(planned_trial)
        if reason is not None:
            self._line(planned_trial, "failed", f": {reason}")

    def _count(self, planned_trial: PlannedTrial) -> None:
        self._done += 1
        self._over |= {position_of(planned_trial)}

    def _line(self, planned_trial: PlannedTrial, outcome: str, reason: str = "") -> None:
        """Print a line; a reason, which may have several lines, stands after the times."""
        total, over = self._total, len(self._over)
        elapsed = time.monotonic() - self._began
        remaining = max(0.0, elapsed / self._done * (total - over))
        self.print_line(
            f"[{over}/{total}] block {planned_trial.block}  {planned_trial.title}  {outcome}"
            f"  ({units.duration(elapsed)} elapsed, about {units.duration(remaining)} remaining){reason}"
        )


def position_of(planned_trial: PlannedTrial) -> Position:
    """Return the block and position of a trial, which are the same when it is repeated."""
    return planned_trial.block, planned_trial.position


def without_block(over: Positions, block: int) -> Positions:
    """Return the finished positions in all other blocks than this one, which is repeated."""
    return frozenset(place for place in over if place[0] != block)


def rate_with_verdict(planned_trial: PlannedTrial, rps: float | None, verdict: str, checks: Sequence[str]) -> str:
    """Return the rate of a trial, with verdict and checks unless valid; profiled and traced trials are not judged."""
    if verdict == "valid" or planned_trial.kind in {"profile", "trace"}:
        return units.requests_per_s(rps)
    return f"{units.requests_per_s(rps)} ({verdict}{': ' if checks else ''}{', '.join(checks)})"
