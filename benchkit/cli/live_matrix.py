"""A run on a terminal: cells by blocks filling with verdicts, what the trial under way does, and the time it will take."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live as Display
from rich.text import Text

from benchkit import units
from benchkit.cli.progress import Places, Silent, place_of, shown, without
from benchkit.errors import HostError
from benchkit.hosts.connections import Hosts
from benchkit.run.plan.model import RunPlan
from benchkit.scenario.trial_order import PlannedTrial

MARKS = {
    "valid": ("\N{CHECK MARK}", "green"),
    "suspect": ("~", "yellow"),
    "invalid": ("\N{MULTIPLICATION X}", "red"),
    "failed": ("!", "bold red"),
    "running": ("\N{BLACK RIGHT-POINTING SMALL TRIANGLE}", "cyan"),
    "to come": ("\N{MIDDLE DOT}", "dim"),
}
"""What stands for a trial; said below the matrix, for colours are not seen by everybody."""

LOOK_S = 1.0
_ROWS_APART = 7
"""Lines beside the matrix: heading, key, what goes on."""
_GENERATORS = ("generator-", "reducer-")

Seen = Mapping[str, Mapping[str, tuple[int, float]]]
"""By service and metric: when (ns), and the counter."""


@dataclass
class Picture:
    """What is to be shown, apart from how: filled by the display, drawn for a width and a height."""

    title: str
    cells: tuple[str, ...]
    blocks: int
    total: int
    over: Places = frozenset()
    """The trials that are."""
    marks: dict[tuple[str, int], str] = field(default_factory=dict)
    stage: str = ""
    current: PlannedTrial | None = None
    now: str = ""
    last: str = ""
    gone_s: float = 0.0
    left_s: float | None = None

    def draw(self, width: int, height: int) -> RenderableType:
        """The picture as text of at most this width and about this height."""
        left = "" if self.left_s is None else f", about {units.duration(self.left_s)} left"
        lines = [
            Text(
                f"{self.title}  {len(self.over)}/{self.total} trials, {units.duration(self.gone_s)} gone{left}", "bold"
            ),
            *self._matrix(width, max(3, height - _ROWS_APART)),
            self._key(),
            Text(self._under_way()),
            Text(self.last, "dim"),
        ]
        for line in lines:
            line.truncate(width, overflow="ellipsis")
        return Group(*lines)

    def _matrix(self, width: int, rows: int) -> list[Text]:
        """A line a cell; where there are more cells or blocks than room, those around the trial under way."""
        columns = min(self.blocks, max(1, width // 2))
        name_width = min(max(map(len, self.cells), default=0), width - columns - 2)
        at = self.cells.index(self.current.cell_id) if self.current and self.current.cell_id in self.cells else 0
        first = max(0, min(at - rows // 2, len(self.cells) - rows))
        block = self.current.block if self.current else 1
        start = max(1, min(block - columns // 2, self.blocks - columns + 1))
        made = [self._row(cell, name_width, range(start, start + columns)) for cell in self.cells[first : first + rows]]
        if (hidden := len(self.cells) - len(made)) > 0:
            made.append(Text(f"and {units.counted(hidden, 'cell')} more", "dim"))
        return made

    def _row(self, cell: str, name_width: int, blocks: range) -> Text:
        name = cell if len(cell) <= name_width else cell[: name_width - 1] + "\N{HORIZONTAL ELLIPSIS}"
        row = Text(f"{name:<{name_width}}  ")
        for block in blocks:
            row.append(*MARKS[self.marks.get((cell, block), "to come")])
        return row

    def _key(self) -> Text:
        key = Text("", "dim")
        for name, (mark, style) in MARKS.items():
            key.append(mark, style)
            key.append(f" {name}  ")
        return key

    def _under_way(self) -> str:
        if self.current is None:
            return self.stage
        kind = "" if self.current.kind == "measure" else f" ({self.current.kind})"
        return f"block {self.current.block}, {self.current.cell_id}{kind}" + (f": {self.now}" if self.now else "")


def said_of(before: Seen, after: Seen, entry: str) -> str:
    """What services did between two looks: the servers' CPUs, the generators', and the rate of the service `entry`."""
    cpus: dict[bool, float] = {}
    for service in after:
        rate = _rate(before, after, service, "cpu_s_total")
        if rate is not None:
            generates = service.startswith(_GENERATORS)
            cpus[generates] = cpus.get(generates, 0.0) + rate
    served = _rate(before, after, entry, "requests_total")
    parts = [
        f"server {cpus[False]:.2f} CPUs" if False in cpus else "",
        f"generator {cpus[True]:.2f} CPUs" if True in cpus else "",
        "" if served is None else units.requests_per_s(served),
    ]
    return ", ".join(filter(None, parts))


def _rate(before: Seen, after: Seen, service: str, metric: str) -> float | None:
    """Growth per second; None where either look lacks the counter, or it went back."""
    was, is_now = before.get(service, {}).get(metric), after.get(service, {}).get(metric)
    if was is None or is_now is None or is_now[0] <= was[0] or is_now[1] < was[1]:
        return None
    return (is_now[1] - was[1]) / (is_now[0] - was[0]) * 1e9


class Live(Silent):
    """The picture of a run, drawn anew as it changes."""

    def __init__(self, plan: RunPlan, hosts: Hosts) -> None:
        """Show the trials of the plan, and what goes on on the hosts."""
        self._plan = plan
        self._hosts = hosts
        self.picture = Picture(
            title=plan.experiment.scenario.name,
            cells=tuple(
                dict.fromkeys(planned_trial.cell_id for planned_trial in sorted(plan.planned_trials, key=self._planned))
            ),
            blocks=max((planned_trial.block for planned_trial in plan.planned_trials), default=1),
            total=len(plan.planned_trials),
        )
        self._began: float | None = None
        self._own = 0
        self._ended = threading.Event()
        self._console = Console(stderr=True)
        self._display = Display(console=self._console, get_renderable=self._draw, refresh_per_second=4)
        self._looking = threading.Thread(target=self._look, name="live", daemon=True)

    def __enter__(self) -> Self:
        self._display.start()
        self._looking.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the last picture and the terminal as it was."""
        self._ended.set()
        self._looking.join()
        self.picture.current, self.picture.stage = None, ""
        self._display.stop()

    def notify(self, text: str) -> None:
        """Show the stage in the place of the trial."""
        self.picture.stage = text

    def trial_started(self, planned_trial: PlannedTrial) -> None:
        """Mark where the run is; time counts from the first trial on: building and deploying come once."""
        self._began = time.monotonic() if self._began is None else self._began
        self.picture.current, self.picture.now = planned_trial, ""
        self.picture.marks[planned_trial.cell_id, planned_trial.block] = "running"

    def trial_ended(self, planned_trial: PlannedTrial, rps: float | None, verdict: str) -> None:
        """Mark what it is worth."""
        self._over(planned_trial, verdict, shown(planned_trial, rps, verdict))

    def trial_failed(self, planned_trial: PlannedTrial, why: str) -> None:
        """Mark it, and print the reason above, where it stays."""
        self._console.print(f"block {planned_trial.block}  {planned_trial.cell_id}  failed: {why}", markup=False)
        self._over(planned_trial, "failed", "failed")

    def trial_retrying(self, planned_trial: PlannedTrial, why: str) -> None:
        """Print the reason above."""
        self._console.print(
            f"block {planned_trial.block}  {planned_trial.cell_id}  is tried again: {why}", markup=False
        )

    def run_resumed(self, finished: Mapping[PlannedTrial, str]) -> None:
        """Mark those, and count on from them."""
        for planned_trial, verdict in finished.items():
            self._mark(planned_trial, verdict)

    def block_interrupted(self, block: int) -> None:
        """Take its marks away again, and print why."""
        self._console.print(f"block {block} stood still for too long and runs again, whole", markup=False)
        picture = self.picture
        picture.marks = {(cell, of): mark for (cell, of), mark in picture.marks.items() if of != block}
        picture.over = without(picture.over, block)

    def _planned(self, planned_trial: PlannedTrial) -> int:
        """Cells in the order of the plan, and not in that of the first block."""
        ids = [cell.cell_id for cell in self._plan.cells]
        return ids.index(planned_trial.cell_id) if planned_trial.cell_id in ids else len(ids)

    def _over(self, planned_trial: PlannedTrial, mark: str, said: str) -> None:
        self._mark(planned_trial, mark)
        self._own += 1
        self.picture.last = f"last: block {planned_trial.block}, {planned_trial.cell_id}: {said}"

    def _mark(self, planned_trial: PlannedTrial, mark: str) -> None:
        self.picture.marks[planned_trial.cell_id, planned_trial.block] = mark if mark in MARKS else "valid"
        self.picture.over |= {place_of(planned_trial)}

    def _draw(self) -> RenderableType:
        picture = self.picture
        if self._began is not None:
            picture.gone_s = time.monotonic() - self._began
            if self._own:
                picture.left_s = max(0.0, picture.gone_s / self._own * (picture.total - len(picture.over)))
        return picture.draw(self._console.width, self._console.height)

    def _look(self) -> None:
        """Ask the hosts, now and then, what they have seen last; one that does not answer has nothing to say."""
        before: Seen = {}
        while not self._ended.wait(LOOK_S):
            planned_trial = self.picture.current
            if planned_trial is None:
                continue
            after: dict[str, Mapping[str, tuple[int, float]]] = {}
            for host in self._hosts:
                with contextlib.suppress(HostError):  # the run itself speaks of a host that is lost
                    after |= host.telemetry.now()
            self.picture.now = said_of(before, after, self._plan.cell_of(planned_trial).cell.entry)
            before = after
