"""Requests per second by cell: a bar at the mean, every trial as a point, and the interval of the cell."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from benchkit import units
from benchkit.report.figures.figure import ReportFigure, name_extremes, provenance
from benchkit.report.layout import label_rows, line_legend, new_figure, row_text_size, rows_height, write_heading
from benchkit.report.metric_values import numbers
from benchkit.report.stored_run import StoredRun, cached_per_run
from benchkit.report.style import colour, hover, styled
from benchkit.report.summary import CellSummary, summarise
from benchkit.report.theme import INK, MUTED, SERIES
from benchkit.report.trial_marks import HOLLOW, Mark, draw_marks
from benchkit.stats.inference import MIN_BLOCKS, t_quantile, t_statistics
from benchkit.stats.samples import take_samples

TITLE = "Requests per second by cell"

_BAR = 0.64
_MAX_WRITTEN = 60
"""Rows up to which the means are written beside the bars."""
_MAX_NAMED = 8
_GAP = 0.6
"""Rows between two panels whose cells have no names of their own."""
_MAX_REACH = 1.5
"""Multiple of the highest rate that the axis shows at most, so that a wide interval does not dwarf the bars."""
_LARGEST_LOG = 700.0
"""Logarithm near the largest number that a double holds."""


@dataclass(frozen=True)
class _Row:
    """A row of the figure: a cell, or the heading of those that follow."""

    y: float
    text: str
    cell: CellSummary | None


def is_available(run: StoredRun) -> bool:
    """Return True if any measured trial has a rate."""
    return bool(run.values("rps").by_cell)


def alt(run: StoredRun) -> str:
    """Describe the means; of many cells the highest and the lowest."""
    known = [cell for cell in summarise(run).cells if cell.mean_rps is not None]
    ranked = sorted(
        ((cell.mean_rps, cell.cell.label) for cell in [each for each in known if each.is_usable] or known),
        reverse=True,
    )
    shown, which = name_extremes(ranked, _MAX_NAMED, "cells")
    means = "; ".join(f"{label} {units.rate(rps)}" for rps, label in shown)
    return f"Bar chart of the mean requests per second{which}: {means}."


def caption(run: StoredRun) -> str:
    """Explain bars, points and lines."""
    if intervals(run):
        lines = (
            f" The line across a bar is the {1 - run.data.alpha:.0%} interval of the cell's rate (Student's t on its "
            "logarithms; a block is the sample)."
        )
    elif run.data.design == "sequential":
        lines = " There are no intervals: in a sequential design they would not contain drift."
    else:
        lines = f" There are no intervals: they need {MIN_BLOCKS} blocks with included trials."
    return (
        "Bars end at the mean over the included trials of a cell; each of the "
        f"{units.counted(len(run.measured), 'point')} is one trial, in the order of the blocks from top to bottom.{lines} "
        "Cells share the conditions of their blocks, so that two cells may differ although their intervals overlap: the "
        "figure of ratios shows it."
    )


@styled
def draw(run: StoredRun) -> Figure:
    """Draw a row for each cell; a row without a rate says why."""
    cells = summarise(run).cells
    legend = _colour_legend(cells)
    rows = list(_rows(cells, has_legend=bool(legend)))
    lines = math.ceil(max(row.y for row in rows) + 1)
    size = row_text_size(lines)
    ranges = intervals(run)
    notes = [
        "bar: mean of the trials",
        "point: one trial",
        *([f"line: {1 - run.data.alpha:.0%} interval"] if ranges else []),
        *([HOLLOW] if run.values("rps").has_exclusions else []),
    ]
    figure = new_figure(
        rows_height(lines),
        title=TITLE,
        subtitle=[" \N{MIDDLE DOT} ".join(notes)],
        source=provenance(run),
        legend=line_legend(legend),
    )
    axes = figure.subplots()
    label_rows(axes, {row.y: row.text for row in rows if row.text and (row.cell or legend)}, lines)
    _draw_means(axes, rows)
    _draw_trials(axes, run, rows, size)
    _draw_intervals(axes, rows, ranges, 1 - run.data.alpha)
    for row in rows:
        if row.cell is None and not legend:
            write_heading(axes, row.y, row.text, lines)
        if row.cell is not None and (len(rows) <= _MAX_WRITTEN or row.cell.mean_rps is None):
            _write_result(axes, row.y, row.cell, size, beyond=ranges.get(row.cell.cell.cell_id, (0.0, 0.0))[1])
    highest = float(numbers(run.measured["rps"]).max()) or 1.0
    reach = min(max([highest, *(high for _, high in ranges.values())]), _MAX_REACH * highest)
    axes.set_xlim(0, 1.14 * reach)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=6, min_n_ticks=3))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: units.rate(value)))
    axes.set_xlabel("requests per second")
    return figure


FIGURE = ReportFigure(
    name="rps",
    title=TITLE,
    is_available=is_available,
    alt=alt,
    caption=caption,
    see="A longer bar serves more requests per second; the points show how much its trials vary.",
    draw=draw,
)


@cached_per_run
def intervals(run: StoredRun) -> dict[str, tuple[float, float]]:
    """Return the interval of the rate of each cell over its blocks; cells with too few blocks have none.

    It is Student's t on the logarithms about their mean, as for ratios, at the level of the run. A sequential design
    has none: its blocks do not sample the conditions of the host.
    """
    if run.data.design == "sequential":
        return {}
    samples, ranges = take_samples(run.trials, "rps", run.data.exclusions), {}
    for view in run.cells:
        logs = samples.of(view.cell_id)
        logs = logs[~np.isnan(logs)]
        if len(logs) >= MIN_BLOCKS:
            (mean,), (error,) = t_statistics(logs[None, :])
            reach = t_quantile(1 - run.data.alpha, len(logs) - 1) * error
            ranges[view.cell_id] = math.exp(mean - reach), math.exp(min(mean + reach, _LARGEST_LOG))
    return ranges


def _colour_legend(cells: Sequence[CellSummary]) -> dict[int, str]:
    """Return the legend of colours if there are many cells, which differ in colour within panels; else nothing."""
    hues = {cell.cell.hue: cell.cell.hue_label for cell in cells}
    is_long = len(cells) > _MAX_WRITTEN and any(cell.cell.panel for cell in cells)
    return hues if is_long and len(hues) <= len(SERIES) else {}


def _rows(cells: Sequence[CellSummary], *, has_legend: bool) -> Iterator[_Row]:
    """Yield cells under the heading of their panel, from the top; with a legend beside it, without names."""
    y = 0.0
    panels: dict[str, list[CellSummary]] = {}
    for cell in cells:
        panels.setdefault(cell.cell.panel, []).append(cell)
    for panel, members in panels.items():
        if has_legend:
            yield _Row(y + (len(members) - 1) / 2, panel, None)
        elif panel:
            yield _Row(y, panel, None)
            y += 1
        for cell in members:
            name = cell.cell.hue_label if panel else cell.cell.label
            yield _Row(y, "" if has_legend else name, cell)
            y += 1
        y += _GAP if has_legend else 0


def _draw_means(axes: Axes, rows: Sequence[_Row]) -> None:
    """Draw bars from zero to the mean with a marked end; a cell without any usable trial has only a faint bar."""
    drawn = [(row.y, row.cell, row.cell.mean_rps) for row in rows if row.cell and row.cell.mean_rps is not None]
    tones = [colour(cell.cell.hue) for _, cell, _ in drawn]
    half = _BAR / 2
    bars = PolyCollection(
        [[(0, y - half), (0, y + half), (rps, y + half), (rps, y - half)] for y, _, rps in drawn],
        facecolors=[
            mpl.colors.to_rgba(tone, 0.28 if cell.is_usable else 0.08)
            for tone, (_, cell, _) in zip(tones, drawn, strict=True)
        ],
    )
    usable = [(y, rps, tone) for tone, (y, cell, rps) in zip(tones, drawn, strict=True) if cell.is_usable]
    ends = LineCollection(
        [[(rps, y - half), (rps, y + half)] for y, rps, _ in usable],
        colors=[tone for _, _, tone in usable],
        linewidths=2,
    )
    hover(bars, *(f"{cell.cell.label}: mean {units.requests_per_s(rps)}" for _, cell, rps in drawn))
    axes.add_collection(bars)
    axes.add_collection(ends)


def _draw_trials(axes: Axes, run: StoredRun, rows: Sequence[_Row], size: float) -> None:
    """Draw each trial as a point over the height of its bar, the first block on top; one collection for each marker."""
    marks: dict[int, list[Mark]] = {}
    for row in rows:
        if row.cell is None:
            continue
        values = run.values("rps").of_cell(row.cell.cell.cell_id)
        places = row.y + _BAR * 0.76 * np.linspace(-0.5, 0.5, len(values)) if len(values) > 1 else [row.y]
        for each, y in zip(values, places, strict=False):
            text = f"{row.cell.cell.label}, block {each.block}: {units.requests_per_s(each.value)}"
            marks.setdefault(row.cell.cell.hue, []).append(Mark(each.value, float(y), text, each.exclusion))
    for hue in sorted(marks):
        draw_marks(axes, hue, marks[hue], area=2 * size, rim=0.06 * size)


def _draw_intervals(
    axes: Axes, rows: Sequence[_Row], ranges: Mapping[str, tuple[float, float]], confidence: float
) -> None:
    """Draw a line across each bar, over the interval of its cell."""
    drawn = [
        (row.y, row.cell.cell.label, *ranges[row.cell.cell.cell_id])
        for row in rows
        if row.cell and row.cell.cell.cell_id in ranges
    ]
    if not drawn:
        return
    lines = LineCollection(
        [[(low, y), (high, y)] for y, _, low, high in drawn], colors=INK.light, linewidths=1.4, zorder=4
    )
    hover(
        lines,
        *(
            f"{label}: {confidence:.0%} interval {units.rate(low)} to {units.requests_per_s(high)}"
            for _, label, low, high in drawn
        ),
    )
    axes.add_collection(lines)


def _write_result(axes: Axes, y: float, cell: CellSummary, size: float, beyond: float) -> None:
    """Write the mean beside the bar of a cell, or why it has none."""
    if cell.mean_rps is not None:
        text = units.rate(cell.mean_rps) if cell.is_usable else f"{units.rate(cell.mean_rps)}, invalid"
        place, tone = max(*cell.rps, beyond), INK if cell.is_usable else MUTED
    else:
        reason = "not supported on these hosts" if cell.cell.unsupported is not None else "no trial ended with a rate"
        place, text, tone = 0.0, reason, MUTED
    offset = (7, 0) if cell.rps else (4, 0)
    axes.annotate(text, (place, y), xytext=offset, textcoords="offset points", va="center", size=size, color=tone.light)
