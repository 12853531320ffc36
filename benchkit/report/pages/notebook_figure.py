"""Figures as notebooks show them."""

from __future__ import annotations

from dataclasses import dataclass, field

from markupsafe import escape
from matplotlib.figure import Figure

from benchkit.report.figure import ReportFigure
from benchkit.report.figures.history import alt, draw_series, render_series
from benchkit.report.rendering import render
from benchkit.report.stored_run import StoredRun
from benchkit.run_history.series import History, HistorySeries


@dataclass(frozen=True)
class NotebookFigure:
    """A figure as notebooks show it: the report's own SVG, with a description for those who cannot see it."""

    title: str
    alt: str
    see: str
    """Sentence that says what to see in it."""
    caption: str
    svg: bytes = field(repr=False)
    png: bytes = field(repr=False)
    figure: Figure = field(repr=False)
    """Matplotlib's figure, which can be changed."""

    def _repr_html_(self) -> str:
        # Inline, as an image would not show the texts at the pointer.
        drawing = self.svg[self.svg.index(b"<svg") :].decode()
        drawing = drawing.replace(
            "<svg", f'<svg role="img" aria-label="{escape(self.alt)}" style="max-width: 100%; height: auto"', 1
        )
        return (
            f"<figure>{drawing}"
            f"<figcaption><strong>{escape(self.see)}</strong> {escape(self.caption)}</figcaption></figure>"
        )


def notebook_figure(figure: ReportFigure, run: StoredRun) -> NotebookFigure:
    """Draw the figure of a run."""
    drawing = render(figure, run)
    return NotebookFigure(
        title=figure.title,
        alt=drawing.alt,
        see=figure.see,
        caption=drawing.caption,
        svg=drawing.svg,
        png=drawing.png,
        figure=figure.draw(run),
    )


def notebook_series(history: History, series: HistorySeries) -> NotebookFigure:
    """Draw a series of a history."""
    files = render_series(history, series)
    return NotebookFigure(
        title=series.title,
        alt=alt(history, series),
        see="Each point is a run; a dashed line is where the level shifts.",
        caption=" ".join(series.sentences),
        svg=files.svg,
        png=files.png,
        figure=draw_series(history, series),
    )
