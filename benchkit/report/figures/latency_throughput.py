"""Latency against throughput: every trial as a point."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator

from benchkit import units
from benchkit.comparison.cell_labels import CellView, panels_of
from benchkit.comparison.notes import latency_note
from benchkit.models.columns import PercentileMetric
from benchkit.models.metrics import P99, PERCENTILES
from benchkit.report.figures.figure import ReportFigure, more_in_table, provenance
from benchkit.report.layout import line_legend, new_figure, panel_grid, panel_height, sample_evenly
from benchkit.report.metric_values import known
from benchkit.report.stored_run import StoredRun, cached_per_run
from benchkit.report.style import styled, tick
from benchkit.report.trial_marks import HOLLOW, Mark, draw_marks

TITLE = "Latency against throughput"

_MAX_NAMED = 8


class _Point(NamedTuple):
    """A trial with both values, and the reason why either is excluded (None if neither is)."""

    block: int
    rps: float
    latency_s: float
    exclusion: str | None


def is_available(run: StoredRun) -> bool:
    """Return True if any measured trial has a rate, and a percentile above 0, which a logarithmic axis needs."""
    return bool(_points(run))


def alt(run: StoredRun) -> str:
    """Describe the medians of the cells."""
    points, medians = _points(run), []
    for view in _drawn(run)[:_MAX_NAMED]:
        included = [each for each in points[view.cell_id] if each.exclusion is None]
        if not included:
            medians.append(f"{view.label} without an included trial")
            continue
        rps, latency_s = (median(values) for values in ([p.rps for p in included], [p.latency_s for p in included]))
        medians.append(f"{view.label} {units.rate(rps)} requests/s at {units.seconds(latency_s)}")
    return (
        f"Scatter chart of {_percentile(run).label} latency against requests per second; medians: {'; '.join(medians)}."
    )


def caption(run: StoredRun) -> str:
    """Explain the points."""
    panels = panels_of(_drawn(run))
    return (
        f"Each point is one trial: its rate and its {_percentile(run).label} latency ({latency_note(run.measured)}). Right "
        "and low is better; at a given number of connections a closed loop makes one depend on the other."
        + more_in_table(len(panels) - len(sample_evenly(panels)), "panel")
    )


@styled
def draw(run: StoredRun) -> Figure:
    """Draw one panel, or one for each combination of the factors that colour does not show."""
    cells, percentile, points = _drawn(run), _percentile(run), _points(run)
    every = [point for of_cell in points.values() for point in of_cell]
    names = sample_evenly(panels_of(cells))
    figure = new_figure(
        panel_height(len(names)),
        title=TITLE,
        subtitle=[
            "one point per trial" + (f" \N{MIDDLE DOT} {HOLLOW}" if any(point.exclusion for point in every) else ""),
            latency_note(run.measured),
        ],
        source=provenance(run),
        legend=line_legend({view.hue: view.hue_label for view in cells}),
    )
    panels = panel_grid(figure, names, x_label="requests per second", y_label=f"{percentile.label} latency")
    for view in cells:
        if view.panel in panels:
            marks = [
                Mark(
                    point.rps,
                    point.latency_s,
                    f"{view.label}, block {point.block}: {units.requests_per_s(point.rps)}, {percentile.label} "
                    f"{units.seconds(point.latency_s)}",
                    point.exclusion,
                )
                for point in points[view.cell_id]
            ]
            draw_marks(panels[view.panel], view.hue, marks, area=20)
    _set_axes(panels[names[0]], every)
    return figure


FIGURE = ReportFigure(
    name="throughput",
    title=TITLE,
    is_available=is_available,
    alt=alt,
    caption=caption,
    see="The cells at the lower right are the best: more requests at a lower latency.",
    draw=draw,
)


def _percentile(run: StoredRun) -> PercentileMetric:
    """Return p99 if any trial has it, else the highest that any has."""
    stored = [name for name in PERCENTILES if any(value > 0 for value in known(run.measured[name]))]
    return PERCENTILES[P99 if P99 in stored else (stored or list(PERCENTILES))[-1]]


@cached_per_run
def _points(run: StoredRun) -> dict[str, list[_Point]]:
    """Return the trials of each cell that have both values."""
    latencies, rates = run.values(_percentile(run).name), run.values("rps")
    points: dict[str, list[_Point]] = {}
    for cell_id, values in rates.by_cell.items():
        latency = {each.trial_id: each for each in latencies.of_cell(cell_id) if each.value > 0}
        for each in values:
            if each.value > 0 and (other := latency.get(each.trial_id)) is not None:
                point = _Point(each.block, each.value, other.value, each.exclusion or other.exclusion)
                points.setdefault(cell_id, []).append(point)
    return points


def _drawn(run: StoredRun) -> list[CellView]:
    return [view for view in run.cells if view.cell_id in _points(run)]


def _set_axes(axes: Axes, points: Sequence[_Point]) -> None:
    """Set both axes, which all panels share."""
    low, high = min(point.latency_s for point in points), max(point.latency_s for point in points)
    axes.set_xlim(0, max(point.rps for point in points) * 1.08)
    axes.set_yscale("log")
    axes.set_ylim(low / 1.6, high * 1.6)
    decades = math.log10(high / low)
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if decades < 2 else (1.0,), numticks=12))  # noqa: PLR2004 - as many as fit
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: tick(units.seconds(value))))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.xaxis.set_major_locator(MaxNLocator(nbins=4, min_n_ticks=2))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: units.rate(value)))
