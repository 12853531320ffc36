"""Latency percentiles on a log-percentile axis: one curve a trial, because percentiles of trials are never averaged.

The axis is that of HdrHistogram's plots: the distance from the left is the logarithm of 1 / (1 - p), so that each
further nine takes as much room as the one before it.
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
from benchkit.analysis.latency_notes import latency_note
from benchkit.models.columns import PercentileMetric
from benchkit.report.cell_labels import CellView
from benchkit.report.figures.figure import ReportFigure, provenance
from benchkit.report.latency_curves import Reals, curves, stored
from benchkit.report.panel_grid import grid, left_out
from benchkit.report.stored_run import StoredRun, among, known, numbers
from benchkit.report.style import styled, tick
from benchkit.report.trial_marks import DOTTED, Mark, any_void, draw_lines, draw_marks

Curves = Mapping[str, tuple[Reals, Reals]]
"""Latency against nines, by trial."""

TITLE = "Latency percentiles by cell"
_NAMED = 8
_NARROWEST = 4.0
"""The axis spans at least this factor, so that equal cells look equal and a tick or two always stand in it."""


def available(run: StoredRun) -> bool:
    """Whether any measured trial has a percentile that can stand on a log axis."""
    return any(value > 0 for percentile in stored(run.measured) for value in known(run.measured[percentile.name]))


def alt(run: StoredRun) -> str:
    """The range of the highest percentile of which any trial counts, cell by cell, in words; of many cells the first."""
    shown, last = _shown(run), _highest(run)
    ranges = []
    for view in shown[:_NAMED]:
        values = run.counting(view.cell_id, last.name).tolist()
        if values:
            ranges.append(f"{view.label} {units.seconds(min(values))} to {units.seconds(max(values))}")
        else:
            ranges.append(f"{view.label} none that counts")
    return (
        f"Line chart of latency percentiles, one curve per trial, {latency_note(run.measured)}. "
        f"{last.name} over the trials that count: {'; '.join(ranges)}."
    )


def caption(run: StoredRun) -> str:
    """How to read it, and what the latencies are."""
    more = left_out(_panels(_shown(run)))
    return (
        f"Latency ({latency_note(run.measured)}), one curve per trial: percentiles of several trials cannot be averaged. "
        "Lines follow the histograms where the tool has them, as far as ten requests lie above; marks are the stored "
        "percentiles, as the table has them; each further nine takes the same room."
        + (
            " Hollow marks and dotted curves do not count: a verdict voids them, or requests were too few."
            if _void(run, stored(run.measured))
            else ""
        )
        + (" Times below the tool's own step are not known and not drawn." if _has_gaps(run) else "")
        + (f" {units.counted(more, 'panel')} more are left out; the table has all." if more else "")
    )


@styled
def draw(run: StoredRun) -> Figure:
    """The figure: one panel, or one for each combination of the factors that colour does not stand for."""
    shown, percentiles = _shown(run), stored(run.measured)
    drawn = grid(
        _panels(shown),
        title=TITLE,
        subtitle=["one curve per trial" + _said_of_void(run, percentiles), latency_note(run.measured)],
        foot=provenance(run),
        legend={view.hue: view.hue_label for view in shown},
        y_label="latency",
    )
    visible = [view for view in shown if view.panel in drawn.panels]
    fine = curves(run.latencies, {trial for view in visible for trial in run.of_cell(view.cell_id)["trial_id"]})
    for panel, axes in drawn.panels.items():
        for hue in sorted({view.hue for view in shown}):
            cells = [view for view in shown if view.panel == panel and view.hue == hue]
            _draw_cells(axes, run, cells, percentiles, fine)
    _dress(drawn.first, percentiles, _extent(run, percentiles, fine))
    return drawn.figure


FIGURE = ReportFigure(name="latency", title=TITLE, available=available, alt=alt, caption=caption, draw=draw)


def _shown(run: StoredRun) -> list[CellView]:
    """The cells that have a curve."""
    measured = run.measured
    percentiles = [percentile.name for percentile in stored(measured)]
    with_curve = set(measured["cell_id"][measured[percentiles].notna().any(axis="columns")])
    return [view for view in run.cells if view.cell_id in with_curve]


def _has_gaps(run: StoredRun) -> bool:
    """Whether a trial lacks a percentile below one that it has."""
    columns = [numbers(run.measured[p.name]).notna() for p in stored(run.measured)]
    return any((higher & ~lower).any() for lower, higher in itertools.pairwise(columns))


def _panels(shown: Sequence[CellView]) -> list[str]:
    return list(dict.fromkeys(view.panel for view in shown))


def _draw_cells(
    axes: Axes, run: StoredRun, cells: Sequence[CellView], percentiles: Sequence[PercentileMetric], fine: Curves
) -> None:
    """The curves of cells that look alike: lines, and a mark with its value at each stored percentile."""
    lines, dotted, marks = [], [], []
    void = [run.void(percentile.name) for percentile in percentiles]
    for view in cells:
        trials = run.of_cell(view.cell_id)
        columns = [numbers(trials[percentile.name]) for percentile in percentiles]
        for trial_id, block, *latencies in zip(trials["trial_id"], trials["block"], *columns, strict=True):
            own = [
                Mark(
                    _x(p),
                    value,
                    f"{view.label}, block {block}: {p.label} {units.seconds(value)}",
                    out.get(str(trial_id)),
                )
                for p, value, out in zip(percentiles, latencies, void, strict=True)
                if value > 0
            ]
            stored_only = np.array([(mark.x, mark.y) for mark in own]).reshape(-1, 2)
            lines.append(np.column_stack(fine[trial_id]) if trial_id in fine else stored_only)
            dotted.append(bool(own) and all(mark.void is not None for mark in own))
            marks += own
    if marks:
        draw_lines(axes, cells[0].hue, lines, dotted)
        draw_marks(axes, cells[0].hue, marks)


def _void(run: StoredRun, percentiles: Sequence[PercentileMetric]) -> bool:
    """Whether any percentile of a trial does not count."""
    return any(any_void(run.measured[numbers(run.measured[p.name]) > 0], run.void(p.name)) for p in percentiles)


def _said_of_void(run: StoredRun, percentiles: Sequence[PercentileMetric]) -> str:
    return f" \N{MIDDLE DOT} hollow, {DOTTED}" if _void(run, percentiles) else ""


def _highest(run: StoredRun) -> PercentileMetric:
    """The highest percentile of which any trial counts; where none does, the highest."""
    there, measured = stored(run.measured), run.measured
    counting = [p for p in there if known(measured[p.name][~among(measured["trial_id"], run.void(p.name))])]
    return (counting or there)[-1]


def _extent(run: StoredRun, percentiles: Sequence[PercentileMetric], fine: Curves) -> tuple[float, float]:
    """From the lowest to the highest latency of all panels, with some air, at least `_NARROWEST` apart."""
    values = [value for p in percentiles for value in known(run.measured[p.name]) if value > 0]
    values += [float(end) for _, seconds in fine.values() for end in (seconds.min(), seconds.max()) if end > 0]
    low, high = min(values) / 1.25, max(values) * 1.25
    widen = max(1.0, math.sqrt(_NARROWEST / (high / low)))
    return low / widen, high * widen


def _x(percentile: PercentileMetric) -> float:
    """The number of nines: 1 for p90, 2 for p99; p50 has 0.3."""
    return -math.log10(1 - percentile.share)


def _dress(axes: Axes, percentiles: Sequence[PercentileMetric], extent: tuple[float, float]) -> None:
    """Both axes, for all panels: they are shared."""
    axes.set_yscale("log")
    axes.set_ylim(*extent)
    decades = math.log10(extent[1] / extent[0])
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if decades < 2.5 else (1.0,), numticks=12))  # noqa: PLR2004 - what fits
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: tick(units.seconds(value))))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.xaxis.set_major_locator(FixedLocator([_x(percentile) for percentile in percentiles]))
    axes.xaxis.set_major_formatter(
        FuncFormatter(lambda value, _: next((p.label for p in percentiles if math.isclose(_x(p), value)), ""))
    )
    axes.margins(x=0.04)
