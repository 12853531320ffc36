"""From a figure to its files, the same bytes every time."""

from __future__ import annotations

import io
from dataclasses import dataclass

from matplotlib.figure import Figure

from benchkit.report.figures.figure import ReportFigure
from benchkit.report.stored_run import StoredRun
from benchkit.report.style import style
from benchkit.report.svg import both

_DPI = 150
_TALLEST_PX = 8000
"""Beyond this a picture is no longer opened by what people send it with; the resolution goes down instead."""

_PACKED = 3
"""How hard zlib tries: in two thirds of the time that its usual 6 takes, for files an eighth larger."""

_NO_DATES = {"Creator": None, "Date": None, "Format": None, "Type": None}


@dataclass(frozen=True)
class Drawing:
    """A figure drawn: its files, and the element that a page shows."""

    figure: ReportFigure
    svg: bytes
    png: bytes
    element: str


def render(figure: ReportFigure, run: StoredRun) -> Drawing:
    """The figure of a run as SVG file, PNG file and SVG element of a page."""
    picture, alt = figure.draw(run), figure.alt(run)
    with style():
        raw, png = io.StringIO(), io.BytesIO()  # text as text: it comes in a hundred thousand pieces
        picture.savefig(raw, format="svg", metadata=_NO_DATES)
        picture.savefig(
            png, format="png", dpi=_dpi(picture), metadata={"Software": None}, pil_kwargs={"compress_level": _PACKED}
        )
    alone, element = both(raw.getvalue(), prefix(figure.name), figure.title, alt)
    return Drawing(figure=figure, svg=alone, png=png.getvalue(), element=element)


def prefix(name: str) -> str:
    """What the ids in a figure begin with: short, for there are ten thousand of them, and its own (a test looks)."""
    return "".join(word[:2] for word in name.split("-"))


def _dpi(picture: Figure) -> float:
    return min(_DPI, _TALLEST_PX / picture.get_figheight())
