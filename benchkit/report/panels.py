"""Four kinds of panel, drawn from tidy frames: points with intervals, distributions, series over time, stacked shares.

A frame has a row for each mark; each function names the columns that it reads. `hue` is the number of the level, which
gives colour, marker and dashes; marks of no level (None, or no such column) are in ink. `exclusion` is the reason why a
trial is excluded (None if it is not): such trials are drawn hollow or dotted, never hidden. `text` is shown when a
reader points at the mark. What is drawn later lies over what was drawn before.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import matplotlib as mpl
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import Collection, LineCollection, PolyCollection
from matplotlib.figure import Figure
from matplotlib.ticker import (
    FixedLocator,
    FuncFormatter,
    Locator,
    LogLocator,
    MaxNLocator,
    MultipleLocator,
    NullFormatter,
    NullLocator,
)

from benchkit import units
from benchkit.report.layout import (
    WIDTH_IN,
    Declaration,
    label_rows,
    new_figure,
    rows_height,
    shorten,
    write_beside,
    write_heading,
)
from benchkit.report.metric_values import numbers
from benchkit.report.style import MarkStyle, colour, dashes, drawable, hover, marker, tick
from benchkit.report.theme import GRID, MUTED, SURFACE

HOLLOW = "hollow: excluded"
DOTTED = "dotted: excluded"
"""Notes in the subtitle of a figure with hollow marks or dotted lines."""

BAR = 0.64
"""Height of a bar, in rows."""

_DOTS = (0, (1, 2.2))
"""Line style of lines without a level; `benchkit.report.style.DASHES` has the styles of levels."""
_FAINT, _BAND, _SHADE, _PALE = 0.75, 0.16, 0.7, 0.45
"""Opacities of points and lines that cover each other, of bands, of shaded ranges, and of pale bars beside others."""
_MARKS = 3
"""Drawing order of marks, above bars and reference lines; artists of the same order lie as they are drawn."""
_NARROW = 4.0
"""Ratio of the ends of a logarithmic axis up to which its ticks are round numbers, as on a linear one."""
_PANEL_IN, _SINGLE_PANEL_IN, _AXIS_IN = 2.0, 3.5, 0.35


@dataclass(frozen=True)
class Scale:
    """Declaration of an axis: the text of its ticks, its label, and its ends (None: it ends where the data do)."""

    text: Callable[[float], str]
    label: str = ""
    low: float | None = None
    high: float | None = None
    kind: Literal["linear", "log", "symlog"] = "linear"
    ticks: int = 5
    """Ticks for which there is room, about."""
    whole: bool = False
    """True if ticks are whole numbers, as seconds are."""
    places: Sequence[float] | None = None
    """Values that have the ticks; None: round numbers."""

    def apply(self, axes: Axes, name: Literal["x", "y"]) -> None:
        """Set up one axis of a panel, and of all panels that share it."""
        axis = axes.xaxis if name == "x" else axes.yaxis
        getattr(axes, f"set_{name}scale")(self.kind, **({"linthresh": 10} if self.kind == "symlog" else {}))
        if (self.low is not None or self.high is not None) and self.low != self.high:
            getattr(axes, f"set_{name}lim")(self.low, self.high)
        low, high = axis.get_view_interval()
        locator = self._locator(float(low), float(high))
        if locator is not None:
            axis.set_major_locator(locator)
        if self.kind == "log":
            axis.set_minor_locator(NullLocator())
            axis.set_minor_formatter(NullFormatter())
        axis.set_major_formatter(FuncFormatter(lambda value, _: tick(self.text(value))))

    def _locator(self, low: float, high: float) -> Locator | None:
        """Return the places of ticks from `low` to `high`; None: matplotlib chooses them."""
        if self.places is not None:
            return FixedLocator(list(self.places))
        if self.kind == "symlog":
            return None
        if self.kind == "log" and high / low > _NARROW:
            has_room = 3 * math.log10(high / low) < self.ticks + 2
            return LogLocator(subs=(1, 2, 5) if has_room else (1,), numticks=12)
        if self.kind == "log":
            return MaxNLocator(nbins=self.ticks, steps=[1, 2, 2.5, 5, 10])
        if self.text is units.size:  # sizes have binary prefixes
            return MultipleLocator(2 ** math.ceil(math.log2(high / self.ticks)))
        return MaxNLocator(nbins=self.ticks, min_n_ticks=1 if self.whole else 2, integer=self.whole)


@dataclass(frozen=True)
class Panel:
    """A panel: the function that draws its marks, the scale of its values, and its heading.

    Values are along y, in a panel of rows along x. Panels with the same scale share it.
    """

    draw: Callable[[Axes], None]
    scale: Scale
    heading: str = ""


@dataclass(frozen=True)
class FigureRow:
    """A row at a place from the top: its name, and a text right of it; or a heading over the whole width."""

    y: float
    name: str
    beside: str = ""
    is_heading: bool = False


def draw_panels(
    declaration: Declaration, panels: Sequence[Panel], x: Scale, *, columns: int = 3, height_in: float = _PANEL_IN
) -> Figure:
    """Draw a figure of panels side by side, `columns` in a row of `height_in` inches; all share the scale of x."""
    columns = min(columns, len(panels))
    rows = math.ceil(len(panels) / columns)
    figure = new_figure(declaration, _SINGLE_PANEL_IN if len(panels) == 1 else height_in * rows + _AXIS_IN)
    grid = figure.add_gridspec(rows, columns)
    are_alike = all(panel.scale == panels[0].scale for panel in panels)
    room_in = WIDTH_IN / columns if all(panel.heading for panel in panels) else WIDTH_IN
    drawn: list[Axes] = []
    for i, panel in enumerate(panels):
        first = drawn[0] if drawn else None
        axes = figure.add_subplot(grid[i // columns, i % columns], sharex=first, sharey=first if are_alike else None)
        is_leftmost, is_lowest = i % columns == 0, i + columns >= len(panels)
        axes.set_title(shorten(drawable(panel.heading), room_in - 0.4, 9.0))
        axes.set_ylabel(drawable(panel.scale.label) if is_leftmost else "")
        axes.set_xlabel(drawable(x.label) if is_lowest else "")
        axes.tick_params(labelleft=is_leftmost or not are_alike, labelbottom=is_lowest)
        panel.draw(axes)
        drawn.append(axes)
    x.apply(drawn[0], "x")
    for axes, panel in zip(drawn[: 1 if are_alike else None], panels, strict=False):
        panel.scale.apply(axes, "y")
    return figure


def draw_rows(
    declaration: Declaration, rows: Sequence[FigureRow], panels: Sequence[Panel], *, used_width: float = 1.0
) -> Figure:
    """Draw a figure of rows with one or several panels, which take the share `used_width` of the width."""
    count = count_rows(rows)
    figure = new_figure(declaration, rows_height(count), used_width=used_width)
    places = list(figure.subplots(1, len(panels), sharey=True, squeeze=False).flat)
    for axes, panel in zip(places, panels, strict=True):
        label_rows(axes, {row.y: row.name for row in rows if row.name and not row.is_heading}, count)
        axes.tick_params(labelleft=axes is places[0])
        panel.draw(axes)
        panel.scale.apply(axes, "x")
        axes.set_xlabel(drawable(panel.scale.label))
    for row in rows:
        if row.is_heading:
            write_heading(places[0], row.y, row.name, count)
        elif row.beside:
            write_beside(places[0], row.y, row.beside, count)
    return figure


def count_rows(rows: Sequence[FigureRow]) -> int:
    """Return the number of rows down to the last one, gaps included."""
    return math.ceil(max(row.y for row in rows) + 1)


def notes(*parts: str | None) -> str:
    """Return a line of a subtitle: the parts that apply, with dots between them."""
    return " \N{MIDDLE DOT} ".join(filter(None, parts))


def draw_points(axes: Axes, points: pd.DataFrame, *, area: float = 13.0, rim: float = 0.0) -> None:
    """Draw points: x, y, hue, text, and if known exclusion and hollow (True: hollow without being excluded).

    `area` is in square points, `rim` the width of a light edge.
    """
    reasons = points.reindex(columns=["exclusion"])["exclusion"]
    texts = points["text"].where(reasons.isna(), points["text"] + " (" + reasons.astype(str) + ")")
    is_hollow = reasons.notna() | points.get("hollow", default=False)
    for hue, of_hue in _by_hue(points.assign(text=texts, is_hollow=is_hollow)):
        for hollow in (False, True):
            mark = MarkStyle(marker(hue), colour(hue), hollow=hollow)
            drawn = of_hue[of_hue["is_hollow"] == hollow]
            draw_marks(axes, drawn, mark, area=area, rim=rim, opacity=None if hollow or rim else _FAINT)


def draw_marks(
    axes: Axes, marks: pd.DataFrame, look: MarkStyle, *, area: float, rim: float = 0.0, opacity: float | None = None
) -> None:
    """Draw marks of one look: x, y, text; `area` in square points for the usual size, `rim` as for points."""
    if marks.empty:
        return
    edge = SURFACE.light if rim and not look.edge else look.colour
    drawn = axes.scatter(
        marks["x"],
        marks["y"],
        s=look.size**2 * area,
        marker=look.shape,
        color=look.fill,
        edgecolors=None if look.is_line else edge,
        linewidths=look.edge or rim,
        alpha=opacity,
        zorder=_MARKS,
        clip_on=False,  # no mark lies outside the axes; a clip path for each would triple the file
    )
    drawn.set_in_layout(False)
    _hover(drawn, marks)


def draw_averages(axes: Axes, averages: pd.DataFrame) -> None:
    """Join the averages of each hue by a line, with a band where it has one: x, y, hue, and if known low and high.

    A row without y interrupts the line.
    """
    for hue, line in _by_hue(averages):
        banded = line.reindex(columns=["x", "low", "high"]).dropna()
        if len(banded):
            axes.fill_between(banded["x"], banded["low"], banded["high"], color=colour(hue), alpha=_BAND, linewidth=0)
        axes.plot(line["x"], line["y"], color=colour(hue), linestyle=dashes(hue), zorder=_MARKS)


def draw_intervals(axes: Axes, intervals: pd.DataFrame, *, along: Literal["x", "y"] = "x", width: float = 1.5) -> None:
    """Draw intervals of an axis as lines: low, high, hue, the place on the other axis (y or x), and if known text."""
    if intervals.empty:
        return
    ends = intervals[["y" if along == "x" else "x", "low", "high"]].to_numpy(dtype=float)
    lines = LineCollection(
        [[(low, at), (high, at)] if along == "x" else [(at, low), (at, high)] for at, low, high in ends],
        colors=_colours(intervals),
        linewidths=width,
        zorder=_MARKS,
    )
    _hover(lines, intervals)
    axes.add_collection(lines)


def draw_lines(axes: Axes, points: pd.DataFrame) -> None:
    """Draw a line for each trial, a distribution or a series over time: trial_id, x, y, hue, exclusion.

    The rows of a trial stand in the order of its line; a row without y interrupts it.
    """
    for hue, of_hue in _by_hue(points):
        for is_excluded, rows in of_hue.groupby(of_hue["exclusion"].notna()):
            axes.add_collection(
                LineCollection(
                    [line[["x", "y"]].to_numpy(dtype=float) for _, line in rows.groupby("trial_id", sort=True)],
                    colors=colour(hue),
                    linestyles=[_DOTS if is_excluded else dashes(hue)],
                    linewidths=1.0,
                    alpha=_FAINT,
                )
            )


def draw_bars(axes: Axes, bars: pd.DataFrame, *, height: float = BAR) -> None:
    """Draw bars along rows: y, low, high, hue, opacity, and if known text; `height` in rows."""
    if bars.empty:
        return
    half, ends = height / 2, bars[["y", "low", "high"]].to_numpy(dtype=float)
    drawn = PolyCollection(
        [[(low, y - half), (low, y + half), (high, y + half), (high, y - half)] for y, low, high in ends],
        facecolors=[
            mpl.colors.to_rgba(tone, opacity)
            for tone, opacity in zip(_colours(bars), numbers(bars["opacity"]), strict=True)
        ],
        edgecolors=SURFACE.light,
        linewidths=0.6,
    )
    _hover(drawn, bars)
    axes.add_collection(drawn)


def draw_shares(axes: Axes, shares: pd.DataFrame, hues: Mapping[str, int]) -> None:
    """Draw rows of stacked shares of 1: y, part, share, text, faint; `hues` has the parts in their order.

    Faint rows are paler. A row's shares add up to 1 at most.
    """
    ends = shares.assign(place=shares["part"].map(list(hues).index)).sort_values(["y", "place"])
    highs = ends.groupby("y")["share"].cumsum()
    opacities = ends["faint"].map({True: _PALE, False: 1.0})
    bars = ends.assign(low=highs - ends["share"], high=highs, hue=ends["part"].map(hues), opacity=opacities)
    draw_bars(axes, bars[bars["share"] > 0])


def spread_over_bar(trials: pd.DataFrame, y: float) -> pd.DataFrame:
    """Return the trials of a row as points, by their column value: x, y; over the height of a bar, the first on top."""
    last = len(trials) - 1
    places = [y + 0.76 * BAR * (i / last - 0.5) if last else y for i in range(len(trials))]
    return trials.assign(x=trials["value"], y=places)


def shade(axes: Axes, low: float, high: float) -> None:
    """Shade a range of x, behind everything."""
    axes.axvspan(low, high, color=GRID.light, alpha=_SHADE, linewidth=0, zorder=0)


def shade_window(axes: Axes, durations_s: pd.Series[float]) -> None:
    """Shade the measured window, by the median of the durations of trials that start at 0; nothing without any."""
    if durations_s.notna().any():
        shade(axes, 0, float(durations_s.median()))


def draw_reference(
    axes: Axes,
    value: float,
    *,
    along: Literal["x", "y"] = "y",
    hue: int | None = None,
    style: Literal["-", "--", ":"] = "--",
) -> None:
    """Draw a line across a panel at a value of an axis, muted or in the colour of a level."""
    draw = axes.axhline if along == "y" else axes.axvline
    draw(value, color=MUTED.light if hue is None else colour(hue), linestyle=style, linewidth=0.9, zorder=1)


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


def _hover(marks: Collection, frame: pd.DataFrame) -> None:
    if "text" in frame:
        hover(marks, *frame["text"])
