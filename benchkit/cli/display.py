"""Display of a run on stderr: a live picture of its trials on a terminal, lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.console import Group
from rich.live import Live
from rich.text import Text

from benchkit import units
from benchkit.cli.console import announced_if_slow, shows_logs
from benchkit.cli.terminal import Terminal
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

MARKS = {
    "valid": ("\N{CHECK MARK}", "green"),
    "suspect": ("~", "yellow"),
    "invalid": ("\N{MULTIPLICATION X}", "red"),
    "failed": ("!", "bold red"),
    "running": ("\N{BLACK RIGHT-POINTING SMALL TRIANGLE}", "cyan"),
    "pending": ("\N{MIDDLE DOT}", "dim"),
}
"""Mark and style of a trial by its state; a key below the rows names them, as not everybody sees colours."""

OTHER_LINES = 6
"""Lines of the picture beside its rows: heading, hidden cells, key, stage and last result."""
AHEAD = 5
"""Marks of trials still to run that stay in the picture where a row has not room for all."""

Position = tuple[int, int]
"""Block of a trial, and its position in the block: the same when it is repeated."""


class RunDisplay:
    """Display of one run, which shows its events; `quiet`: nothing.

    On a terminal it draws a row for each cell with the marks of its trials. Elsewhere it prints a line for each trial.
    With `after_block`, it prints what that function returns after each block, in place of the lines of trials.
    """

    def __init__(self, *, quiet: bool = False, after_block: Callable[[RunFolder], str] | None = None) -> None:
        self.folder: RunFolder | None = None
        """The folder of the run; None before it is opened."""
        self._is_quiet, self._after_block = quiet, after_block
        self._open = ExitStack()
        self._console = Terminal("stderr")
        self._is_live = self._console.is_terminal and not shows_logs()
        self._title, self._stage, self._last = "", "", ""
        self._rows: dict[str, list[Position]] = {}
        self._marks: dict[Position, str] = {}
        self._running: PlannedTrial | None = None
        self._began_s: float | None = None
        self._ended_here = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the last picture on the terminal."""
        self._stage, self._running = "", None
        self._open.close()

    def show(self, event: Event) -> None:
        """Show an event of the run."""
        if isinstance(event, Opened):
            self.folder = event.folder
        if self._is_quiet:
            return
        match event:
            case Planning(cells):
                self._open.enter_context(announced_if_slow(f"planning {units.counted(cells, 'cell')}"))
            case Opened(plan):
                self._start(plan)
            case Notice(text):
                self._stage = text
                if not self._is_live or self.folder is None:
                    self._print(text)
            case Resumed(finished):
                self._marks |= {position_of(trial): verdict for trial, verdict in finished.items()}
            case BlockRepeated(block):
                self._marks = {position: mark for position, mark in self._marks.items() if position[0] != block}
                self._print(f"block {block} was interrupted by a pause and is repeated")
            case _:
                self._show_trial(event)

    def _show_trial(self, event: TrialBegun | TrialJudged | TrialWithoutResult | TrialRetried) -> None:
        match event:
            case TrialBegun(trial):
                self._began_s = time.monotonic() if self._began_s is None else self._began_s  # deploying happens once
                self._running, self._stage = trial, ""
            case TrialJudged(trial, rps, verdict, checks):
                result = units.requests_per_s(rps)
                if verdict != "valid" and trial.kind not in {"profile", "trace"}:  # those are not judged
                    result += f" ({verdict}{': ' if checks else ''}{', '.join(checks)})"
                self._end(trial, verdict, result)
            case TrialWithoutResult(trial, reason):
                self._end(trial, "failed", "failed", reason)
            case TrialRetried(trial, reason, pause_s):
                retrying = f"retrying in {pause_s:g} s" if pause_s else "retrying"
                self._print(f"block {trial.block}  {trial.title}  {retrying}: {reason}")

    def _start(self, plan: RunPlan) -> None:
        self._open.close()
        self._title = plan.experiment.scenario.name
        self._rows = {cell.cell_id: [] for cell in plan.cells if cell.unsupported is None}
        for trial in plan.planned_trials:
            self._rows.setdefault(trial.cell_id, []).append(position_of(trial))
        for sentence in describe_connections(plan):
            self._print(sentence)
        if self._is_live:
            self._open.enter_context(Live(console=self._console, get_renderable=self._draw, refresh_per_second=4))

    def _end(self, trial: PlannedTrial, mark: str, result: str, reason: str | None = None) -> None:
        self._marks[position_of(trial)] = mark
        self._ended_here += 1
        self._running, self._last = None, f"last: block {trial.block}, {trial.cell_id}: {result}"
        if reason is not None and (self._is_live or self._after_block is not None):
            self._print(f"block {trial.block}  {trial.title}  {result}: {reason}")
        if self._after_block is not None:
            left = Counter(block for row in self._rows.values() for block, _ in row)
            left.subtract(block for block, _ in self._marks)
            if not left[trial.block] and self.folder is not None:
                self._print(f"block {trial.block}: {self._after_block(self.folder)}")
        elif not self._is_live and (mark != "failed" or reason is not None):
            why = "" if reason is None else f": {reason}"
            self._print(f"[{self._done}] block {trial.block}  {trial.title}  {result}  ({self._times}){why}")

    def _print(self, text: str) -> None:
        if self._is_live:
            self._console.print(text, markup=False, soft_wrap=True)  # above the picture
        else:
            print(text, file=sys.stderr, flush=True)

    @property
    def _done(self) -> str:
        return f"{len(self._marks)}/{sum(map(len, self._rows.values()))}"

    @property
    def _times(self) -> str:
        elapsed_s = 0.0 if self._began_s is None else time.monotonic() - self._began_s
        text = f"{units.duration(elapsed_s)} elapsed"
        if not self._ended_here:
            return text
        unfinished = sum(map(len, self._rows.values())) - len(self._marks)
        return f"{text}, about {units.duration(elapsed_s / self._ended_here * unfinished)} remaining"

    def _draw(self) -> Group:
        width, most = self._console.width, max(3, self._console.height - OTHER_LINES)
        cells, running = list(self._rows), self._running
        at = cells.index(running.cell_id) if running is not None else 0
        first = max(0, min(at - most // 2, len(cells) - most))
        shown = cells[first : first + most]
        if running is not None:
            kind = "" if running.kind == "measure" else f" ({running.kind})"
            self._stage = f"block {running.block}, {running.cell_id}{kind}"
        key = Text("", "dim")
        for name, (mark, style) in MARKS.items():
            key.append(mark, style).append(f" {name}  ")
        lines = [Text(f"{self._title}  {self._done} trials, {self._times}", "bold")]
        lines += [self._row(cell, width) for cell in shown]
        if hidden := len(cells) - len(shown):
            lines.append(Text(f"and {units.counted(hidden, 'cell')} more", "dim"))
        lines += [key, Text(self._stage), Text(self._last, "dim")]
        for line in lines:
            line.truncate(width, overflow="ellipsis")
        return Group(*lines)

    def _row(self, cell_id: str, width: int) -> Text:
        """Return the name of a cell and the marks of its trials, the next ones at the end if they do not all fit."""
        row = Text(cell_id)
        row.truncate(min(max(map(len, self._rows)), width // 2), overflow="ellipsis", pad=True)
        row.append("  ")
        positions, columns = self._rows[cell_id], width - len(row)
        ended = sum(position in self._marks for position in positions)
        end = max(columns, min(ended + AHEAD, len(positions)))
        for position in positions[end - columns : end]:
            is_running = self._running is not None and position == position_of(self._running)
            row.append(*MARKS.get("running" if is_running else self._marks.get(position, "pending"), MARKS["valid"]))
        return row


def position_of(trial: PlannedTrial) -> Position:
    """Return the block and the position of a trial."""
    return trial.block, trial.position


def describe_connections(plan: RunPlan) -> Iterator[str]:
    """Yield a sentence for each external server: which host connects to which address."""
    for cell in plan.cells:
        hosts = ", ".join(dict.fromkeys(generator.host for generator in cell.generators))
        for server in cell.spec.external:
            own = " on its own loopback interface" if server.endpoint.is_loopback else ""
            yield f"{server.url}: host {hosts} connects to it{own}"
