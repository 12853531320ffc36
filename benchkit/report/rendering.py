"""Rendering of a figure to its files: the same bytes every time."""

from __future__ import annotations

import io
from dataclasses import dataclass

import matplotlib as mpl
from matplotlib.figure import Figure

from benchkit.report.figures.figure import ReportFigure
from benchkit.report.stored_run import StoredRun
from benchkit.report.style import style
from benchkit.report.svg import page_element, svg_file

_DPI = 150
_TALLEST_PX = 8000
"""Height from which the resolution goes down: many programs open no taller picture."""
_COMPRESSION = 3
"""Compression level of zlib: two thirds of the time of its default, for files an eighth larger."""
_NO_DATES = {"Creator": None, "Date": None, "Format": None, "Type": None}


@dataclass(frozen=True)
class Drawing:
    """A drawn figure: its files, and the element that a page shows."""

    figure: ReportFigure
    svg: bytes
    png: bytes
    element: str


def render(figure: ReportFigure, run: StoredRun) -> Drawing:
    """Return the figure of a run as SVG file, PNG file and SVG element of a page."""
    drawn, alt = figure.draw(run), figure.alt(run)
    salt = f"{run.manifest.run_id} {figure.name}"  # makes the ids in a figure stable, and unlike those of other figures
    with style(), mpl.rc_context({"svg.hashsalt": salt}):
        drawn.draw_without_rendering()
        drawn.set_layout_engine("none")  # the layout is done, and the same for both formats
        raw, png = io.StringIO(), io.BytesIO()
        drawn.savefig(raw, format="svg", metadata=_NO_DATES | {"Title": figure.title})
        options = {"compress_level": _COMPRESSION}
        drawn.savefig(png, format="png", dpi=_resolution(drawn), metadata={"Software": None}, pil_kwargs=options)
    file = svg_file(raw.getvalue(), alt)
    return Drawing(figure, file.encode(), png.getvalue(), page_element(file, alt))


def _resolution(figure: Figure) -> float:
    return min(_DPI, _TALLEST_PX / figure.get_figheight())
