"""Layers of panels, drawn from tidy frames: points, intervals, bars, lines of trials, averages.

A frame has a row for each mark, and each function names the columns that it reads. `hue` is the number of a level,
which sets colour, marker and dashes; marks without one are black. `exclusion` is the reason why a trial is excluded:
such trials are drawn hollow or dotted, never hidden.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Concatenate, Literal, ParamSpec

import matplotlib as mpl
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection

from benchkit.report.stored_run import numbers
from benchkit.report.style import GRID, INK, MUTED, SURFACE, MarkStyle, colour, dashes, drawable, marker

Layer = Callable[[Axes], None]
"""Function that draws marks in a panel; later layers cover earlier ones."""
Arguments = ParamSpec("Arguments")

HOLLOW, DOTTED = "hollow: excluded", "dotted: excluded"
"""Notes in the subtitle of a figure with hollow marks or dotted lines."""
BAR = 0.64
"""Height of a bar, in rows."""
_DOTS = (0, (1, 2.2))
_FAINT, _SHADE = 0.75, 0.7
"""Opacities of points and lines that cover each other, and of shaded ranges."""
_MARKS = 3
"""Drawing order of marks, above bars and reference lines."""


def _layer(draw: Callable[Concatenate[Axes, Arguments], None]) -> Callable[Arguments, Layer]:
    """Turn a function that draws on axes into one that takes its other arguments and returns the layer."""

    @wraps(draw)
    def layer(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Layer:
        return lambda axes: draw(axes, *args, **kwargs)

    return layer


@_layer
def points(axes: Axes, frame: pd.DataFrame, *, area: float = 13.0, rim: float = 0.0) -> None:
    """Draw points: x, y, and if known hue, exclusion and hollow (True: hollow, though not excluded).

    `area` is in square points, `rim` the width of a light edge.
    """
    is_hollow = frame.reindex(columns=["exclusion"])["exclusion"].notna() | frame.get("hollow", default=False)
    for hue, of_hue in _by_hue(frame.assign(is_hollow=is_hollow)):
        for hollow in (False, True):
            style = MarkStyle(marker(hue), colour(hue), hollow=hollow)
            drawn = of_hue[of_hue["is_hollow"] == hollow]
            marks(drawn, style, area=area, rim=rim, opacity=None if hollow or rim else _FAINT)(axes)


@_layer
def marks(
    axes: Axes, frame: pd.DataFrame, style: MarkStyle, *, area: float, rim: float = 0.0, opacity: float | None = None
) -> None:
    """Draw marks of one style: x, y; `area` in square points, `rim` as for points."""
    if frame.empty:
        return
    edge = SURFACE.light if rim and not style.edge else style.colour
    drawn = axes.scatter(
        frame["x"],
        frame["y"],
        s=area,
        marker=style.shape,
        color=style.fill,
        edgecolors=None if style.is_line else edge,
        linewidths=style.edge or rim,
        alpha=opacity,
        zorder=_MARKS,
        clip_on=False,  # no mark lies outside the axes; a clip path for each would triple the file
    )
    drawn.set_in_layout(False)


@_layer
def averages(axes: Axes, frame: pd.DataFrame) -> None:
    """Join the averages of each hue by a line: x, y, and if known hue. A row without y interrupts the line."""
    for hue, line in _by_hue(frame):
        axes.plot(line["x"], line["y"], color=colour(hue), linestyle=dashes(hue), zorder=_MARKS)


@_layer
def intervals(axes: Axes, frame: pd.DataFrame, *, along: Literal["x", "y"] = "x", width: float = 1.5) -> None:
    """Draw intervals as lines: low, high, the place on the other axis (y or x), and if known hue."""
    if frame.empty:
        return
    ends = frame[["y" if along == "x" else "x", "low", "high"]].to_numpy(dtype=float)
    drawn = LineCollection(
        [[(low, at), (high, at)] if along == "x" else [(at, low), (at, high)] for at, low, high in ends],
        colors=_colours(frame),
        linewidths=width,
        zorder=_MARKS,
    )
    axes.add_collection(drawn)


@_layer
def lines(axes: Axes, frame: pd.DataFrame) -> None:
    """Draw a line for each trial, a distribution or a series over time: trial_id, x, y, hue, exclusion.

    The rows of a trial stand in the order of its line; a row without y interrupts it.
    """
    for hue, of_hue in _by_hue(frame):
        for is_excluded, rows in of_hue.groupby(of_hue["exclusion"].notna()):
            drawn = LineCollection(
                [line[["x", "y"]].to_numpy(dtype=float) for _, line in rows.groupby("trial_id", sort=True)],
                colors=colour(hue),
                linestyles=[_DOTS if is_excluded else dashes(hue)],
                linewidths=1.0,
                alpha=_FAINT,
            )
            axes.add_collection(drawn)


@_layer
def bars(axes: Axes, frame: pd.DataFrame, *, height: float = BAR) -> None:
    """Draw bars along rows: y, low, high, opacity, and if known hue; `height` in rows."""
    if frame.empty:
        return
    half, ends = height / 2, frame[["y", "low", "high"]].to_numpy(dtype=float)
    tones = zip(_colours(frame), numbers(frame["opacity"]), strict=True)
    drawn = PolyCollection(
        [[(low, y - half), (low, y + half), (high, y + half), (high, y - half)] for y, low, high in ends],
        facecolors=[mpl.colors.to_rgba(tone, opacity) for tone, opacity in tones],
        edgecolors=SURFACE.light,
        linewidths=0.6,
    )
    axes.add_collection(drawn)


@_layer
def shade(axes: Axes, low: float, high: float) -> None:
    """Shade a range of x, behind everything."""
    axes.axvspan(low, high, color=GRID.light, alpha=_SHADE, linewidth=0, zorder=0)


@_layer
def reference(axes: Axes, value: float, *, along: Literal["x", "y"] = "y", style: Literal["-", "--"] = "--") -> None:
    """Draw a muted line across a panel at a value of an axis."""
    draw = axes.axhline if along == "y" else axes.axvline
    draw(value, color=MUTED.light, linestyle=style, linewidth=0.9, zorder=1)


@_layer
def labels(axes: Axes, frame: pd.DataFrame, *, size: float) -> None:
    """Write texts right of their places: x, y, text; `size` in points."""
    for x, y, text in frame[["x", "y", "text"]].itertuples(index=False):
        axes.annotate(
            drawable(text),
            (x, y),
            xytext=(6, 0),
            textcoords="offset points",
            va="center",
            size=size,
            color=INK.light,
            annotation_clip=False,
        )


def _by_hue(frame: pd.DataFrame) -> Iterator[tuple[int | None, pd.DataFrame]]:
    """Yield the rows of each hue, rows without a level last."""
    hues = _hues(frame)
    for hue in sorted(set(hues.dropna())):
        yield int(hue), frame[hues == hue]
    if hues.isna().any():
        yield None, frame[hues.isna()]


def _colours(frame: pd.DataFrame) -> list[str]:
    return [colour(None if math.isnan(hue) else int(hue)) for hue in _hues(frame)]


def _hues(frame: pd.DataFrame) -> pd.Series[float]:
    return numbers(frame.reindex(columns=["hue"])["hue"])
