"""The shape that every figure has; `benchkit.report.figures.registry` lists them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from matplotlib.figure import Figure

from benchkit.report.stored_run import StoredRun
from benchkit.report.tables import Table


@dataclass(frozen=True)
class ReportFigure:
    """One figure: what it is called, what it says in words, and how it is drawn from a stored run.

    `available` tells whether the run holds what the figure needs; without it the figure is left out. `alt` stands for
    the picture, `caption` explains it. `data` is the section of the report that holds the numbers behind it, `table` makes
    a table of those that no section has; it stands below the figure.
    """

    name: str
    title: str
    available: Callable[[StoredRun], bool] = field(repr=False)
    alt: Callable[[StoredRun], str] = field(repr=False)
    caption: Callable[[StoredRun], str] = field(repr=False)
    draw: Callable[[StoredRun], Figure] = field(repr=False)
    data: str | None = "trials"
    table: Callable[[StoredRun], Table | None] | None = field(default=None, repr=False)


def provenance(run: StoredRun) -> str:
    """Where a figure's data is from, for its foot."""
    manifest = run.manifest
    return f"{manifest.scenario['name']}, {manifest.scale} scale, run {manifest.run_id}"
