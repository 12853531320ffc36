"""Live display of a run on a terminal: cells by blocks with verdicts, the running trial, elapsed and remaining time."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from rich.console import Group, RenderableType
from rich.live import Live as RichLive
from rich.text import Text

from benchkit import units
from benchkit.agent.telemetry import Telemetry
from benchkit.cli.console import shows_logs
from benchkit.cli.progress import (
    DelayedDisplay,
    PlainProgress,
    Positions,
    SilentProgress,
    position_of,
    rate_with_verdict,
    without_block,
)
from benchkit.cli.terminal import Terminal
from benchkit.errors import HostError
from benchkit.hosts.connections import Hosts
from benchkit.plan.model import RunPlan
from benchkit.run.events import (
    BlockAppended,
    BlockRepeated,
    Event,
    Notice,
    Opened,
    Resumed,
    TrialBegun,
    TrialJudged,
    TrialWithoutResult,
)
from benchkit.scenario.trial_order import PlannedTrial

MARKS = {
    "valid": ("\N{CHECK MARK}", "green"),
    "suspect": ("~", "yellow"),
    "invalid": ("\N{MULTIPLICATION X}", "red"),
    "failed": ("!", "bold red"),
    "running": ("\N{BLACK RIGHT-POINTING SMALL TRIANGLE}", "cyan"),
    "pending": ("\N{MIDDLE DOT}", "dim"),
}
"""Mark and style of a trial by its state; a key below the matrix names them, as not everybody sees colours."""

SAMPLE_INTERVAL_S = 1.0
LINES_WITHOUT_MATRIX = 7
"""Lines that the display has beside the matrix: heading, key, running trial, last trial."""
_GENERATORS = ("generator-", "reducer-")

Sampled = Mapping[str, Mapping[str, tuple[int, float]]]
"""Counters by service and metric, each with its time in nanoseconds."""


@dataclass
class RunningTrial:
    """The trial that runs."""

    planned_trial: PlannedTrial
    activity: str = ""
    """CPUs and rate at present; empty before the first sample."""

    @property
    def line(self) -> str:
        """The trial as a line."""
        trial = self.planned_trial
        kind = "" if trial.kind == "measure" else f" ({trial.kind})"
        return f"block {trial.block}, {trial.cell_id}{kind}" + (f": {self.activity}" if self.activity else "")


@dataclass
class RunMatrix:
    """State of the display, filled by `LiveProgress` and drawn for a width and height."""

    title: str
    cells: tuple[str, ...]
    blocks: int
    total: int
    finished: Positions = frozenset()
    """Positions of the finished trials."""
    marks: dict[tuple[str, int], str] = field(default_factory=dict)
    stage: str = ""
    running: RunningTrial | None = None
    last: str = ""
    elapsed_s: float = 0.0
    remaining_s: float | None = None

    def draw(self, width: int, height: int) -> RenderableType:
        """Return the picture as text of at most this width and about this height."""
        remaining = "" if self.remaining_s is None else f", about {units.duration(self.remaining_s)} remaining"
        times = f"{units.duration(self.elapsed_s)} elapsed{remaining}"
        lines = [
            Text(f"{self.title}  {len(self.finished)}/{self.total} trials, {times}", "bold"),
            *self._matrix(width, max(3, height - LINES_WITHOUT_MATRIX)),
            self._key(),
            Text(self.stage if self.running is None else self.running.line),
            Text(self.last, "dim"),
        ]
        for line in lines:
            line.truncate(width, overflow="ellipsis")
        return Group(*lines)

    def _matrix(self, width: int, rows: int) -> list[Text]:
        """Return one line per cell; if not all cells and blocks fit, those around the latest trial."""
        columns = min(self.blocks, max(1, width // 2))
        name_width = min(max(map(len, self.cells), default=0), width - columns - 2)
        latest = None if self.running is None else self.running.planned_trial
        at = self.cells.index(latest.cell_id) if latest and latest.cell_id in self.cells else 0
        first = max(0, min(at - rows // 2, len(self.cells) - rows))
        block = latest.block if latest else 1
        start = max(1, min(block - columns // 2, self.blocks - columns + 1))
        lines = [
            self._row(cell, name_width, range(start, start + columns)) for cell in self.cells[first : first + rows]
        ]
        if (hidden := len(self.cells) - len(lines)) > 0:
            lines.append(Text(f"and {units.counted(hidden, 'cell')} more", "dim"))
        return lines

    def _row(self, cell: str, name_width: int, blocks: range) -> Text:
        name = cell if len(cell) <= name_width else cell[: name_width - 1] + "\N{HORIZONTAL ELLIPSIS}"
        row = Text(f"{name:<{name_width}}  ")
        for block in blocks:
            row.append(*MARKS[self.marks.get((cell, block), "pending")])
        return row

    def _key(self) -> Text:
        key = Text("", "dim")
        for name, (mark, style) in MARKS.items():
            key.append(mark, style)
            key.append(f" {name}  ")
        return key


def activity(before: Sampled, after: Sampled, servers: Collection[str], rps: float | None) -> str:
    """Return the CPUs that the services `servers` and the generators used between two samples, and a request rate."""
    used = {service: growth_per_s(before, after, service, "cpu_s_total") for service in after}
    of_servers = [rate for service, rate in used.items() if rate is not None and service in servers]
    of_generators = [rate for service, rate in used.items() if rate is not None and service.startswith(_GENERATORS)]
    parts = [
        f"server {sum(of_servers):.2f} CPUs" if of_servers else "",
        f"generator {sum(of_generators):.2f} CPUs" if of_generators else "",
        "" if rps is None else units.requests_per_s(rps),
    ]
    return ", ".join(filter(None, parts))


def generators_run(before: Sampled, after: Sampled) -> bool:
    """Return whether a generator used CPU time between two samples."""
    return any(
        service.startswith(_GENERATORS) and growth_per_s(before, after, service, "cpu_s_total") for service in after
    )


def growth_per_s(before: Sampled, after: Sampled, service: str, metric: str) -> float | None:
    """Return a counter's growth per second; None where a sample lacks it or it was reset."""
    was, is_now = before.get(service, {}).get(metric), after.get(service, {}).get(metric)
    if was is None or is_now is None or is_now[0] <= was[0] or is_now[1] < was[1]:
        return None
    return (is_now[1] - was[1]) / (is_now[0] - was[0]) * 1e9


