"""Four kinds of panel, drawn from tidy frames: points with intervals, distributions, series over time, stacked shares.

A frame has a row for each mark; each function names the columns that it reads. `hue` is the number of the level, which
gives colour, marker and dashes; `exclusion` is the reason why a trial is excluded (None if it is not): such trials are
drawn hollow or dotted, never hidden; `text` is shown when a reader points at the mark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import matplotlib as mpl
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, MultipleLocator, NullFormatter, NullLocator

from benchkit.report.figures.figure import provenance
from benchkit.report.layout import line_legend, new_figure, panel_grid, panel_height
from benchkit.report.stored_run import StoredRun
from benchkit.report.style import colour, dashes, hover, marker, tick
from benchkit.report.theme import GRID, INK, SURFACE, Tone

HOLLOW = "hollow: excluded"
DOTTED = "dotted: excluded"
"""Notes in the subtitle of a figure that has such marks or lines."""

_DOTS: Any = (0, (1, 2.2))
"""Line style of no level; those of levels are `benchkit.report.style.DASHES`."""
_RIM, _FAINT, _BAND, _BAR = 0.9, 0.75, 0.16, 0.68
_FEW_DECADES = 200.0
"""Ratio of the ends of a logarithmic axis up to which there is room for the ticks 2 and 5 between decades."""


@dataclass(frozen=True)
class Scale:
    """Declaration of an axis: the text of its ticks, its label, and its ends (None: it ends where the data do)."""

    text: Callable[[float], str]
    label: str = ""
    low: float | None = None
    high: float | None = None
    kind: Literal["linear", "log", "symlog"] = "linear"
    ticks: int = 5
    whole: bool = False
    """True if ticks are whole numbers, as seconds are."""

    def apply(self, axes: Axes, name: Literal["x", "y"]) -> None:
        """Set up one axis of a panel, and of all panels that share it."""
        axis = axes.xaxis if name == "x" else axes.yaxis
        getattr(axes, f"set_{name}scale")(self.kind, **({"linthresh": 10} if self.kind == "symlog" else {}))
        if (self.low is not None or self.high is not None) and self.low != self.high:
            getattr(axes, f"set_{name}lim")(self.low, self.high)
        if self.kind == "linear":
            axis.set_major_locator(MaxNLocator(nbins=self.ticks, min_n_ticks=2, integer=self.whole))
        elif self.kind == "log":
            low, high = axis.get_view_interval()
            axis.set_major_locator(LogLocator(subs=(1, 2, 5) if high / low < _FEW_DECADES else (1,), numticks=12))
            axis.set_minor_locator(NullLocator())
            axis.set_minor_formatter(NullFormatter())
        axis.set_major_formatter(FuncFormatter(lambda value, _: tick(self.text(value))))


@dataclass(frozen=True)
class Declaration:
    """Declaration of a figure of several panels with shared scales: all that is not in its data."""

    title: str
    notes: Sequence[str]
    """Subtitle, line by line."""
    legend: Mapping[int, str]
    """Names of the hues; empty for a figure without a legend."""
    x: Scale
    y: Scale


def draw_panels(
    run: StoredRun, declaration: Declaration, panels: Sequence[str], draw: Callable[[Axes, str], None]
) -> Figure:
    """Draw a figure of panels in rows of three; `draw` fills the panel of a name."""
    figure = new_figure(
        panel_height(len(panels)),
        title=declaration.title,
        subtitle=declaration.notes,
        source=provenance(run),
        legend=line_legend(declaration.legend),
    )
    grid = panel_grid(figure, panels, x_label=declaration.x.label, y_label=declaration.y.label)
    for name, axes in grid.items():
        draw(axes, name)
    first = grid[panels[0]]
    declaration.x.apply(first, "x")
    declaration.y.apply(first, "y")
    return figure


def notes(*parts: str | None) -> str:
    """Return a line of a subtitle: the parts that apply, with dots between them."""
    return " \N{MIDDLE DOT} ".join(filter(None, parts))


def draw_points(axes: Axes, points: pd.DataFrame, *, area: float = 13.0, rim: float = 0.0) -> None:
    """Draw trials as marks: x, y, hue, text, exclusion; `area` in square points, `rim` the width of a light edge."""
    for hue, hollow, drawn in _by_hue(points):
        tone = colour(hue)
        marks = axes.scatter(
            drawn["x"],
            drawn["y"],
            s=area,
            marker=marker(hue),
            color=SURFACE.light if hollow else tone,
            edgecolors=tone if hollow else SURFACE.light,
            linewidths=(2 * rim or _RIM) if hollow else rim,
            alpha=None if hollow or rim else _FAINT,
            zorder=3,
            clip_on=False,  # no mark lies outside the axes; a clip path for each would triple the file
        )
        marks.set_in_layout(False)
        hover(marks, *(drawn["text"] + " (" + drawn["exclusion"] + ")" if hollow else drawn["text"]))


def draw_averages(axes: Axes, averages: pd.DataFrame) -> None:
    """Join the averages of each hue by a line, with a band where it is known: x, y, hue, low, high (NaN: no band)."""
    for hue, _, line in _by_hue(averages.assign(exclusion=None)):
        banded = line.dropna(subset=["low", "high"])
        if len(banded):
            axes.fill_between(banded["x"], banded["low"], banded["high"], color=colour(hue), alpha=_BAND, linewidth=0)
        axes.plot(line["x"], line["y"], color=colour(hue), linestyle=dashes(hue))


def draw_intervals(axes: Axes, intervals: pd.DataFrame) -> None:
    """Draw intervals along rows as lines over everything else: y, low, high, text."""
    if intervals.empty:
        return
    lines = LineCollection(
        [[(low, y), (high, y)] for y, low, high in intervals[["y", "low", "high"]].to_numpy(dtype=float)],
        colors=INK.light,
        linewidths=1.4,
        zorder=4,
    )
    hover(lines, *intervals["text"])
    axes.add_collection(lines)


def draw_lines(axes: Axes, points: pd.DataFrame) -> None:
    """Draw a line for each trial, a distribution or a series over time: trial_id, x, y, hue, exclusion.

    The rows of a trial stand in the order of its line; a row without y interrupts it.
    """
    for hue, is_excluded, rows in _by_hue(points):
        axes.add_collection(
            LineCollection(
                [line[["x", "y"]].to_numpy(dtype=float) for _, line in rows.groupby("trial_id", sort=True)],
                colors=colour(hue),
                linestyles=[_DOTS if is_excluded else dashes(hue)],
                linewidths=1.0,
                alpha=_FAINT,
            )
        )


def shade_window(axes: Axes, durations_s: pd.Series[float]) -> None:
    """Shade the measured window, by the median of the durations of trials that start at 0; nothing without any."""
    if durations_s.notna().any():
        axes.axvspan(0, float(durations_s.median()), color=GRID.light, alpha=0.55, linewidth=0, zorder=0)


def draw_limits(axes: Axes, limits: Mapping[int, float]) -> None:
    """Draw limits of values as dashed lines, by the number of their series."""
    for hue, limit in limits.items():
        axes.axhline(limit, color=colour(hue), linestyle="--", linewidth=0.8, zorder=1)


def part_legend(tones: Mapping[str, tuple[Tone, float]]) -> list[tuple[Artist, str]]:
    """Return the legend of stacked shares: the colour of each part, with its opacity."""
    return [(Patch(facecolor=mpl.colors.to_rgba(tone.light, opacity)), part) for part, (tone, opacity) in tones.items()]


def draw_shares(axes: Axes, shares: pd.DataFrame, tones: Mapping[str, tuple[Tone, float]]) -> None:
    """Draw rows of stacked shares of 1: y, part, share, text, faint; `tones` has the parts in their order.

    Each part has its colour and opacity; faint rows are paler. A row's shares add up to 1 at most.
    """
    ends = shares.assign(place=shares["part"].map(list(tones).index)).sort_values(["y", "place"])
    ends["high"] = ends.groupby("y")["share"].cumsum()
    ends["low"] = ends["high"] - ends["share"]
    for part, (tone, opacity) in tones.items():
        drawn = ends[(ends["part"] == part) & (ends["share"] > 0)]
        if drawn.empty:
            continue
        bars = PolyCollection(
            [bar(y, low, high, _BAR) for y, low, high in drawn[["y", "low", "high"]].to_numpy(dtype=float)],
            facecolors=[mpl.colors.to_rgba(tone.light, opacity * (0.45 if faint else 1)) for faint in drawn["faint"]],
            edgecolors=SURFACE.light,
            linewidths=0.6,
        )
        hover(bars, *drawn["text"])
        axes.add_collection(bars)
    axes.set_xlim(0, 1)
    axes.xaxis.set_major_locator(MultipleLocator(0.25))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0%}"))


def bar(y: float, low: float, high: float, height: float) -> list[tuple[float, float]]:
    """Return the corners of a bar along a row."""
    top, bottom = y - height / 2, y + height / 2
    return [(low, top), (low, bottom), (high, bottom), (high, top)]


def _by_hue(frame: pd.DataFrame) -> Iterator[tuple[int, bool, pd.DataFrame]]:
    """Yield the rows of each hue, included ones first: (hue, True if they are excluded, rows)."""
    is_excluded = frame["exclusion"].notna()
    for hue in sorted(set(frame["hue"])):
        for excluded in (False, True):
            rows = frame[(frame["hue"] == hue) & (is_excluded == excluded)]
            if len(rows):
                yield int(hue), excluded, rows
