"""Rate and CPU per request against a factor in numbers, connections first of all."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchkit import units
from benchkit.report.figures.figure import ReportFigure, provenance
from benchkit.report.frame import EDGE_IN, WIDTH_IN, framed
from benchkit.report.lines import Line, dress, factor_of, lines_of
from benchkit.report.style import colour, dashes, hover, marker, styled
from benchkit.report.view import RunView, numbers

MOST_LINES = 12

_HEIGHT_IN, _AXIS_IN, _LEFT_IN, _GAP_IN = 2.7, 0.5, 0.78, 0.3


@dataclass(frozen=True)
class _Measure:
    column: str
    heading: str
    text: Callable[[float | None], str]


_MEASURES = (
    _Measure("rps", "requests per second", units.rate),
    _Measure("server_cpu_s_per_request", "server CPU per request", units.seconds),
)


def available(run: RunView) -> bool:
    """Whether any line has two levels with a rate."""
    factor = factor_of(run)
    return factor is not None and any(len(_points(run, line, "rps")) > 1 for line in lines_of(run, factor))


def title(run: RunView) -> str:
    """The figure's heading, which names the factor."""
    return f"Rate and CPU per request against {factor_of(run)}"


def alt(run: RunView) -> str:
    """The medians at the ends of each line, in words."""
    factor = factor_of(run) or ""
    said = []
    for line in lines_of(run, factor):
        points = _points(run, line, "rps")
        if len(points) > 1:
            (low, first), (high, last) = points[0], points[-1]
            said.append(f"{line.name} {units.rate(first)} at {low:g}, {units.rate(last)} at {high:g}")
    return f"Line charts against {factor}; median requests per second: {'; '.join(said)}."


def caption(run: RunView) -> str:
    """What lines and points are."""
    more = len(lines_of(run, factor_of(run) or "")) - MOST_LINES
    return (
        "Lines join the medians over the trials of a cell; each point is one trial. CPU is that of all services of the "
        "stack over the measured window, per request."
        + (f" {units.counted(more, 'line')} more are left out; the table has all." if more > 0 else "")
    )


@styled
def draw(run: RunView) -> Figure:
    """The figure: a panel for the rate and, where it is known, one for the CPU."""
    factor = factor_of(run) or ""
    lines = lines_of(run, factor)[:MOST_LINES]
    measures = [each for each in _MEASURES if any(_points(run, line, each.column) for line in lines)]
    frame = framed(
        height_in=_HEIGHT_IN + _AXIS_IN,
        title=title(run),
        subtitle=["line: medians \N{MIDDLE DOT} point: one trial"],
        foot=provenance(run),
        legend={hue: line.name for hue, line in enumerate(lines)},
    )
    width_in = (WIDTH_IN - 2 * EDGE_IN) / len(measures)
    for i, measure in enumerate(measures):
        left_in = EDGE_IN + width_in * i + _LEFT_IN
        axes = frame.axes(left_in, 0.1, width_in - _LEFT_IN - _GAP_IN, _HEIGHT_IN - 0.1)
        for hue, line in enumerate(lines):
            _draw_line(axes, run, line, measure, hue)
        dress(axes, measure.heading, measure.text, factor, lines)
    return frame.figure


FIGURE = ReportFigure(
    name="connections",
    title="Rate and CPU per request against load",
    available=available,
    alt=alt,
    caption=caption,
    draw=draw,
)


def _points(run: RunView, line: Line, column: str) -> list[tuple[float, float]]:
    """(level, median over trials) of the cells that have a figure."""
    there = [(level, numbers(run.of_cell(cell_id)[column]).median()) for level, cell_id in line.cells]
    return [(level, float(median)) for level, median in there if not math.isnan(median)]


def _draw_line(axes: Axes, run: RunView, line: Line, measure: _Measure, hue: int) -> None:
    medians = _points(run, line, measure.column)
    if not medians:
        return
    axes.plot(*np.array(medians).T, color=colour(hue), linestyle=dashes(hue))
    across, up, texts = [], [], []
    for level, cell_id in line.cells:
        trials = run.of_cell(cell_id)
        there = [
            (block, value)
            for block, value in zip(trials["block"], numbers(trials[measure.column]), strict=True)
            if not math.isnan(value)
        ]
        across += [level] * len(there)
        up += [value for _, value in there]
        texts += [f"{line.name}, {level:g}, block {block}: {measure.text(value)}" for block, value in there]
    points = axes.scatter(
        across, up, s=13, marker=marker(hue), color=colour(hue), linewidths=0, alpha=0.75, zorder=2, clip_on=False
    )
    hover(points, *texts)
