"""The shape of every section of a report, and the section of figures; `benchkit.report.pages.page` lists all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from benchkit.report.rendering import Drawing
from benchkit.report.stored_run import StoredRun
from benchkit.report.tables import Table


@dataclass(frozen=True)
class ReportInput:
    """A run and its drawn figures, from which sections are built."""

    run: StoredRun
    drawings: tuple[Drawing, ...]


@dataclass(frozen=True)
class TableContent:
    """Content of a section that is one table, with a note on it."""

    table: Table
    note: str = ""


@dataclass(frozen=True)
class Section:
    """A section: `build` returns what its template shows as `content`; None if there is nothing to show."""

    name: str
    title: str
    template: str
    build: Callable[[ReportInput], object | None] = field(repr=False)


ANSWER_FIGURE = "ratios"
"""Name of the figure that stands in the answer, at the start of the report."""


def build_figures(report: ReportInput) -> tuple[Drawing, ...] | None:
    """Return the drawn figures, except the answer's figure; None if there are none."""
    return tuple(drawing for drawing in report.drawings if drawing.figure.name != ANSWER_FIGURE) or None


FIGURES = Section("figures", "Figures", "figures.html.j2", build_figures)
