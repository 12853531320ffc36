"""The shape of every figure; `benchkit.report.figures.registry` lists them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from matplotlib.artist import Artist
from matplotlib.figure import Figure

from benchkit import units
from benchkit.models.capacity import Objective
from benchkit.report.layout import Declaration
from benchkit.report.stored_run import StoredRun
from benchkit.report.tables import Table

Ranked = TypeVar("Ranked")


@dataclass(frozen=True)
class ReportFigure:
    """One figure: its name, its words, and the functions that draw it from a stored run.

    `is_available` is true if the run holds what the figure needs; otherwise the figure is omitted. `alt` replaces the
    picture for those who cannot see it, `caption` explains it. `data` is the section of the report with the numbers
    behind it. If no section has them, `table` makes a table of them below the figure.
    """

    name: str
    title: str
    is_available: Callable[[StoredRun], bool] = field(repr=False)
    alt: Callable[[StoredRun], str] = field(repr=False)
    caption: Callable[[StoredRun], str] = field(repr=False)
    see: str
    """Plain sentence that says what to see in the figure; it precedes the caption."""
    draw: Callable[[StoredRun], Figure] = field(repr=False)
    data: str | None = "trials"
    table: Callable[[StoredRun], Table | None] | None = field(default=None, repr=False)

    def declaration(self, run: StoredRun, *notes: str, legend: Sequence[tuple[Artist, str]] = ()) -> Declaration:
        """Return the declaration of the figure for a run, with the lines of its subtitle."""
        return Declaration(self.title, notes, provenance(run), legend)


def provenance(run: StoredRun) -> str:
    """Return the source of a figure's data, for its last line."""
    manifest = run.manifest
    return f"{manifest.scenario_name}, {manifest.scale} scale, run {manifest.run_id}"


def more_in_table(count: int, what: str) -> str:
    """Return the sentence of a caption on what a figure omits; empty if it omits nothing."""
    shown = units.counted(count, f"more {what} is", f"more {what}s are")
    return f" {shown} not drawn; the table has all." if count > 0 else ""


def limits_by_hue(objective: Objective | None, hues: Mapping[str, int]) -> dict[int, float]:
    """Return the limits of an objective on drawn percentiles, by the hue of the percentile."""
    latencies = {} if objective is None else objective.latencies
    return {hues[metric]: limit_s for metric, limit_s in latencies.items() if metric in hues}


def name_extremes(ranked: Sequence[Ranked], most: int, things: str = "") -> tuple[Sequence[Ranked], str]:
    """Return what a description names, all or (of more than `most`) the first and the last, and a text that says so."""
    if len(ranked) <= most:
        return ranked, ""
    return [ranked[0], ranked[-1]], f" of {len(ranked)}{things and ' '}{things}, the highest and the lowest"
