"""The figures, each with its caption and a link to its data."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from benchkit.report.sections.section import Material, Section
from benchkit.report.tables import Table


@dataclass(frozen=True)
class FigureContent:
    """One figure; `data` is the section with its numbers, `table` has those that no section has."""

    name: str
    title: str
    caption: str
    data: str | None
    table: Table | None
    element: Markup


@dataclass(frozen=True)
class FiguresContent:
    """All drawn figures."""

    figures: tuple[FigureContent, ...]


def build(material: Material) -> FiguresContent | None:
    """Return the drawn figures; None if the run has none."""
    if not material.drawings:
        return None
    run = material.run
    return FiguresContent(
        tuple(
            FigureContent(
                name=figure.name,
                title=figure.title,
                caption=figure.caption(run),
                data=figure.data,
                table=figure.table(run) if figure.table is not None else None,
                element=Markup(element),  # noqa: S704 - matplotlib has escaped the texts in it
            )
            for figure, element in ((drawing.figure, drawing.element) for drawing in material.drawings)
        )
    )


SECTION = Section("figures", "Figures", "figures.html.j2", build)
