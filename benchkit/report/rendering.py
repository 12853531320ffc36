"""Rendering of a figure to its files: the same bytes every time."""

from __future__ import annotations

import io
from dataclasses import dataclass

import matplotlib as mpl
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
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


@dataclass(frozen=True)
class RenderedFigure:
    """A figure of matplotlib as SVG file, PNG file and SVG element of a page."""

    svg: bytes
    png: bytes
    element: str


def render(figure: ReportFigure, run: StoredRun) -> Drawing:
    """Return the figure of a run as SVG file, PNG file and SVG element of a page."""
    files = render_figure(
        figure.draw(run), title=figure.title, alt=figure.alt(run), key=f"{run.manifest.run_id} {figure.name}"
    )
    return Drawing(figure, files.svg, files.png, files.element)


def render_figure(drawn: Figure, *, title: str, alt: str, key: str) -> RenderedFigure:
    """Return a drawn figure as its files; the `key` makes its ids stable, and unlike those of other figures."""
    with style(), mpl.rc_context({"svg.hashsalt": key}):
        _lay_out(drawn)
        raw, png = io.StringIO(), io.BytesIO()
        # The canvases draw once; `Figure.savefig` draws each format twice, to find the layout again.
        FigureCanvasSVG(drawn).print_svg(raw, metadata=_NO_DATES | {"Title": title})  # type: ignore[no-untyped-call]
        drawn.set_dpi(_resolution(drawn))
        options = {"compress_level": _COMPRESSION}
        FigureCanvasAgg(drawn).print_png(png, metadata={"Software": None}, pil_kwargs=options)  # type: ignore[no-untyped-call]
    file = svg_file(raw.getvalue(), alt)
    return RenderedFigure(file.encode(), png.getvalue(), page_element(file, alt))


def _lay_out(figure: Figure) -> None:
    """Place the axes of a figure once, for both formats."""
    engine = figure.get_layout_engine()
    if engine is not None:
        FigureCanvasAgg(figure)
        engine.execute(figure)
    figure.set_layout_engine("none")


def _resolution(figure: Figure) -> float:
    return min(_DPI, _TALLEST_PX / figure.get_figheight())
