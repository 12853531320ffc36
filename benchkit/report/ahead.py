"""A part of the figures of large runs, drawn by a second process meanwhile: drawing takes most of the time of a report."""

from __future__ import annotations

import gc
import importlib
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # slow, as all that functions below import
    from benchkit.models.run import Manifest
    from benchkit.report.rendering import Drawing
    from benchkit.report.view import RunView

LARGE = 1000
"""Trials from which on a second process is worth what it takes to start one."""

APART = ("latency", "throughput", "around", "accept-queue", "verdict-matrix")
"""The figures that it draws: about half of the work, none that reads raw files, and all that need no more than telemetry."""

STARTED = "fork" if sys.platform == "linux" else "spawn"
"""How the second process starts. A fork has all modules that are imported already, which is a third of its work; elsewhere
system libraries do not stand it. It is safe here: no thread of ours runs then, and libraries that keep idle ones (OpenBLAS,
jemalloc) prepare for it."""

_SHARED = (
    "benchkit.report.run_reader",
    "benchkit.report.report_files",
    "matplotlib.backends.backend_agg",
    "matplotlib.backends.backend_svg",
)

Drawn = tuple[str, tuple[bytes, bytes, str]]
"""The name of a figure; its SVG, its PNG and its element."""


@dataclass(frozen=True)
class Theirs:
    """What the second process has made of a run."""

    drawn: Sequence[Drawn]
    found: Mapping[str, Any]
    """What the page wants to know of telemetry, as `RunView.found` has it: this process need not read it."""


@dataclass(frozen=True)
class Ahead:
    """Figures that are being drawn elsewhere, by run."""

    drawn: Mapping[str, Future[Theirs]]

    def drawings_of(self, run: RunView) -> list[Drawing]:
        """All figures that the run has data for, in the order of the report: the same bytes, whoever draws them."""
        from benchkit.report.figures.registry import FIGURES  # noqa: PLC0415
        from benchkit.report.rendering import Drawing, render  # noqa: PLC0415
        from benchkit.report.sections.trials import trial_table  # noqa: PLC0415

        meanwhile = self.drawn.get(run.manifest.run_id)
        ours = {
            name: render(figure, run)
            for name, figure in FIGURES.items()
            if (meanwhile is None or name not in APART) and figure.available(run)
        }
        if meanwhile is not None:
            trial_table(run)  # the page wants it next, and this process would only wait
            try:
                theirs = meanwhile.result()
                run.found.update(theirs.found)
                ours |= {name: Drawing(FIGURES[name], *files) for name, files in theirs.drawn}
            except BrokenProcessPool:  # killed, for want of memory above all: then without it
                ours |= {name: render(FIGURES[name], run) for name in APART if FIGURES[name].available(run)}
        return [ours[name] for name in FIGURES if name in ours]


@contextmanager
def ahead(store: Path, manifests: Sequence[Manifest]) -> Iterator[Ahead]:
    """Begin to draw figures of those runs that are large, until the end of the block."""
    large = [each.run_id for each in manifests if len(each.cells) * each.blocks >= LARGE]
    if not large:
        yield Ahead({})
        return
    usual = gc.get_threshold()
    patient()
    if STARTED == "fork":
        prepared()
    pool = ProcessPoolExecutor(1, mp_context=get_context(STARTED))
    try:
        with warnings.catch_warnings():  # from Python 3.12 on of idle threads, too; see STARTED
            warnings.filterwarnings("ignore", message=".*multi-threaded.*fork", category=DeprecationWarning)
            drawn = {run_id: pool.submit(draw, store, run_id) for run_id in large}
        yield Ahead(drawn)
    finally:
        gc.set_threshold(*usual)
        pool.shutdown(wait=False, cancel_futures=True)


def prepared() -> None:
    """Import what both processes need; nothing is read or drawn before the second one starts."""
    for name in _SHARED:
        importlib.import_module(name)


def draw(store: Path, run_id: str) -> Theirs:
    """Those of the figures apart that a run has data for. Runs in the second process."""
    patient()
    from benchkit.report.figures.registry import FIGURES  # noqa: PLC0415
    from benchkit.report.rendering import render  # noqa: PLC0415
    from benchkit.report.run_reader import read_run  # noqa: PLC0415
    from benchkit.report.view import kept_as  # noqa: PLC0415
    from benchkit.results.store import Store  # noqa: PLC0415

    where = Store(store)
    run = read_run(where, where.run(run_id))
    drawings = [render(FIGURES[name], run) for name in APART if FIGURES[name].available(run)]
    return Theirs(
        drawn=[(each.figure.name, (each.svg, each.png, each.element)) for each in drawings],
        found={kept_as(find): find(run) for find in of_telemetry()},
    )


def of_telemetry() -> tuple[Callable[[RunView], object], ...]:
    """What the page asks of runs `once` and takes from telemetry."""
    from benchkit.report.figures import accept_queue, host_activity  # noqa: PLC0415
    from benchkit.report.sections.disk_usage import folder_table  # noqa: PLC0415
    from benchkit.report.sections.workers import worker_table  # noqa: PLC0415

    return accept_queue.caption, accept_queue.table, host_activity.table, worker_table, folder_table


def patient() -> None:
    """Look for cyclic garbage seldom: a process that draws once keeps most of what it makes, and then ends."""
    gc.set_threshold(100_000, 20, 100)
