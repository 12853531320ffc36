"""Live display of a run on a terminal: cells by blocks with verdicts, running trials, elapsed and remaining time."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from rich.console import Group, RenderableType
from rich.live import Live as RichLive
from rich.text import Text

from benchkit import units
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
"""Mark and style of a trial by its state; a key below the matrix names them, as not everybody sees colours."""

SAMPLE_INTERVAL_S = 1.0
LINES_WITHOUT_MATRIX = 7
"""Lines that the display has beside the matrix: heading, key, one running trial, last trial."""
RUNNING_SHARE = 1 / 4
"""Share of the lines that running trials may take."""
_GENERATORS = ("generator-", "reducer-")

Sampled = Mapping[str, Mapping[str, tuple[int, float]]]
"""Counters by service and metric, each with its time in nanoseconds."""


@dataclass
class RunningTrial:
    """The trial that a testbed runs."""

    planned_trial: PlannedTrial
    activity: str = ""
    """CPUs and rate at present; empty before the first sample."""

    def line(self, testbed: str | None) -> str:
        """Return the trial as a line, with its testbed where there are several."""
        trial = self.planned_trial
        place = "" if testbed is None else f"testbed {testbed}, "
        kind = "" if trial.kind == "measure" else f" ({trial.kind})"
        return f"{place}block {trial.block}, {trial.cell_id}{kind}" + (f": {self.activity}" if self.activity else "")


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
    running: dict[str | None, RunningTrial] = field(default_factory=dict)
    """Running trials by testbed, the latest at the end; the key is None where all hosts are one testbed."""
    last: str = ""
    elapsed_s: float = 0.0
    remaining_s: float | None = None

    def draw(self, width: int, height: int) -> RenderableType:
        """Return the picture as text of at most this width and about this height."""
        remaining = "" if self.remaining_s is None else f", about {units.duration(self.remaining_s)} remaining"
        times = f"{units.duration(self.elapsed_s)} elapsed{remaining}"
        running = self._running_lines(max(1, int(height * RUNNING_SHARE)))
        lines = [
            Text(f"{self.title}  {len(self.finished)}/{self.total} trials, {times}", "bold"),
            *self._matrix(width, max(3, height - LINES_WITHOUT_MATRIX - (len(running) - 1))),
            self._key(),
            *running,
            Text(self.last, "dim"),
        ]
        for line in lines:
            line.truncate(width, overflow="ellipsis")
        return Group(*lines)

    def _matrix(self, width: int, rows: int) -> list[Text]:
        """Return one line per cell; if not all cells and blocks fit, those around the latest trial."""
        columns = min(self.blocks, max(1, width // 2))
        name_width = min(max(map(len, self.cells), default=0), width - columns - 2)
        latest = next(reversed([each.planned_trial for each in self.running.values()]), None)
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

    def _running_lines(self, most: int) -> list[Text]:
        """Return at most this many lines of running trials, in the order of their testbeds; without any, the stage."""
        running = sorted(self.running.items(), key=lambda item: item[0] or "")
        lines = [Text(each.line(testbed)) for testbed, each in running]
        if len(lines) > most:
            lines[most - 1 :] = [Text(f"and {units.counted(len(lines) - most + 1, 'running trial')} more", "dim")]
        return lines or [Text(self.stage)]


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
        self.picture.running, self.picture.stage = {}, ""
        self._display.stop()

    def print_line(self, text: str) -> None:
        """Print the text above the matrix."""
        self._console.print(text, markup=False)

    def notify(self, text: str) -> None:
        """Show the stage where no trial runs."""
        self.picture.stage = text

    def trial_started(self, planned_trial: PlannedTrial, testbed: str | None) -> None:
        """Mark the trial as running; time counts from the first one, as building and deploying happen once."""
        self._began = time.monotonic() if self._began is None else self._began
        others = {name: each for name, each in self.picture.running.items() if name != testbed}
        self.picture.running, self.picture.stage = {**others, testbed: RunningTrial(planned_trial)}, ""
        self.picture.marks[planned_trial.cell_id, planned_trial.block] = "running"

    def trial_ended(self, planned_trial: PlannedTrial, rps: float | None, verdict: str, checks: Sequence[str]) -> None:
        """Mark the trial with its verdict."""
        self._finish(planned_trial, verdict, rate_with_verdict(planned_trial, rps, verdict, checks))

    def trial_failed(self, planned_trial: PlannedTrial, reason: str | None) -> None:
        """Mark the trial as failed, and print the reason above the matrix, where it stays."""
        super().trial_failed(planned_trial, reason)
        self._finish(planned_trial, "failed", "failed")

    def run_resumed(self, finished: Mapping[PlannedTrial, str]) -> None:
        """Mark the trials that were finished before the run was resumed."""
        for planned_trial, verdict in finished.items():
            self._mark(planned_trial, verdict)

    def block_added(self, trials: Sequence[PlannedTrial], lost: int) -> None:
        """Add a column for the block, and print the reason above the matrix."""
        super().block_added(trials, lost)
        self.picture.blocks = max(self.picture.blocks, trials[0].block)
        self.picture.total += len(trials)

    def block_interrupted(self, block: int) -> None:
        """Remove the marks of the block, and print the reason above the matrix."""
        super().block_interrupted(block)
        picture = self.picture
        picture.marks = {(cell, of): mark for (cell, of), mark in picture.marks.items() if of != block}
        picture.finished = without_block(picture.finished, block)

    def _finish(self, planned_trial: PlannedTrial, mark: str, result: str) -> None:
        self._mark(planned_trial, mark)
        running = self.picture.running
        self.picture.running = {name: each for name, each in running.items() if each.planned_trial != planned_trial}
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
        """Sample the counters of the hosts that run a trial, once a second."""
        samplers: dict[str | None, TestbedSampler] = {}
        while not self._ended.wait(SAMPLE_INTERVAL_S):
            for testbed, running in self.picture.running.items():
                if testbed not in samplers:
                    samplers[testbed] = TestbedSampler(self._plan, self._hosts.of_testbed(testbed))
                running.activity = samplers[testbed].activity(running.planned_trial)


class TestbedSampler:
    """Counters of the hosts of one testbed; two samples show what a trial does."""

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
                after |= host.telemetry.latest()
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

    def display(plan: RunPlan, hosts: Hosts, _folder: RunFolder) -> SilentProgress:
        return LiveProgress(plan, hosts) if sys.stderr.isatty() and not shows_logs() else PlainProgress(plan)

    return SilentProgress() if quiet else DelayedDisplay(display)
