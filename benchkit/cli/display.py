"""Display of a run on stderr: a line for each trial, with its result and the time that remains."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from benchkit import units
from benchkit.cli.console import say
from benchkit.models.design import is_held
from benchkit.run.events import (
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
    from benchkit.store.run_folder import RunFolder

Position = tuple[int, int]
"""Block of a trial, and its position in the block: the same when it is repeated."""


class RunDisplay:
    """Display of the events of one run; with `quiet` it shows nothing.

    With `after_block`, it prints the text of that function after each block, in place of the lines of trials.
    """

    def __init__(self, *, quiet: bool = False, after_block: Callable[[RunFolder], str] | None = None) -> None:
        self.folder: RunFolder | None = None
        """The folder of the run; None before it is opened."""
        self._is_quiet, self._after_block = quiet, after_block
        self._planned: frozenset[Position] = frozenset()
        self._ended: set[Position] = set()
        self._began_s: float | None = None
        self._ended_here = 0

    def show(self, event: Event) -> None:
        """Show an event of the run."""
        if isinstance(event, Opened):
            self.folder = event.folder
        if self._is_quiet:
            return
        match event:
            case Planning(cells):
                say(f"planning {units.counted(cells, 'cell')}")
            case Opened(plan):
                self._planned = frozenset(map(position_of, plan.planned_trials))
                for sentence in describe_connections(plan):
                    say(sentence)
            case Notice(text):
                say(text)
            case Resumed(finished):
                self._ended.update(map(position_of, finished))
            case BlockRepeated(block):
                self._ended = {position for position in self._ended if position[0] != block}
                say(f"block {block} was interrupted by a pause and is repeated")
            case _:
                self._show_trial(event)

    def _show_trial(self, event: TrialBegun | TrialJudged | TrialWithoutResult | TrialRetried) -> None:
        match event:
            case TrialBegun():
                self._began_s = time.monotonic() if self._began_s is None else self._began_s  # deploying happens once
            case TrialJudged(trial, rps, verdict, checks):
                result = units.requests_per_s(rps)
                if verdict != "valid" and trial.kind not in {"profile", "trace"}:  # those are not judged
                    result += f" ({verdict}{': ' if checks else ''}{', '.join(checks)})"
                self._end(trial, result)
            case TrialWithoutResult(trial, reason):
                self._end(trial, "failed", reason)
            case TrialRetried(trial, reason, pause_s):
                retrying = f"retrying in {pause_s:g} s" if pause_s else "retrying"
                say(f"block {trial.block}  {trial.title}  {retrying}: {reason}")

    def _end(self, trial: PlannedTrial, result: str, reason: str | None = None) -> None:
        self._ended.add(position_of(trial))
        self._ended_here += 1
        text = f"block {trial.block}  {trial.title}  {result}"
        if self._after_block is None:
            why = "" if reason is None else f": {reason}"
            say(f"[{len(self._ended)}/{len(self._planned)}] {text}  ({self._times}){why}")
            return
        if reason is not None:
            say(f"{text}: {reason}")
        if trial.block not in {block for block, _ in self._planned - self._ended} and self.folder is not None:
            say(f"block {trial.block}: {self._after_block(self.folder)}")

    @property
    def _times(self) -> str:
        """Elapsed and remaining time, after a trial has ended."""
        elapsed_s = 0.0 if self._began_s is None else time.monotonic() - self._began_s
        remaining_s = elapsed_s / self._ended_here * (len(self._planned) - len(self._ended))
        return f"{units.duration(elapsed_s)} elapsed, about {units.duration(remaining_s)} remaining"


def position_of(trial: PlannedTrial) -> Position:
    """Return the block and the position of a trial."""
    return trial.block, trial.position


def describe_connections(plan: RunPlan) -> Iterator[str]:
    """Yield a sentence for each external server: which host connects to which address."""
    for cell in plan.cells:
        if is_held(cell.cell_id):
            continue  # the cell at full speed has the same servers
        hosts = ", ".join(dict.fromkeys(generator.host for generator in cell.generators))
        for server in cell.spec.external:
            own = " on its own loopback interface" if server.endpoint.is_loopback else ""
            yield f"{server.url}: host {hosts} connects to it{own}"
