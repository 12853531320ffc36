"""Rate, CPU per request and memory against a numeric factor, connections first of all."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MultipleLocator

from benchkit import units
from benchkit.comparison.trends import Trend
from benchkit.report.cell_lines import MAX_LINES, PREFERRED, Line, lines_along, numeric_factor, set_factor_axes
from benchkit.report.figures.figure import ReportFigure, more_in_table, provenance
from benchkit.report.layout import line_legend, new_figure
from benchkit.report.stored_run import StoredRun
from benchkit.report.style import colour, dashes, styled
from benchkit.report.tables import Table
from benchkit.report.trend_tables import connection_memory_along, is_bent, laws_along, trend_table, trends_along
from benchkit.report.trial_marks import HOLLOW, Mark, draw_marks

_HEIGHT_IN = 3.4
_SIZE_TICKS = 5
"""Ticks of a size at most; they are a power of two apart, as sizes are written with binary prefixes."""


@dataclass(frozen=True)
class _Measure:
    """A panel of the figure: a metric, its heading, and the text of its values."""

    metric: str
    heading: str
    text: Callable[[float | None], str]


_MEASURES = (
    _Measure("rps", "requests per second", units.rate),
    _Measure("server_cpu_s_per_request", "server CPU per request", units.seconds),
    _Measure("server_memory_bytes", "server memory", units.size),
)


def is_available(run: StoredRun) -> bool:
    """Return True if any line has a rate at two levels."""
    factor = numeric_factor(run)
    return factor is not None and any(_measured_cells(run, line, "rps") > 1 for line in lines_along(run, factor))


def title(run: StoredRun) -> str:
    """Return the figure's heading, which names the factor."""
    return f"Rate, CPU per request and memory against {numeric_factor(run)}"


def alt(run: StoredRun) -> str:
    """Describe the means at the ends of each line."""
    factor = numeric_factor(run) or ""
    ends = []
    for line in lines_along(run, factor):
        points = _means(run, line, "rps")
        if len(points) > 1:
            (low, first), (high, last) = points[0], points[-1]
            ends.append(f"{line.name} {units.rate(first)} at {low:g}, {units.rate(last)} at {high:g}")
        elif _measured_cells(run, line, "rps") > 1:
            ends.append(f"{line.name} too few included trials")
    return f"Line charts against {factor}; mean requests per second: {'; '.join(ends)}."


def caption(run: StoredRun) -> str:
    """Explain lines, points and bands."""
    has_bands = any(_bands(run, measure) for measure in _known_measures(run))
    return (
        "Lines join the means over the included trials of a cell; each point is one trial. CPU is that of all services of "
        "the stack over the measured window, per request, and memory the most that was resident in it."
        + (
            " Shaded: the band of a power law through all levels, fitted block by block "
            f"({1 - run.data.alpha:.0%} for the whole line at once); it is omitted if means depart from the power law."
            if has_bands
            else ""
        )
        + _laws(run)
        + _memory(run)
        + more_in_table(len(lines_along(run, numeric_factor(run) or "")) - MAX_LINES, "line")
    )


@styled
def draw(run: StoredRun) -> Figure:
    """Draw a panel for the rate and, where they are known, for CPU and memory."""
    factor = numeric_factor(run) or ""
    lines = lines_along(run, factor)[:MAX_LINES]
    measures = [each for each in _MEASURES if any(_measured_cells(run, line, each.metric) for line in lines)]
    has_exclusions = any(run.values(measure.metric).has_exclusions for measure in measures)
    figure = new_figure(
        _HEIGHT_IN,
        title=title(run),
        subtitle=[
            "line: means \N{MIDDLE DOT} point: one trial" + (f" \N{MIDDLE DOT} {HOLLOW}" if has_exclusions else "")
        ],
        source=provenance(run),
        legend=line_legend({hue: line.name for hue, line in enumerate(lines)}),
    )
    panels = figure.subplots(1, len(measures), squeeze=False)
    for axes, measure in zip(panels.flat, measures, strict=True):
        bands = _bands(run, measure)
        for hue, line in enumerate(lines):
            if line.name in bands:
                _draw_band(axes, bands[line.name], hue)
            _draw_line(axes, run, line, measure, hue)
        set_factor_axes(axes, measure.heading, measure.text, factor, lines)
        if measure.text is units.size:
            axes.yaxis.set_major_locator(MultipleLocator(2 ** math.ceil(math.log2(axes.get_ylim()[1] / _SIZE_TICKS))))
    return figure


