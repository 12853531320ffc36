"""The figures besides that of the answer, each with its caption and a link to its data."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from benchkit.report.rendering import Drawing
from benchkit.report.sections.section import Material, Section
from benchkit.report.stored_run import StoredRun
from benchkit.report.tables import Table

RATIOS = "ratios"
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


@dataclass(frozen=True)
class FiguresContent:
    """All drawn figures."""

    figures: tuple[FigureContent, ...]


def build(material: Material) -> FiguresContent | None:
    """Return the drawn figures, except that of the answer; None if there are none."""
    others = [drawing for drawing in material.drawings if drawing.figure.name != RATIOS]
    return FiguresContent(tuple(figure_content(drawing, material.run) for drawing in others)) if others else None


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


SECTION = Section("figures", "Figures", "figures.html.j2", build)
