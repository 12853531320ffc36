"""Latency percentiles on a log-percentile axis: one curve a trial, because percentiles of trials are never averaged.

The axis is that of HdrHistogram's plots: the distance from the left is the logarithm of 1 / (1 - p), so that each
further nine takes the same room.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter, NullLocator

from benchkit import units
from benchkit.comparison.cell_labels import CellView, panels_of
from benchkit.comparison.notes import latency_note
from benchkit.models.columns import PercentileMetric
from benchkit.report.figures.figure import ReportFigure, more_in_table, provenance
from benchkit.report.latency_curves import Reals, histogram_curves, stored_percentiles
from benchkit.report.layout import line_legend, new_figure, panel_grid, panel_height, sample_evenly
from benchkit.report.metric_values import known, numbers
from benchkit.report.stored_run import StoredRun
from benchkit.report.style import styled, tick
from benchkit.report.trial_marks import DOTTED, Mark, draw_lines, draw_marks

Curves = Mapping[str, tuple[Reals, Reals]]
"""Latency against nines, by trial."""

TITLE = "Latency percentiles by cell"
_MAX_NAMED = 8
_NARROWEST = 4.0
"""Factor that the axis spans at least, so that equal cells look equal and a tick or two is always in it."""


def is_available(run: StoredRun) -> bool:
    """Return True if any measured trial has a percentile above 0, which a logarithmic axis needs."""
    return any(
        value > 0 for percentile in stored_percentiles(run.measured) for value in known(run.measured[percentile.name])
    )


def alt(run: StoredRun) -> str:
    """Describe the range of the highest percentile with included trials, cell by cell; of many cells the first ones."""
    highest = _highest(run)
    ranges = []
    for view in _drawn(run)[:_MAX_NAMED]:
        values = run.values(highest.name).included(view.cell_id)
        if values:
            ranges.append(f"{view.label} {units.seconds(min(values))} to {units.seconds(max(values))}")
        else:
            ranges.append(f"{view.label} without an included trial")
    return (
        f"Line chart of latency percentiles, one curve per trial, {latency_note(run.measured)}. "
        f"{highest.label} over the included trials: {'; '.join(ranges)}."
    )


def caption(run: StoredRun) -> str:
    """Explain the curves, and what the latencies cover."""
    panels = panels_of(_drawn(run))
    return (
        f"Latency ({latency_note(run.measured)}), one curve per trial: percentiles of several trials cannot be averaged. "
        "Lines follow the histograms if the tool has them, up to the percentile above which ten requests lie; marks are the "
        "stored percentiles, as in the table; each further nine takes the same room."
        + (
            " Hollow marks and dotted curves are excluded: a verdict invalidates them, or requests were too few."
            if _has_exclusions(run)
            else ""
        )
        + (" Times below the tool's resolution are unknown and not drawn." if _has_gaps(run) else "")
        + more_in_table(len(panels) - len(sample_evenly(panels)), "panel")
    )


@styled
def draw(run: StoredRun) -> Figure:
    """Draw one panel, or one for each combination of the factors that colour does not show."""
    cells, percentiles = _drawn(run), stored_percentiles(run.measured)
    names = sample_evenly(panels_of(cells))
    figure = new_figure(
        panel_height(len(names)),
        title=TITLE,
        subtitle=[
            "one curve per trial" + (f" \N{MIDDLE DOT} hollow, {DOTTED}" if _has_exclusions(run) else ""),
            latency_note(run.measured),
        ],
        source=provenance(run),
        legend=line_legend({view.hue: view.hue_label for view in cells}),
    )
    panels = panel_grid(figure, names, y_label="latency")
    shown = [view for view in cells if view.panel in panels]
    curves = histogram_curves(
        run.latencies, {trial for view in shown for trial in run.trials_of(view.cell_id)["trial_id"]}
    )
    for panel, axes in panels.items():
        for hue in sorted({view.hue for view in cells}):
            alike = [view for view in shown if view.panel == panel and view.hue == hue]
            _draw_cells(axes, run, alike, percentiles, curves)
    _set_axes(panels[names[0]], percentiles, _extent(run, percentiles, curves))
    return figure


FIGURE = ReportFigure(
    name="latency",
    title=TITLE,
    is_available=is_available,
    alt=alt,
    caption=caption,
    see="A curve that stays low to the right has a short tail; curves of the same colour that spread are trials that disagree.",
    draw=draw,
)


def _drawn(run: StoredRun) -> list[CellView]:
    """Return the cells that have a percentile."""
    cells = {cell for percentile in stored_percentiles(run.measured) for cell in run.values(percentile.name).by_cell}
    return [view for view in run.cells if view.cell_id in cells]


def _has_gaps(run: StoredRun) -> bool:
    """Return True if a trial lacks a percentile below one that it has."""
    columns = [numbers(run.measured[p.name]).notna() for p in stored_percentiles(run.measured)]
    return any((higher & ~lower).any() for lower, higher in itertools.pairwise(columns))


def _has_exclusions(run: StoredRun) -> bool:
    """Return True if any percentile of a trial is excluded."""
    return any(run.values(percentile.name).has_exclusions for percentile in stored_percentiles(run.measured))


def _draw_cells(
    axes: Axes, run: StoredRun, cells: Sequence[CellView], percentiles: Sequence[PercentileMetric], curves: Curves
) -> None:
    """Draw the curves of cells that share a colour: lines, and a mark with its value at each stored percentile."""
    lines, dotted, marks = [], [], []
    for view in cells:
        by_trial: dict[str, list[Mark]] = {}
        for percentile in percentiles:
            for each in run.values(percentile.name).of_cell(view.cell_id):
                text = f"{view.label}, block {each.block}: {percentile.label} {units.seconds(each.value)}"
                if each.value > 0:
                    mark = Mark(_nines(percentile), each.value, text, each.exclusion)
                    by_trial.setdefault(each.trial_id, []).append(mark)
        for trial_id, of_trial in by_trial.items():
            points = np.array([(mark.x, mark.y) for mark in of_trial])
            lines.append(np.column_stack(curves[trial_id]) if trial_id in curves else points)
            dotted.append(all(mark.exclusion is not None for mark in of_trial))
            marks += of_trial
    if marks:
        draw_lines(axes, cells[0].hue, lines, dotted)
        draw_marks(axes, cells[0].hue, marks)


def _highest(run: StoredRun) -> PercentileMetric:
    """Return the highest percentile that any included trial has; the highest of all if none has."""
    stored = stored_percentiles(run.measured)
    included = [percentile for percentile in stored if run.values(percentile.name).medians]
    return (included or list(stored))[-1]


def _extent(run: StoredRun, percentiles: Sequence[PercentileMetric], curves: Curves) -> tuple[float, float]:
    """Return the lowest and the highest latency of all panels with a margin, at least `_NARROWEST` apart."""
    values = [value for p in percentiles for value in known(run.measured[p.name]) if value > 0]
    values += [float(end) for _, seconds in curves.values() for end in (seconds.min(), seconds.max()) if end > 0]
    low, high = min(values) / 1.25, max(values) * 1.25
    widen = max(1.0, math.sqrt(_NARROWEST / (high / low)))
    return low / widen, high * widen


def _nines(percentile: PercentileMetric) -> float:
    """Return the number of nines: 1 for p90, 2 for p99; p50 has 0.3."""
    return -math.log10(1 - percentile.share)


def _set_axes(axes: Axes, percentiles: Sequence[PercentileMetric], extent: tuple[float, float]) -> None:
    """Set both axes, which all panels share."""
    names = {_nines(percentile): percentile.label for percentile in percentiles}
    axes.set_yscale("log")
    axes.set_ylim(*extent)
    decades = math.log10(extent[1] / extent[0])
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if decades < 2.5 else (1.0,), numticks=12))  # noqa: PLR2004 - as many as fit
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: tick(units.seconds(value))))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.xaxis.set_major_locator(FixedLocator(list(names)))
    axes.xaxis.set_major_formatter(
        FuncFormatter(lambda value, _: next((name for x, name in names.items() if math.isclose(x, value)), ""))
    )
    axes.margins(x=0.04)
