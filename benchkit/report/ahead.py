"""A part of the figures of large runs, drawn by a second process meanwhile: drawing takes most of the time of a report."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the second process is to start before anything slow is imported
    from benchkit.models.run import Manifest
    from benchkit.report.rendering import Drawing
    from benchkit.report.view import RunView

LARGE = 1000
"""Trials from which on a second process is worth the second that it takes to start."""

APART = ("latency", "throughput", "around", "accept-queue", "verdict-matrix")
"""The figures that it draws: about half of the work, and none that reads raw files."""

Drawn = tuple[str, tuple[bytes, bytes, str]]
"""The name of a figure; its SVG, its PNG and its element."""


@dataclass(frozen=True)
class Ahead:
    """Figures that are being drawn elsewhere, by run."""

    drawn: Mapping[str, Future[list[Drawn]]]

    def drawings_of(self, run: RunView) -> list[Drawing]:
        """All figures that the run has data for, in the order of the report: the same bytes, whoever draws them."""
        from benchkit.report.figures.registry import FIGURES  # noqa: PLC0415 - slow, as all that follow
        from benchkit.report.rendering import Drawing, render  # noqa: PLC0415
        from benchkit.report.sections.trials import trial_table  # noqa: PLC0415

        theirs = self.drawn.get(run.manifest.run_id)
        there = [figure for figure in FIGURES.values() if figure.available(run)]
        if theirs is not None:
            ours = {figure.name: render(figure, run) for figure in there if figure.name not in APART}
            trial_table(run)  # the page wants it next, and this process would only wait
            try:
                found = {name: Drawing(FIGURES[name], *files) for name, files in theirs.result()} | ours
                return [found[figure.name] for figure in there]
            except BrokenProcessPool:  # killed, for want of memory above all: then without it
                pass
        return [render(figure, run) for figure in there]


@contextmanager
def ahead(store: Path, manifests: Sequence[Manifest]) -> Iterator[Ahead]:
    """Begin to draw figures of those runs that are large, until the end of the block."""
    large = [each.run_id for each in manifests if len(each.cells) * each.blocks >= LARGE]
    if not large:
        yield Ahead({})
        return
    pool, usual = ProcessPoolExecutor(1, mp_context=get_context("spawn")), gc.get_threshold()
    patient()
    try:
        yield Ahead({run_id: pool.submit(draw, store, run_id) for run_id in large})
    finally:
        gc.set_threshold(*usual)
        pool.shutdown(wait=False, cancel_futures=True)


def draw(store: Path, run_id: str) -> list[Drawn]:
    """Those of the figures apart that a run has data for. Runs in the second process."""
    patient()
    from benchkit.report.figures.registry import FIGURES  # noqa: PLC0415 - as above
    from benchkit.report.read import read_run  # noqa: PLC0415
    from benchkit.report.rendering import render  # noqa: PLC0415
    from benchkit.results.store import Store  # noqa: PLC0415

    where = Store(store)
    run = read_run(where, where.run(run_id))
    drawings = [render(FIGURES[name], run) for name in APART if FIGURES[name].available(run)]
    return [(each.figure.name, (each.svg, each.png, each.element)) for each in drawings]


def patient() -> None:
    """Look for cyclic garbage seldom: a process that draws once keeps most of what it makes, and then ends."""
    gc.set_threshold(100_000, 20, 100)