def table(run: StoredRun) -> Table | None:
    """Return the trends of the drawn metrics."""
    return trend_table(run, tuple(each.metric for each in _known_measures(run)), "figure-connections")


FIGURE = ReportFigure(
    name="connections",
    title="Rate, CPU per request and memory against load",
    is_available=is_available,
    alt=alt,
    caption=caption,
    see="A line that falls to the right is a server that loses speed as connections are added.",
    draw=draw,
    table=table,
)


def _laws(run: StoredRun) -> str:
    """Return a sentence on the Universal Scalability Law of each line over connections; empty where none is fitted."""
    laws = laws_along(run, PREFERRED) if numeric_factor(run) == PREFERRED else {}
    if not laws:
        return ""
    shown = [f"{name}: {law.text}" for name, law in laws.items()][:MAX_LINES]
    interval = f"with {1 - run.data.alpha:.0%} intervals over blocks"
    return f" Universal Scalability Law of the rate, {interval}: {'; '.join(shown)}."


def _memory(run: StoredRun) -> str:
    """Return a sentence on the memory per connection of each line; empty where it is unknown."""
    found = connection_memory_along(run) if numeric_factor(run) == PREFERRED else {}
    if not found:
        return ""
    shown = [f"{name}: {memory.text}" for name, memory in found.items()][:MAX_LINES]
    return f" Memory per connection (slope, {1 - run.data.alpha:.0%} intervals over blocks): {'; '.join(shown)}."


def _known_measures(run: StoredRun) -> list[_Measure]:
    """Return the measures that any trial has."""
    return [each for each in _MEASURES if run.values(each.metric).by_cell]


def _bands(run: StoredRun, measure: _Measure) -> dict[str, Trend]:
    """Return the trends that follow a power law, by the names of the lines."""
    trends = trends_along(run, numeric_factor(run) or "", measure.metric)
    return {name: trend for name, trend in trends.items() if trend.points and not is_bent(trend)}


def _draw_band(axes: Axes, trend: Trend, hue: int) -> None:
    low, high = [point.band_low for point in trend.points], [point.band_high for point in trend.points]
    axes.fill_between([point.level for point in trend.points], low, high, color=colour(hue), alpha=0.16, linewidth=0)


def _measured_cells(run: StoredRun, line: Line, metric: str) -> int:
    """Return the number of a line's cells that have a value, excluded or not."""
    return sum(cell_id in run.values(metric).by_cell for _, cell_id in line.cells)


def _means(run: StoredRun, line: Line, metric: str) -> list[tuple[float, float]]:
    """Return (level, mean over the included trials) of the cells that have such trials."""
    means = run.values(metric).means
    return [(level, means[cell_id]) for level, cell_id in line.cells if cell_id in means]


def _draw_line(axes: Axes, run: StoredRun, line: Line, measure: _Measure, hue: int) -> None:
    if means := _means(run, line, measure.metric):
        axes.plot(*np.array(means).T, color=colour(hue), linestyle=dashes(hue))
    marks = [
        Mark(
            level, each.value, f"{line.name}, {level:g}, block {each.block}: {measure.text(each.value)}", each.exclusion
        )
        for level, cell_id in line.cells
        for each in run.values(measure.metric).of_cell(cell_id)
    ]
    draw_marks(axes, hue, marks)
