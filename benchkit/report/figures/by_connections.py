"""Rate and CPU per request against a factor in numbers, connections first of all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchkit import units
from benchkit.analysis.trend import Trend
from benchkit.report.cell_lines import Line, dress, factor_of, lines_of
from benchkit.report.figure_frame import EDGE_IN, WIDTH_IN, framed
from benchkit.report.figures.figure import ReportFigure, provenance
from benchkit.report.stored_run import StoredRun, numbers
from benchkit.report.style import colour, dashes, styled
from benchkit.report.tables import Table
from benchkit.report.trend_tables import bends, trend_table, trends_along
from benchkit.report.trial_marks import HOLLOW, Mark, any_void, draw_marks

MOST_LINES = 12

_ABOVE_IN, _HEIGHT_IN, _AXIS_IN, _LEFT_IN, _GAP_IN = 0.26, 2.6, 0.5, 0.78, 0.3


@dataclass(frozen=True)
class _Measure:
    column: str
    heading: str
    text: Callable[[float | None], str]


_MEASURES = (
    _Measure("rps", "requests per second", units.rate),
    _Measure("server_cpu_s_per_request", "server CPU per request", units.seconds),
)


def available(run: StoredRun) -> bool:
    """Whether any line has two levels with a rate."""
    factor = factor_of(run)
    return factor is not None and any(_there(run, line, "rps") > 1 for line in lines_of(run, factor))


def title(run: StoredRun) -> str:
    """The figure's heading, which names the factor."""
    return f"Rate and CPU per request against {factor_of(run)}"


def alt(run: StoredRun) -> str:
    """The medians at the ends of each line, in words; lines without two of them are said to be so."""
    factor = factor_of(run) or ""
    said = []
    for line in lines_of(run, factor):
        points = _points(run, line, "rps")
        if len(points) > 1:
            (low, first), (high, last) = points[0], points[-1]
            said.append(f"{line.name} {units.rate(first)} at {low:g}, {units.rate(last)} at {high:g}")
        elif _there(run, line, "rps") > 1:
            said.append(f"{line.name} too few trials that count")
    return f"Line charts against {factor}; median requests per second: {'; '.join(said)}."


def caption(run: StoredRun) -> str:
    """What lines and points are."""
    more = len(lines_of(run, factor_of(run) or "")) - MOST_LINES
    return (
        "Lines join the medians over the trials of a cell that count; each point is one trial. CPU is that of all services "
        "of the stack over the measured window, per request."
        + (
            f" Shaded: where a power law through all levels lies, fitted block by block ({1 - run.data.alpha:.0%} for the whole "
            "line at once); not where medians bend away from it."
            if any(_bands(run, measure) for measure in _MEASURES if numbers(run.measured[measure.column]).notna().any())
            else ""
        )
        + (f" {units.counted(more, 'line')} more are left out; the table has all." if more > 0 else "")
    )


@styled
def draw(run: StoredRun) -> Figure:
    """The figure: a panel for the rate and, where it is known, one for the CPU."""
    factor = factor_of(run) or ""
    lines = lines_of(run, factor)[:MOST_LINES]
    measures = [each for each in _MEASURES if any(_there(run, line, each.column) for line in lines)]
    frame = framed(
        height_in=_ABOVE_IN + _HEIGHT_IN + _AXIS_IN,
        title=title(run),
        subtitle=[
            "line: medians \N{MIDDLE DOT} point: one trial"
            + (f" \N{MIDDLE DOT} {HOLLOW}" if _hollow(run, measures) else "")
        ],
        foot=provenance(run),
        legend={hue: line.name for hue, line in enumerate(lines)},
    )
    width_in = (WIDTH_IN - 2 * EDGE_IN) / len(measures)
    for i, measure in enumerate(measures):
        left_in = EDGE_IN + width_in * i + _LEFT_IN
        axes = frame.axes(left_in, _ABOVE_IN, width_in - _LEFT_IN - _GAP_IN, _HEIGHT_IN)
        bands = _bands(run, measure)
        for hue, line in enumerate(lines):
            if line.name in bands:
                _draw_band(axes, bands[line.name], hue)
            _draw_line(axes, run, line, measure, hue)
        dress(axes, measure.heading, measure.text, factor, lines)
    return frame.figure


def table(run: StoredRun) -> Table | None:
    """The trends of what is drawn."""
    drawn = tuple(each.column for each in _MEASURES if numbers(run.measured[each.column]).notna().any())
    return trend_table(run, drawn, "figure-connections")


FIGURE = ReportFigure(
    name="connections",
    title="Rate and CPU per request against load",
    available=available,
    alt=alt,
    caption=caption,
    draw=draw,
    table=table,
)


def _bands(run: StoredRun, measure: _Measure) -> dict[str, Trend]:
    """The trends that are straight lines, by the lines' names."""
    found = trends_along(run, factor_of(run) or "", measure.column)
    return {name: trend for name, trend in found.items() if trend.points and not bends(trend)}


def _draw_band(axes: Axes, trend: Trend, hue: int) -> None:
    low, high = [point.band_low for point in trend.points], [point.band_high for point in trend.points]
    axes.fill_between([point.level for point in trend.points], low, high, color=colour(hue), alpha=0.16, linewidth=0)


def _hollow(run: StoredRun, measures: Sequence[_Measure]) -> bool:
    return any(any_void(run.measured, run.void(measure.column)) for measure in measures)


def _there(run: StoredRun, line: Line, column: str) -> int:
    """How many cells of a line have a figure, whether or not it counts."""
    with_figure = set(run.measured["cell_id"][run.measured[column].notna()])
    return sum(cell_id in with_figure for _, cell_id in line.cells)


def _points(run: StoredRun, line: Line, column: str) -> list[tuple[float, float]]:
    """(level, median over the trials that count) of the cells that have such trials."""
    medians = run.medians(column)
    return [(level, medians[cell_id]) for level, cell_id in line.cells if cell_id in medians]


def _draw_line(axes: Axes, run: StoredRun, line: Line, measure: _Measure, hue: int) -> None:
    if medians := _points(run, line, measure.column):
        axes.plot(*np.array(medians).T, color=colour(hue), linestyle=dashes(hue))
    trials, void = run.figures(measure.column), run.void(measure.column)
    marks = [
        Mark(level, value, f"{line.name}, {level:g}, block {block}: {measure.text(value)}", void.get(trial_id))
        for level, cell_id in line.cells
        for trial_id, block, value in trials.get(cell_id, ())
    ]
    draw_marks(axes, hue, marks)
