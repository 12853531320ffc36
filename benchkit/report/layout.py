"""Common layout of figures: title, legend and source at fixed places, axes placed by constrained layout."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from benchkit.report.style import MarkStyle, colour, dashes, drawable, marker
from benchkit.report.theme import INK, MUTED, SURFACE

WIDTH_IN = 7.6
MAX_PANELS = 12
"""Panels that a figure has at most; `sample_evenly` chooses them, and the caption names the number of the others."""

_EDGE_IN, _TITLE_IN, _LINE_IN, _KEY_IN, _SOURCE_IN = 0.08, 0.25, 0.17, 0.20, 0.24
_SUBTITLE_CHARACTERS, _LEGEND_CHARACTERS, _LABEL_CHARACTERS = 114, 105, 42
_ROW_IN, _SMALLEST_ROW_IN, _ROWS_IN, _AXIS_IN = 0.34, 0.13, 9.0, 0.55
_LEGEND_COLUMNS = 5
_EM = 0.62
"""Width of an average character of bold text over the font size, rounded up."""

Sampled = TypeVar("Sampled")


@dataclass(frozen=True)
class Declaration:
    """Declaration of a figure: all that is neither in its data nor in its panels."""

    title: str
    notes: Sequence[str]
    """Subtitle, line by line."""
    source: str
    """Source of the data, for the last line."""
    legend: Sequence[tuple[Artist, str]] = ()


def new_figure(declaration: Declaration, height_in: float, *, used_width: float = 1.0) -> Figure:
    """Return a figure of the standard width with `height_in` inches for axes and their labels, which it has not yet.

    Axes with their labels take the share `used_width` of the width, from the left.
    """
    keys = [(handle, drawable(name)) for handle, name in declaration.legend]
    longest = max((len(name) for _, name in keys), default=0)
    columns = max(1, min(_LEGEND_COLUMNS, len(keys), _LEGEND_CHARACTERS // (longest + 6)))
    lines = [line for text in declaration.notes for line in textwrap.wrap(drawable(text), _SUBTITLE_CHARACTERS)]
    legend_top_in = 2 * _EDGE_IN + _TITLE_IN + _LINE_IN * len(lines)
    top_in = legend_top_in + _KEY_IN * math.ceil(len(keys) / columns)
    height = top_in + height_in + _SOURCE_IN
    left = _EDGE_IN / WIDTH_IN
    room = (0, _SOURCE_IN / height, used_width, height_in / height)
    figure = Figure(
        figsize=(WIDTH_IN, height),
        layout=ConstrainedLayoutEngine(rect=room, w_pad=_EDGE_IN, h_pad=_EDGE_IN, wspace=0.03, hspace=0.03),
    )
    figure.text(left, 1 - _EDGE_IN / height, drawable(declaration.title), size=12, weight="bold", va="top")
    for i, line in enumerate(lines):
        figure.text(left, 1 - (_EDGE_IN + _TITLE_IN + _LINE_IN * i) / height, line, color=MUTED.light, va="top")
    if keys:
        figure.legend(
            [handle for handle, _ in keys],
            [name for _, name in keys],
            loc="upper left",
            bbox_to_anchor=(left, 1 - legend_top_in / height),
            ncols=columns,
            borderpad=0,
            borderaxespad=0,
            columnspacing=1.4,
        )
    figure.text(left, _EDGE_IN / height, drawable(declaration.source), size=7, color=MUTED.light, va="bottom")
    return figure


def line_legend(names: Mapping[int, str]) -> list[tuple[Artist, str]]:
    """Return the legend of lines with markers, by the number of their series."""
    return [
        (Line2D([], [], color=colour(hue), marker=marker(hue), ls=dashes(hue), markersize=5), name)
        for hue, name in names.items()
    ]


def mark_legend(names: Sequence[tuple[MarkStyle, str]]) -> list[tuple[Artist, str]]:
    """Return the legend of marks without lines."""
    return [
        (
            Line2D(
                [],
                [],
                linestyle="",
                marker=mark.shape,
                markersize=7 * mark.size,
                markerfacecolor=mark.fill,
                markeredgecolor=mark.colour,
                markeredgewidth=mark.edge,
            ),
            name,
        )
        for mark, name in names
    ]


def part_legend(hues: Mapping[str, int]) -> list[tuple[Artist, str]]:
    """Return the legend of stacked shares: the colour of each part."""
    return [(Patch(facecolor=colour(hue)), part) for part, hue in hues.items()]


def sample_evenly(things: Sequence[Sampled], most: int = MAX_PANELS) -> list[Sampled]:
    """Return at most `most` of these things, spread evenly, the first and the last among them.

    Of more than twice `most` things it returns a third of `most`: a figure that omits the majority needs no more.
    """
    if len(things) <= most:
        return list(things)
    number = most if len(things) <= 2 * most else most // 3
    return [things[round(i * (len(things) - 1) / (number - 1))] for i in range(number)]


def rows_height(rows: int) -> float:
    """Return the height of a number of rows with the axis below them, in inches."""
    return max(_SMALLEST_ROW_IN, min(_ROW_IN, _ROWS_IN / rows)) * (rows + 0.2) + _AXIS_IN


def row_text_size(rows: int) -> float:
    """Return the size of text next to the rows of a figure, by their number, in points."""
    return 9.0 if _ROWS_IN / rows >= _ROW_IN / 2 else 6.0


def label_rows(axes: Axes, labels: Mapping[float, str], rows: float) -> None:
    """Write labels left of their rows, which are counted from the top."""
    size = row_text_size(math.ceil(rows))
    characters = round(_LABEL_CHARACTERS * 9 / size)
    texts = [textwrap.shorten(drawable(text), characters, placeholder="…") or "…" for text in labels.values()]
    axes.set_ylim(rows - 0.4, -0.6)
    axes.set_yticks(list(labels), texts)
    axes.tick_params(axis="y", length=0, labelsize=size, labelcolor=INK.light)
    axes.grid(visible=False, axis="y")
    axes.spines["bottom"].set_visible(False)


def write_beside(axes: Axes, y: float, text: str, rows: int, x: float | None = None) -> None:
    """Write a text right of a value in its row; right of the panel without one."""
    axes.annotate(
        drawable(text),
        (1 if x is None else x, y),
        xycoords=("axes fraction" if x is None else "data", "data"),
        xytext=(6, 0),
        textcoords="offset points",
        va="center",
        size=row_text_size(rows),
        color=MUTED.light if x is None else INK.light,
        annotation_clip=False,
    )


def write_corner(axes: Axes, text: str) -> None:
    """Write a text into the upper right corner of a panel, below a limit that is near the top."""
    axes.annotate(
        drawable(text),
        (1, 1),
        xycoords="axes fraction",
        xytext=(-4, -14),
        textcoords="offset points",
        ha="right",
        va="top",
        color=MUTED.light,
    )


def write_heading(axes: Axes, y: float, text: str, rows: int) -> None:
    """Write a heading over the whole width of the figure, in front of the grid."""
    size = row_text_size(rows)
    heading = axes.annotate(
        shorten(drawable(text), WIDTH_IN - 2 * _EDGE_IN, size),
        (_EDGE_IN / WIDTH_IN, y),
        xycoords=("figure fraction", "data"),
        va="center",
        size=size,
        color=INK.light,
        weight="bold",
        annotation_clip=False,
        bbox={"facecolor": SURFACE.light, "edgecolor": "none", "pad": 1},
    )
    heading.set_in_layout(False)


def shorten(text: str, room_in: float, size: float) -> str:
    """Return as much of a text as fits into a width, by the average width of a character."""
    characters = int(room_in / text_width(1, size))
    return text if len(text) <= characters else f"{text[: max(0, characters - 1)].rstrip()}…"


def text_width(characters: int, size: float) -> float:
    """Return the estimated width of a number of characters, in inches."""
    return _EM * size * characters / 72
