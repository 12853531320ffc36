"""The interface of a figure, and its rendering to files and to an element of a page, the same bytes every time.

Matplotlib writes six decimals, inline styles and fixed colours. The policy of a page forbids inline styles: there they
become attributes, and colours become variables of the theme.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from xml.sax.saxutils import escape, quoteattr

import matplotlib as mpl
from markupsafe import Markup
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from benchkit.report.chart import Chart, draw
from benchkit.report.stored_run import StoredRun
from benchkit.report.style import TONES, style


@dataclass(frozen=True)
class ReportFigure:
    """A figure of the report: its name, its title, and its chart of a run.

    `chart` returns None if the run has no data for it. `data` is the section of the report with its numbers.
    """

    name: str
    title: str
    chart: Callable[[StoredRun], Chart | None] = field(repr=False)
    data: str | None = "trials"


@dataclass(frozen=True)
class Drawing:
    """A drawn chart as SVG file, PNG file and SVG element of a page; notebooks can change its `figure`."""

    name: str
    title: str
    chart: Chart = field(repr=False)
    data: str | None
    figure: Figure = field(repr=False)
    svg: bytes = field(repr=False)
    png: bytes = field(repr=False)
    element: Markup = field(repr=False)

    def _repr_html_(self) -> str:
        drawing = self.svg[self.svg.index(b"<svg") :].decode()
        caption = escape(self.chart.caption)
        label = f'<svg role="img" aria-label={quoteattr(self.chart.caption)} style="max-width: 100%; height: auto"'
        return f"<figure>{drawing.replace('<svg', label, 1)}<figcaption>{caption}</figcaption></figure>"


def draw_figure(figure: ReportFigure, run: StoredRun) -> Drawing | None:
    """Draw a figure of a run; return None if the run has no data for it."""
    chart = figure.chart(run)
    if chart is None:
        return None
    manifest = run.manifest
    source = f"{manifest.scenario_name}, {manifest.scale} scale, run {manifest.run_id}"
    return draw_chart(
        chart, figure.name, figure.title, source=source, key=f"{manifest.run_id} {figure.name}", data=figure.data
    )


_DPI = 150
_TALLEST_PX = 8000
"""Greatest height of a PNG file, by a lower resolution: many programs open no taller picture."""
_COMPRESSION = 3
"""Compression level of zlib: two thirds of the time of its default, for files an eighth larger."""
_NO_DATES = {"Creator": None, "Date": None, "Format": None, "Type": None}


def draw_chart(chart: Chart, name: str, title: str, *, source: str, key: str, data: str | None = None) -> Drawing:
    """Draw a chart; the `key` makes the ids in it stable and different from other figures' ids."""
    figure = draw(chart, title, source)
    with style(), mpl.rc_context({"svg.hashsalt": key}):
        engine = figure.get_layout_engine()
        if engine is not None:  # once, for both formats
            FigureCanvasAgg(figure)
            engine.execute(figure)
        figure.set_layout_engine("none")
        raw, png = io.StringIO(), io.BytesIO()
        # The canvases draw once; `Figure.savefig` draws each format twice, to find the layout again.
        FigureCanvasSVG(figure).print_svg(raw, metadata=_NO_DATES | {"Title": title})  # type: ignore[no-untyped-call]
        figure.set_dpi(min(_DPI, _TALLEST_PX / figure.get_figheight()))
        options = {"compress_level": _COMPRESSION}
        FigureCanvasAgg(figure).print_png(png, metadata={"Software": None}, pil_kwargs=options)  # type: ignore[no-untyped-call]
    file = svg_file(raw.getvalue(), chart.caption)
    element = Markup(page_element(file, chart.caption))  # noqa: S704 - matplotlib has escaped the texts in it
    return Drawing(name, title, chart, data, figure, file.encode(), png.getvalue(), element)


_FONTS = "'DejaVu Sans', sans-serif"
_VARIABLES = {tone.light: f"var(--{tone.name})" for tone in TONES}

_HEAD = re.compile(r".*?(?=<svg)", re.DOTALL)
_SIZE = re.compile(r' (?:width|height)="[^"]*pt"')
_METADATA = re.compile(r"<metadata>.*?</metadata>", re.DOTALL)
_TITLE = re.compile(r"<title>.*?</title>", re.DOTALL)
_DESCRIPTION = re.compile(r"<desc>.*?</desc>", re.DOTALL)
_STYLE_SHEET = re.compile(r"<defs>\s*<style.*?</style>\s*</defs>", re.DOTALL)
_BETWEEN_TAGS = re.compile(r">\s+<")
_PLACE = re.compile(r' (?:d|x|y|transform)="[^"]*"')
_DECIMALS = re.compile(r"(\.\d\d)\d+")
_NO_ROTATION = re.compile(r' transform="rotate\(-0 [^"]*\)"')
_GROUP_ID = re.compile(r' id="[A-Za-z0-9.]+_\d+"')
_STYLE = re.compile(r' style="([^"]*)"')
_COLOUR = re.compile(r"#[0-9a-f]{6}\b")
_ALIKE_MARKS = re.compile(
    r'<use href="(#[^"]*)" x="[^"]*" y="[^"]*"([^/]+)/>(?:<use href="\1" x="[^"]*" y="[^"]*"\2/>)+'
)
"""Neighbouring marks that differ only in their place: a run may have ten thousand."""


def svg_file(raw: str, description: str) -> str:
    """Return the SVG of a figure for a file: described, with places to a hundredth of a point."""
    text = _METADATA.sub(lambda _: f"<desc>{escape(description)}</desc>", raw, count=1)
    text = _PLACE.sub(lambda place: _DECIMALS.sub(r"\1", place[0]), _NO_ROTATION.sub("", text))
    return _BETWEEN_TAGS.sub("><", text)


def page_element(file: str, label: str) -> str:
    """Return the SVG of a file as an element of a page, with a label for screen readers.

    Ids of groups are removed. Ids of markers and clips stay, and differ between figures by matplotlib's `svg.hashsalt`.
    """
    text = file
    for pattern in (_HEAD, _TITLE, _DESCRIPTION, _STYLE_SHEET):
        text = pattern.sub("", text, count=1)
    text = _SIZE.sub("", text, count=2)
    text = _STYLE.sub(_attributes, _GROUP_ID.sub("", text)).replace("xlink:href", "href").replace("<g></g>", "")
    text = _ALIKE_MARKS.sub(lambda marks: f"<g{marks[2]}>{marks[0].replace(marks[2], '')}</g>", text)
    root = f'<svg role="img" aria-label={quoteattr(label)} font-family="{_FONTS}" stroke-linejoin="round"'
    return text.replace("<svg", root, 1)


def _attributes(style: re.Match[str]) -> str:
    """Return a style attribute as presentation attributes, without the font, which the whole figure sets."""
    declarations = (declaration.partition(":") for declaration in style[1].split(";"))
    return "".join(
        f' {name.strip()}="{_COLOUR.sub(lambda match: _VARIABLES[match[0]], value.strip())}"'
        for name, _, value in declarations
        if name.strip() != "font-family"
    )
