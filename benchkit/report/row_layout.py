"""What figures with a row for each thing share: how tall rows are, and what is written on them and beside them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullLocator

from benchkit.report.figure_frame import EDGE_IN, WIDTH_IN
from benchkit.report.style import width_in
from benchkit.report.theme import INK, MUTED, SURFACE

_ROW_IN, _SMALLEST_ROW_IN, _TALL_IN = 0.34, 0.13, 9.0
_DECADE = 4.0
"""Ratios that span more than this get the ticks of decades: 0.5, 1, 2, 5."""


_PIXELS = 1.04
"""In a PNG every letter is as wide as whole pixels, a line up to 4 % wider than its outlines."""


def row_height(rows: int) -> float:
    """How tall a row of so many is, in inches."""
    return max(_SMALLEST_ROW_IN, min(_ROW_IN, _TALL_IN / rows))


def text_size(row_in: float) -> float:
    """The size of text on rows of that height."""
    return 9.0 if row_in >= _ROW_IN / 2 else 6.0


def lay(axes: Axes, rows: int) -> None:
    """Rows from the top, without ticks: what stands beside them is written."""
    axes.set_ylim(rows - 0.4, -0.6)
    axes.set_yticks([])
    axes.spines["bottom"].set_visible(False)


def head(axes: Axes, y: float, text: str, size: float) -> None:
    """A heading over the whole width, in front of the grid."""
    axes.annotate(
        cut(text, WIDTH_IN - 2 * EDGE_IN, size, "bold"),
        (EDGE_IN / WIDTH_IN, y),
        xycoords=("figure fraction", "data"),
        va="center",
        size=size,
        color=INK.light,
        weight="bold",
        annotation_clip=False,
        bbox={"facecolor": SURFACE.light, "edgecolor": "none", "pad": 1},
    )


def write(axes: Axes, y: float, text: str, size: float, *, left: bool) -> None:
    """A text beside the axes, on a row."""
    axes.annotate(
        text,
        (0 if left else 1, y),
        xycoords=("axes fraction", "data"),
        xytext=((-1 if left else 1) * 72 * EDGE_IN, 0),
        textcoords="offset points",
        ha="right" if left else "left",
        va="center",
        size=size,
        color=INK.light if left else MUTED.light,
        annotation_clip=False,
    )


def room_for(text: str, size: float, weight: str = "normal") -> float:
    """How wide a line of text may come out, in inches."""
    return _PIXELS * width_in(text, size, weight)


def cut(text: str, room_in: float, size: float, weight: str = "normal") -> str:
    """As much of a text as there is room for."""
    if room_for(text, size, weight) <= room_in:
        return text
    while text and room_for(f"{text}…", size, weight) > room_in:
        text = text[: -max(1, len(text) // 20)]
    return f"{text.rstrip()}…"


def ratio_axis(axes: Axes, points: Iterable[float], ends: Sequence[float] = ()) -> None:
    """A logarithmic axis over one and all points, and over the ends of intervals as far as those do not dwarf the points."""
    points = [1.0, *points]
    least, most = min(points), max(points)
    low = max(min([least, *ends]), least / _DECADE) / 1.04
    high = min(max([most, *ends]), most * _DECADE) * 1.04
    axes.set_xscale("log")
    axes.set_xlim(low, high)
    if high / low > _DECADE:
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    else:
        ticks = MaxNLocator(nbins=6, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high)
        axes.xaxis.set_major_locator(FixedLocator([tick for tick in ticks if low <= tick <= high]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.axvline(1, color=MUTED.light, linewidth=1, zorder=1)
