"""Progress on stderr, of a run and of work on many runs.

A run has a live matrix on a terminal (`benchkit.cli.live_matrix`) and plain lines elsewhere; many runs have a bar.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Self

from benchkit import units
from benchkit.cli.console import announced_if_slow, say
from benchkit.run.events import (
    BlockAppended,
    BlockRepeated,
    Event,
    Notice,
    Opened,
    Planning,
    Resumed,
    TrialBegun,
    TrialJudged,
    TrialRetried,
    TrialWithoutResult,
)

if TYPE_CHECKING:
    from benchkit.plan.model import RunPlan
    from benchkit.scenario.trial_order import PlannedTrial


Position = tuple[int, int]
"""Block of a trial, and its position in the block."""
Positions = frozenset[Position]


class SilentProgress:
    """Display that shows nothing (`-q`), and base of the others: lines that stay go to `print_line`."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def print_line(self, text: str) -> None:
        """Print a line that stays."""

    def show(self, event: Event) -> None:
        """Print what went wrong."""
        match event:
            case TrialWithoutResult(trial, str(reason)):
                self.print_line(f"block {trial.block}  {trial.title}  failed: {reason}")
            case TrialRetried(trial, reason, pause_s):
                retrying = f"retrying in {pause_s:g} s" if pause_s else "retrying"
                self.print_line(f"block {trial.block}  {trial.title}  {retrying}: {reason}")
            case BlockAppended(trials, lost):
                self.print_line(f"block {trials[0].block} is added, as invalid trials lost block {lost}")
            case BlockRepeated(block):
                self.print_line(f"block {block} was interrupted by a pause and is repeated")


class DelayedDisplay(SilentProgress):
    """Progress of a run: a line if planning takes a while, then a display from its opening to its end."""

    def __init__(self, make_display: Callable[[Opened], SilentProgress], *, quiet: bool = False) -> None:
        self._make_display = make_display
        self._is_quiet = quiet
        self._planning = contextlib.ExitStack()
        self._display = contextlib.ExitStack()
        self._shown: SilentProgress | None = None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._planning.close()
        self._display.__exit__(kind, error, trace)

    def show(self, event: Event) -> None:
        """Show what happens until the run is opened; then its display does."""
        match event:
            case Planning(cells):
                title = f"planning {units.counted(cells, 'cell')}"
                self._planning.enter_context(announced_if_slow(title, quiet=self._is_quiet))
            case Opened():
                self._planning.close()
                self._shown = self._display.enter_context(self._make_display(event))
            case _ if self._shown is not None:
                self._shown.show(event)
            case Notice(text) if not self._is_quiet:
                say(text)


class PlainProgress(SilentProgress):
    """Display with one line per finished trial."""

    def __init__(self, plan: RunPlan) -> None:
        self._total = len(plan.planned_trials)
        self._done = 0
        self._over: Positions = frozenset()
        self._began = time.monotonic()

    def print_line(self, text: str) -> None:
        """Print the text on stderr."""
        print(text, file=sys.stderr, flush=True)

    def show(self, event: Event) -> None:
        """Count the trials, and print each that ended with its cell, rate and the remaining time."""
        match event:
            case Notice(text):
                self.print_line(text)
            case Resumed(finished):
                self._over = frozenset(map(position_of, finished))
            case TrialBegun() if self._done == 0:  # building and deploying happen once
                self._began = time.monotonic()
            case TrialJudged(trial):
                self._count(trial)
                self._line(trial, rate_with_verdict(event))
            case TrialWithoutResult(trial, reason):
                self._count(trial)
                if reason is not None:
                    self._line(trial, "failed", f": {reason}")
            case _:
                if isinstance(event, BlockAppended):
                    self._total += len(event.trials)
                elif isinstance(event, BlockRepeated):
                    self._over = without_block(self._over, event.block)
                super().show(event)

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


def rate_with_verdict(event: TrialJudged) -> str:
    """Return the rate of a trial, with verdict and checks unless valid; profiled and traced trials are not judged."""
    rate = units.requests_per_s(event.rps)
    if event.verdict == "valid" or event.trial.kind in {"profile", "trace"}:
        return rate
    return f"{rate} ({event.verdict}{': ' if event.checks else ''}{', '.join(event.checks)})"