class LiveProgress(SilentProgress):
    """Live display of a run, redrawn as it changes."""

    def __init__(self, plan: RunPlan, hosts: Hosts) -> None:
        self._plan = plan
        self._hosts = hosts
        of_trials = dict.fromkeys(trial.cell_id for trial in plan.planned_trials)
        in_order = [cell.cell_id for cell in plan.cells if cell.cell_id in of_trials]
        self.picture = RunMatrix(
            title=plan.experiment.scenario.name,
            cells=tuple(dict.fromkeys((*in_order, *of_trials))),
            blocks=max((trial.block for trial in plan.planned_trials), default=1),
            total=len(plan.planned_trials),
        )
        self._began: float | None = None
        self._finished_here = 0
        self._ended = threading.Event()
        self._console = Terminal("stderr")
        self._display = RichLive(console=self._console, get_renderable=self._draw, refresh_per_second=4)
        self._sampler = threading.Thread(target=self._sample, name="live", daemon=True)

    def __enter__(self) -> Self:
        self._display.start()
        self._sampler.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the display and leave its last picture on the terminal."""
        self._ended.set()
        self._sampler.join()
        self.picture.running, self.picture.stage = None, ""
        self._display.stop()

    def print_line(self, text: str) -> None:
        """Print the text above the matrix."""
        self._console.print(text, markup=False)

    def show(self, event: Event) -> None:
        """Change the picture, and print what went wrong above the matrix, where it stays."""
        picture = self.picture
        match event:
            case Notice(text):
                picture.stage = text
            case Resumed(finished):
                for trial, verdict in finished.items():
                    self._mark(trial, verdict)
            case TrialBegun(trial):  # time counts from the first one, as building and deploying happen once
                self._began = time.monotonic() if self._began is None else self._began
                picture.running, picture.stage = RunningTrial(trial), ""
                picture.marks[trial.cell_id, trial.block] = "running"
            case TrialJudged(trial, _, verdict):
                self._finish(trial, verdict, rate_with_verdict(event))
            case TrialWithoutResult(trial):
                super().show(event)
                self._finish(trial, "failed", "failed")
            case BlockAppended(trials):
                super().show(event)
                picture.blocks = max(picture.blocks, trials[0].block)
                picture.total += len(trials)
            case BlockRepeated(block):
                super().show(event)
                picture.marks = {(cell, of): mark for (cell, of), mark in picture.marks.items() if of != block}
                picture.finished = without_block(picture.finished, block)
            case _:
                super().show(event)

    def _finish(self, planned_trial: PlannedTrial, mark: str, result: str) -> None:
        self._mark(planned_trial, mark)
        running = self.picture.running
        self.picture.running = None if running is not None and running.planned_trial == planned_trial else running
        self._finished_here += 1
        self.picture.last = f"last: block {planned_trial.block}, {planned_trial.cell_id}: {result}"

    def _mark(self, planned_trial: PlannedTrial, mark: str) -> None:
        self.picture.marks[planned_trial.cell_id, planned_trial.block] = mark if mark in MARKS else "valid"
        self.picture.finished |= {position_of(planned_trial)}

    def _draw(self) -> RenderableType:
        picture = self.picture
        if self._began is not None:
            picture.elapsed_s = time.monotonic() - self._began
            if self._finished_here:
                unfinished = picture.total - len(picture.finished)
                picture.remaining_s = max(0.0, picture.elapsed_s / self._finished_here * unfinished)
        return picture.draw(self._console.width, self._console.height)

    def _sample(self) -> None:
        """Sample the counters of the hosts while a trial runs, once a second."""
        sampler = HostSampler(self._plan, self._hosts)
        while not self._ended.wait(SAMPLE_INTERVAL_S):
            if (running := self.picture.running) is not None:
                running.activity = sampler.activity(running.planned_trial)


class HostSampler:
    """Counters of the hosts; two samples show what a trial does."""

    def __init__(self, plan: RunPlan, hosts: Hosts) -> None:
        self._plan = plan
        self._hosts = hosts
        self._before: Sampled = {}
        self._loaded: PlannedTrial | None = None

    def activity(self, planned_trial: PlannedTrial) -> str:
        """Sample the hosts, and return what a trial has done since the last sample; skip silent hosts."""
        after: dict[str, Mapping[str, tuple[int, float]]] = {}
        for host in self._hosts:
            with contextlib.suppress(HostError):  # the run itself reports a lost host
                after |= host.call(Telemetry.latest)
        cell = self._plan.cell_of(planned_trial)
        rps = growth_per_s(self._before, after, cell.spec.entry, "requests_total")
        if rps and generators_run(self._before, after):
            self._loaded = planned_trial
        # Before the load begins, the only requests are probes: their rate is no result.
        shown_rps = rps if self._loaded == planned_trial else None
        text = activity(self._before, after, {service.name for service in cell.services}, shown_rps)
        self._before = after
        return text


def progress_of_run(*, quiet: bool) -> SilentProgress:
    """Return the display of a run: none if `quiet`, a live matrix on a terminal without logs, else plain lines."""

    def display(opened: Opened) -> SilentProgress:
        is_live = sys.stderr.isatty() and not shows_logs()
        return LiveProgress(opened.plan, opened.hosts) if is_live else PlainProgress(opened.plan)

    return SilentProgress() if quiet else DelayedDisplay(display)
