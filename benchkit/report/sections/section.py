"""The shape of every section of a report, and the section of figures; `benchkit.report.pages.page` lists all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from markupsafe import Markup

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
    """Content of a section that is one table, with a note below it."""

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


@dataclass(frozen=True)
class FigureContent:
    """One figure; `data` is the section with its numbers, `table` has those that no section has."""

    name: str
    title: str
    see: str
    caption: str
    data: str | None
    table: Table | None
    element: Markup


def build_figures(report: ReportInput) -> tuple[FigureContent, ...] | None:
    """Return the drawn figures, except that of the answer; None if there are none."""
    others = [drawing for drawing in report.drawings if drawing.figure.name != ANSWER_FIGURE]
    return tuple(figure_content(drawing, report.run) for drawing in others) or None


def figure_content(drawing: Drawing, run: StoredRun) -> FigureContent:
    """Return a drawn figure as a page shows it."""
    figure = drawing.figure
    return FigureContent(
        name=figure.name,
        title=figure.title,
        see=figure.see,
        caption=figure.caption(run),
        data=figure.data,
        table=figure.table(run) if figure.table is not None else None,
        element=Markup(drawing.element),  # noqa: S704 - matplotlib has escaped the texts in it
    )


FIGURES = Section("figures", "Figures", "figures.html.j2", build_figures)
