"""Rendering of a figure to its files, the same bytes every time, and to an element of a page.

Matplotlib writes hover texts as links, six decimals, inline styles and fixed colours. A file needs titles in place of
the links. In a page, whose policy forbids inline styles, styles become attributes and colours the variables of the
theme.
"""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from urllib.parse import unquote
from xml.sax.saxutils import escape, quoteattr

import matplotlib as mpl
from markupsafe import Markup
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from benchkit.report.figure import ReportFigure
from benchkit.report.stored_run import StoredRun
from benchkit.report.style import HOVER, style
from benchkit.report.tables import Table
from benchkit.report.theme import TONES

_DPI = 150
_TALLEST_PX = 8000
"""Height of a PNG file from which its resolution is reduced: many programs open no taller picture."""
_COMPRESSION = 3
"""Compression level of zlib: two thirds of the time of its default, for files an eighth larger."""
_NO_DATES = {"Creator": None, "Date": None, "Format": None, "Type": None}


@dataclass(frozen=True)
class RenderedFigure:
    """A figure of matplotlib as SVG file, PNG file and SVG element of a page."""

    svg: bytes
    png: bytes
    element: Markup


@dataclass(frozen=True)
class Drawing(RenderedFigure):
    """A rendered figure of a report, with its words about the run, and the table of its data if no section has it."""

    figure: ReportFigure
    alt: str
    caption: str
    table: Table | None


def render(figure: ReportFigure, run: StoredRun) -> Drawing:
    """Return the figure of a run as SVG file, PNG file and SVG element of a page, with its words."""
    alt, key = figure.alt(run), f"{run.manifest.run_id} {figure.name}"
    files = render_figure(figure.draw(run), title=figure.title, alt=alt, key=key)
    table = figure.table(run) if figure.table is not None else None
    return Drawing(files.svg, files.png, files.element, figure, alt, figure.caption(run), table)


def render_figure(drawn: Figure, *, title: str, alt: str, key: str) -> RenderedFigure:
    """Return a drawn figure as its files; the `key` makes its ids stable and different from other figures' ids."""
    with style(), mpl.rc_context({"svg.hashsalt": key}):
        _lay_out(drawn)
        raw, png = io.StringIO(), io.BytesIO()
        # The canvases draw once; `Figure.savefig` draws each format twice, to find the layout again.
        FigureCanvasSVG(drawn).print_svg(raw, metadata=_NO_DATES | {"Title": title})  # type: ignore[no-untyped-call]
        drawn.set_dpi(min(_DPI, _TALLEST_PX / drawn.get_figheight()))
        options = {"compress_level": _COMPRESSION}
        FigureCanvasAgg(drawn).print_png(png, metadata={"Software": None}, pil_kwargs=options)  # type: ignore[no-untyped-call]
    file = svg_file(raw.getvalue(), alt)
    element = Markup(page_element(file, alt))  # noqa: S704 - matplotlib has escaped the texts in it
    return RenderedFigure(file.encode(), png.getvalue(), element)


def _lay_out(figure: Figure) -> None:
    """Place the axes of a figure once, for both formats."""
    engine = figure.get_layout_engine()
    if engine is not None:
        FigureCanvasAgg(figure)
        engine.execute(figure)
    figure.set_layout_engine("none")


FONTS = "'DejaVu Sans', sans-serif"
_VARIABLES = {tone.light: f"var(--{tone.name})" for tone in TONES}

_HEAD = re.compile(r".*?(?=<svg)", re.DOTALL)
_SIZE = re.compile(r' (?:width|height)="[^"]*pt"')
_METADATA = re.compile(r"<metadata>.*?</metadata>", re.DOTALL)
_TITLE = re.compile(r"<title>.*?</title>", re.DOTALL)
_DESCRIPTION = re.compile(r"<desc>.*?</desc>", re.DOTALL)
_STYLE_SHEET = re.compile(r"<defs>\s*<style.*?</style>\s*</defs>", re.DOTALL)
_BETWEEN_TAGS = re.compile(r">\s+<")
_HOVER_LINK = re.compile(rf'<a xlink:href="{HOVER}([^"]*)"[^>]*>')
_PLACE = re.compile(r' (?:d|x|y|transform)="[^"]*"')
_DECIMALS = re.compile(r"(\.\d\d)\d+")
_NO_ROTATION = re.compile(r' transform="rotate\(-0 [^"]*\)"')
_GROUP_ID = re.compile(r' id="[A-Za-z0-9.]+_\d+"')
_STYLE = re.compile(r' style="([^"]*)"')
_COLOUR = re.compile(r"#[0-9a-f]{6}\b")
_ALIKE_MARKS = re.compile(
    r'<use href="(#[^"]*)" x="[^"]*" y="[^"]*"([^/]+)/>(?:<use href="\1" x="[^"]*" y="[^"]*"\2/>)+'
)
"""Neighbouring marks that differ in their place alone: a run may have ten thousand."""


def svg_file(raw: str, description: str) -> str:
    """Return the SVG of a figure for a file: described, with hover texts, places to a hundredth of a point."""
    text = _METADATA.sub(lambda _: f"<desc>{escape(description)}</desc>", raw, count=1)
    text = _HOVER_LINK.sub(lambda link: f"<g><title>{escape(unquote(link[1]))}</title>", text).replace("</a>", "</g>")
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
    root = f'<svg role="img" aria-label={quoteattr(label)} font-family="{FONTS}" stroke-linejoin="round"'
    return text.replace("<svg", root, 1)


def _attributes(style: re.Match[str]) -> str:
    """Return a style attribute as presentation attributes, without the font, which the whole figure sets."""
    declarations = (declaration.partition(":") for declaration in style[1].split(";"))
    return "".join(
        f' {name.strip()}="{_COLOUR.sub(lambda match: _VARIABLES[match[0]], value.strip())}"'
        for name, _, value in declarations
        if name.strip() != "font-family"
    )
