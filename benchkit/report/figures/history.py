"""The figure of a history: the runs of a series with intervals, and its levels with their shifts."""

from __future__ import annotations

import math
from itertools import pairwise

import pandas as pd

from benchkit import units
from benchkit.models.metrics import metric_named
from benchkit.report.chart import Chart, Panel, Scale, line_legend, notes
from benchkit.report.figure import Drawing, draw_chart
from benchkit.report.layers import averages, intervals, marks, points, reference
from benchkit.report.style import MUTED, MarkStyle
from benchkit.run_history.series import History, HistorySeries

MAX_DATES = 6
CLEAR_RUNS = 100
"""Runs up to which points and intervals are drawn at full size without covering each other."""
_MAX_HUES = 4
"""Hosts and settings that the legend names."""
_UNUSED = MarkStyle("x", MUTED.light)


def draw_series(history: History, series: HistorySeries) -> Drawing:
    """Draw the runs of a series in their order, used ones with intervals, and the levels between shifts."""
    metric = metric_named(history.metric)
    hues = {segment.number: hue for hue, segment in enumerate(series.segments)}
    scale = _scale(history, series)
    used, unused = _used_points(series, hues), _unused_points(series, scale)
    thinner = min(1.0, CLEAR_RUNS / len(series.points))
    layers = [
        *(reference(first - 0.5, along="x") for first in _steps(series)[1:-1]),
        intervals(used, along="y", width=max(0.3, 0.8 * thinner)),
        points(used, area=max(4.0, 30 * thinner)),
        averages(_levels(series)),
        marks(unused, _UNUSED, area=18),
    ]
    title = f"{metric.title} of {series.title}"
    runs = units.counted(len(series.points), "run")
    chart = Chart(
        caption=f"{title} over {runs}: {' '.join(series.sentences)}",
        panels=[Panel(layers, scale)],
        x=_dates(series),
        subtitle=[
            notes(
                "point: one run with its 95 % interval, in the order of time",
                "line: level",
                "dashed: shift" if series.shifts else None,
                "cross: not used" if len(unused) else None,
            )
        ],
        legend=line_legend(
            {hue: f"hosts and settings {hue + 1}" for hue in range(min(len(hues), _MAX_HUES)) if len(hues) > 1}
        ),
    )
    key = f"{history.scenario} {series.scale} {history.metric} {series.title} {series.points[0].run_id}"
    source = f"{history.scenario}, {series.scale} scale, {runs}"
    return draw_chart(chart, "history", title, source=source, key=key)


def _scale(history: History, series: HistorySeries) -> Scale:
    metric = metric_named(history.metric)
    ends = [end for point in series.points if point.is_used for end in (point.low, point.high) if end] or [0.5, 2.0]
    low, high = min(ends) / 1.01, max(ends) * 1.01
    if series.baseline is None:
        return Scale(metric.format, metric.title, low, high, kind="log")
    return Scale("{:g}".format, "ratio to the baseline", low, high, kind="log")


def _dates(series: HistorySeries) -> Scale:
    """Return the scale of the order of runs, with the dates of some, or with times where these share a date."""
    count = len(series.points)
    chosen = range(0, count, math.ceil(count / MAX_DATES))
    dates = {place: f"{series.points[place].started_at:%Y-%m-%d}" for place in chosen}
    if len(set(dates.values())) < len(dates):
        dates = {place: f"{series.points[place].started_at:%m-%d %H:%M}" for place in chosen}
    return Scale(lambda place: dates.get(round(place), ""), low=-0.8, high=count - 0.2, places=chosen)


def _used_points(series: HistorySeries, hues: dict[int, int]) -> pd.DataFrame:
    """Return the used runs: x, y, low, high, hue."""
    rows = [
        (x, point.value or None, point.low or None, point.high or None, hues.get(point.segment))
        for x, point in enumerate(series.points)
        if point.is_used
    ]
    return pd.DataFrame(rows, columns=["x", "y", "low", "high", "hue"])


def _unused_points(series: HistorySeries, scale: Scale) -> pd.DataFrame:
    """Return a mark at the lower edge for each unused run: x, y."""
    low, high = scale.low or 1.0, scale.high or 1.0
    unused = [x for x, point in enumerate(series.points) if not point.is_used]
    return pd.DataFrame({"x": unused, "y": low * (high / low) ** 0.02})


def _steps(series: HistorySeries) -> list[int]:
    """Return the places of the runs with which levels begin, and the end of the series."""
    places = {point.run_id: x for x, point in enumerate(series.points)}
    return [0, *(places[shift.first_run] for shift in series.shifts), len(series.points)]


def _levels(series: HistorySeries) -> pd.DataFrame:
    """Return the lines of the levels, with an interruption after each: x, y."""
    rows: list[tuple[float, float]] = []
    for start, end in pairwise(_steps(series)):
        logs = [math.log(point.value) for point in series.points[start:end] if point.is_used and point.value]
        if logs:
            level = math.exp(sum(logs) / len(logs))
            rows += [(start - 0.4, level), (end - 0.6, level), (end - 0.6, math.nan)]
    return pd.DataFrame(rows, columns=["x", "y"])
