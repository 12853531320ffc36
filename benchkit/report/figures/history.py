"""The figure of a series of a scenario's history: its runs with intervals, its levels and their shifts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from benchkit import units
from benchkit.models.columns import Metric
from benchkit.models.metrics import metric_named
from benchkit.report.layout import new_figure
from benchkit.report.rendering import RenderedFigure, render_figure
from benchkit.report.style import colour, drawable, hover, marker, styled, tick
from benchkit.report.theme import INK, MUTED
from benchkit.run_history.series import History, HistorySeries, Point

HEIGHT_IN = 3.2
MAX_DATES = 6
CLEAR_RUNS = 100
"""Runs whose points and intervals can be drawn at full size without covering each other."""
WIDE = 3.0
"""Largest value over the smallest from which on the axis is logarithmic with decades."""


def render_series(history: History, series: HistorySeries) -> RenderedFigure:
    """Return the figure of a series as SVG file, PNG file and SVG element of a page."""
    title = f"{metric_named(history.metric).title} of {series.title}"
    key = f"{history.scenario} {series.scale} {history.metric} {series.title} {series.points[0].run_id}"
    return render_figure(draw_series(history, series), title=title, alt=alt(history, series), key=key)


def alt(history: History, series: HistorySeries) -> str:
    """Describe the series: its runs and its shifts."""
    runs = units.counted(len(series.points), "run")
    name = f"{metric_named(history.metric).title} of {series.title}"
    return f"Series of {name} over {runs}. {' '.join(series.sentences)}"


@styled
def draw_series(history: History, series: HistorySeries) -> Figure:
    """Draw the runs of a series in their order, used ones with intervals, and the levels between its steps."""
    metric = metric_named(history.metric)
    used = [(x, point) for x, point in enumerate(series.points) if point.is_used]
    unused = [(x, point) for x, point in enumerate(series.points) if not point.is_used]
    figure = new_figure(
        HEIGHT_IN,
        title=f"{metric.title} of {series.title}",
        subtitle=["point: one run with its 95 % interval, in the order of time"],
        source=f"{history.scenario}, {series.scale} scale, {units.counted(len(series.points), 'run')}",
        legend=_legend(series, has_unused=bool(unused)),
    )
    axes = figure.add_subplot()
    _draw_points(axes, series, used, metric)
    _draw_levels(axes, series)
    if unused:
        _draw_unused(axes, unused)
    _label_axes(axes, series, metric)
    return figure


def _legend(series: HistorySeries, *, has_unused: bool) -> list[tuple[Line2D, str]]:
    entries = [
        (Line2D([], [], color=colour(i), marker=marker(i), ls="", markersize=5), f"hosts and settings {i + 1}")
        for i in range(min(len(_hues(series)), 4))
        if len(_hues(series)) > 1
    ]
    entries += [(Line2D([], [], color=INK.light, lw=1.6), "level")]
    if series.shifts:
        entries += [(Line2D([], [], color=MUTED.light, ls=(0, (4, 2))), "shift")]
    if has_unused:
        entries += [(Line2D([], [], color=MUTED.light, marker="x", ls="", markersize=5), "not used")]
    return entries


def _hues(series: HistorySeries) -> dict[int, int]:
    return {segment.number: i for i, segment in enumerate(series.segments)}


def _draw_points(axes: Axes, series: HistorySeries, used: Sequence[tuple[int, Point]], metric: Metric) -> None:
    hues = _hues(series)
    thinner = min(1.0, CLEAR_RUNS / len(series.points))
    for number, hue in hues.items():
        of_segment = [(x, point) for x, point in used if point.segment == number]
        if not of_segment:
            continue
        places = [x for x, _ in of_segment]
        values = [point.value or math.nan for _, point in of_segment]
        axes.vlines(
            places,
            [point.low or math.nan for _, point in of_segment],
            [point.high or math.nan for _, point in of_segment],
            color=colour(hue),
            linewidth=max(0.3, 0.8 * thinner),
            alpha=0.6,
        )
        marks = axes.scatter(places, values, color=colour(hue), marker=marker(hue), s=max(4.0, 18 * thinner), zorder=3)
        hover(marks, *(_text(series, point, metric) for _, point in of_segment))


def _draw_levels(axes: Axes, series: HistorySeries) -> None:
    """Draw the level of each stretch between steps, the line of a drift, and a line where a step begins."""
    places = {point.run_id: x for x, point in enumerate(series.points)}
    steps = [shift for shift in series.shifts if shift.kind == "step"]
    for shift in steps:
        axes.axvline(places[shift.first_run] - 0.5, color=MUTED.light, linestyle=(0, (4, 2)), linewidth=1, zorder=1)
    bounds = [0, *(places[shift.first_run] for shift in steps), len(series.points)]
    drifting = [range(places[s.last_good_run], places[s.first_run] + 1) for s in series.shifts if s.kind == "drift"]
    for start, end in pairwise(bounds):
        logs = [math.log(p.value) for p in series.points[start:end] if p.is_used and p.value]
        if logs and not any(start <= place < end for drift in drifting for place in (drift[0], drift[-1])):
            level = math.exp(sum(logs) / len(logs))
            axes.plot([start - 0.4, end - 0.6], [level, level], color=INK.light, lw=1.6, zorder=4)
    for drift, shift in zip(drifting, (s for s in series.shifts if s.kind == "drift"), strict=True):
        logs = [math.log(p.value) for p in series.points[drift[0] : drift[-1] + 1] if p.is_used and p.value]
        middle = sum(logs) / len(logs)
        half = math.log(shift.ratio) / 2
        ends = [math.exp(middle - half), math.exp(middle + half)]
        axes.plot([drift[0], drift[-1]], ends, color=INK.light, lw=1.6, zorder=4)


def _draw_unused(axes: Axes, unused: Sequence[tuple[int, Point]]) -> None:
    """Mark runs without a usable interval at the lower edge, whatever their value is."""
    marks = axes.scatter(
        [x for x, _ in unused],
        [0.02] * len(unused),
        transform=axes.get_xaxis_transform(),
        color=MUTED.light,
        marker="x",
        s=18,
        zorder=3,
        clip_on=False,
    )
    hover(marks, *(f"{point.run_id}: not used, {point.note}" for _, point in unused))


def _label_axes(axes: Axes, series: HistorySeries, metric: Metric) -> None:
    count = len(series.points)
    axes.set_xlim(-0.8, count - 0.2)
    ends = [end for point in series.points if point.is_used for end in (point.low, point.high) if end] or [0.5, 2.0]
    low, high = min(ends) / 1.01, max(ends) * 1.01
    axes.set_ylim(low, high)
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(
        LogLocator(subs=(1, 2, 5)) if high / low > WIDE else MaxNLocator(nbins=5, steps=[1, 2, 2.5, 5, 10])
    )
    axes.yaxis.set_minor_formatter(NullFormatter())
    if series.baseline is None:
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: tick(metric.format(value))))
        axes.set_ylabel(drawable(metric.title))
    else:
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.set_ylabel("ratio to the baseline")
    chosen = range(0, count, math.ceil(count / MAX_DATES))
    dates = [f"{series.points[x].started_at:%Y-%m-%d}" for x in chosen]
    if len(set(dates)) < len(dates):
        dates = [f"{series.points[x].started_at:%m-%d %H:%M}" for x in chosen]
    axes.set_xticks(list(chosen), dates)
    axes.grid(visible=False, axis="x")


def _text(series: HistorySeries, point: Point, metric: Metric) -> str:
    shown = units.ratio if series.baseline is not None else metric.format
    about = " ".join(filter(None, (point.code or "", *(f"{k}={v}" for k, v in point.tags.items()))))
    return f"{point.run_id} {about}: {shown(point.value)} ({shown(point.low)} to {shown(point.high)})"
