"""CPU time of the servers per request and per TLS handshake, by cell: the cost of TLS and of HTTP/2."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from benchkit import units
from benchkit.comparison.cell_labels import CellView
from benchkit.report.figures.figure import ReportFigure, more_in_table, name_extremes, provenance
from benchkit.report.layout import label_rows, new_figure, row_text_size, rows_height, write_heading
from benchkit.report.metric_values import TrialValue
from benchkit.report.stored_run import StoredRun, cached_per_run
from benchkit.report.style import colour, styled
from benchkit.report.trial_marks import HOLLOW, Mark, draw_marks

TITLE = "CPU time per request and per TLS handshake"
MAX_CELLS = 40
"""Cells that are drawn at most, the first of the plan; the table has all."""
_MAX_NAMED = 6
_BAR = 0.62
_REACH = 1.3
"""Multiple of the largest value that the axis shows, so that there is room for the medians beside the bars."""


@dataclass(frozen=True)
class _Measure:
    """A panel of the figure: a metric and its axis."""

    metric: str
    axis: str
    per: str


@dataclass(frozen=True)
class _Row:
    """A row of the figure: a cell, or the heading of those that follow."""

    text: str
    cell: CellView | None = None


_MEASURES = (
    _Measure("server_cpu_s_per_request", "server CPU per request", "request"),
    _Measure("server_cpu_s_per_handshake", "server CPU per handshake", "handshake"),
)


def is_available(run: StoredRun) -> bool:
    """Return True if any trial spoke another protocol than HTTP/1.1 without TLS, and the CPU time is known."""
    spoken = set(run.measured["protocol"].dropna())
    return bool(spoken - {"http1"}) and bool(_cells(run))


def alt(run: StoredRun) -> str:
    """Describe the medians of each panel; of many cells the highest and the lowest."""
    texts = []
    for measure in _drawn(run):
        medians = run.values(measure.metric).medians
        ranked = sorted(((medians[name], run.labels[name]) for name in medians if name in run.labels), reverse=True)
        shown, which = name_extremes(ranked, _MAX_NAMED, "cells")
        values = "; ".join(f"{label} {units.seconds(value)}" for value, label in shown)
        texts.append(f"per {measure.per}{which}: {values or 'too few included trials'}")
    return f"Bar charts of the median CPU time of the servers {'. And '.join(texts)}."


def caption(run: StoredRun) -> str:
    """Explain bars, points, and the cells that a panel has."""
    has_handshakes = len(_drawn(run)) > 1
    return (
        "Bars end at the median over the included trials of a cell; each point is one trial, the first block on top. CPU is "
        "that of all services of the stack over the measured window."
        + (
            " Per handshake: of cells in which each request has a connection of its own; the CPU time of connection and "
            "request is included."
            if has_handshakes
            else ""
        )
        + more_in_table(len(_cells(run)) - MAX_CELLS, "cell")
    )


@styled
def draw(run: StoredRun) -> Figure:
    """Draw a panel for each measure, with a row for each cell, below the levels that it shares with others."""
    measures, rows = _drawn(run), list(_rows(_cells(run)[:MAX_CELLS]))
    has_exclusions = any(run.values(measure.metric).has_exclusions for measure in measures)
    figure = new_figure(
        rows_height(len(rows)),
        title=TITLE,
        subtitle=[
            "bar: median of the trials \N{MIDDLE DOT} point: one trial"
            + (f" \N{MIDDLE DOT} {HOLLOW}" if has_exclusions else "")
        ],
        source=provenance(run),
    )
    panels = figure.subplots(1, len(measures), squeeze=False, sharey=True)
    for axes, measure in zip(panels.flat, measures, strict=True):
        label_rows(axes, {y: row.text for y, row in enumerate(rows) if row.cell}, len(rows))
        axes.tick_params(labelleft=axes is panels[0, 0])
        cells = {y: row.cell for y, row in enumerate(rows) if row.cell}
        _draw_cells(axes, run, measure, cells, row_text_size(len(rows)))
        axes.set_xlim(0, _REACH * max(each.value for cell in cells.values() for each in _values(run, measure, cell)))
        axes.xaxis.set_major_locator(MaxNLocator(nbins=4, min_n_ticks=3))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: units.seconds(value)))
        axes.set_xlabel(measure.axis)
    for y, row in enumerate(rows):
        if row.cell is None:
            write_heading(panels[0, 0], y, row.text, len(rows))
    return figure


FIGURE = ReportFigure(
    name="protocol-cost",
    title=TITLE,
    is_available=is_available,
    alt=alt,
    caption=caption,
    see="A longer bar costs the server more CPU time; cells that differ in the protocol alone show what it costs.",
    draw=draw,
)


@cached_per_run
def _cells(run: StoredRun) -> list[CellView]:
    """Return the cells with a value of any measure, in the order of the plan."""
    return [cell for cell in run.cells if any(_values(run, measure, cell) for measure in _MEASURES)]


def _drawn(run: StoredRun) -> list[_Measure]:
    """Return the measures that any drawn cell has."""
    cells = _cells(run)[:MAX_CELLS]
    return [measure for measure in _MEASURES if any(_values(run, measure, cell) for cell in cells)]


def _values(run: StoredRun, measure: _Measure, cell: CellView) -> tuple[TrialValue, ...]:
    return run.values(measure.metric).of_cell(cell.cell_id)


def _rows(cells: Sequence[CellView]) -> Iterator[_Row]:
    """Yield the cells, those that differ in the factor of the colours alone under a heading of what they share."""
    panels: dict[str, list[CellView]] = {}
    for cell in cells:
        panels.setdefault(cell.panel, []).append(cell)
    for panel, members in panels.items():
        if panel:
            yield _Row(panel)
        for cell in members:
            yield _Row(cell.hue_label if panel else cell.label, cell)


def _draw_cells(axes: Axes, run: StoredRun, measure: _Measure, cells: Mapping[int, CellView], size: float) -> None:
    """Draw the bar of each cell with its median beside it, and its trials over the height of the bar."""
    medians = run.values(measure.metric).medians
    for y, cell in cells.items():
        values, median = _values(run, measure, cell), medians.get(cell.cell_id)
        if not values:
            continue
        if median is not None:
            axes.barh(y, median, height=_BAR, color=colour(cell.hue), alpha=0.28, linewidth=0)
        marks = [
            Mark(
                each.value,
                y + 0.76 * _BAR * ((i + 0.5) / len(values) - 0.5),
                f"{cell.label}, block {each.block}: {units.seconds(each.value)} per {measure.per}",
                each.exclusion,
            )
            for i, each in enumerate(values)
        ]
        draw_marks(axes, cell.hue, marks, area=2 * size, rim=0.06 * size)
        axes.annotate(
            "invalid" if median is None else units.seconds(median),
            (max(each.value for each in values), y),
            xytext=(7, 0),
            textcoords="offset points",
            va="center",
            size=size,
        )
