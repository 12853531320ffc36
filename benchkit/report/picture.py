"""A figure as notebooks show it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from matplotlib.figure import Figure

from benchkit.report.figures.figure import ReportFigure
from benchkit.report.rendering import render
from benchkit.report.view import RunView


@dataclass(frozen=True)
class Picture:
    """A figure as notebooks show it: the report's own SVG, described for those who cannot see it."""

    title: str
    alt: str
    caption: str
    svg: bytes = field(repr=False)
    png: bytes = field(repr=False)
    figure: Figure = field(repr=False)
    """Matplotlib's, for changing what it shows."""

    def _repr_mimebundle_(self, **_: object) -> Mapping[str, object]:
        return {"image/svg+xml": self.svg.decode(), "text/plain": f"{self.title}. {self.alt}"}


def picture(figure: ReportFigure, run: RunView) -> Picture:
    """The figure of a run, drawn."""
    drawing = render(figure, run)
    return Picture(
        title=figure.title,
        alt=figure.alt(run),
        caption=figure.caption(run),
        svg=drawing.svg,
        png=drawing.png,
        figure=figure.draw(run),
    )
