"""Figures of costs: CPU time per request and per handshake, and parts of the response time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchkit import units
from benchkit.comparison.cell_labels import CellView
from benchkit.models.base import level_texts
from benchkit.models.claims import published_of
from benchkit.report.figure import ReportFigure, more_in_table, name_extremes
from benchkit.report.layout import part_legend, row_text_size, write_beside
from benchkit.report.panels import (
    HOLLOW,
    FigureRow,
    Panel,
    Scale,
    draw_bars,
    draw_intervals,
    draw_points,
    draw_rows,
    draw_shares,
    notes,
    spread_over_bar,
)
from benchkit.report.stored_run import StoredRun, cached_per_run
from benchkit.report.style import style
from benchkit.stats.cell_pairs import cells_with_levels

MAX_CELLS = 40
"""Cells that are drawn at most, the first of the plan; the table has all."""
_MAX_NAMED = 6
_REACH = 1.3
"""Multiple of the largest value that the axis shows, so that there is room for the medians beside the bars."""

_COSTS = {"request": "server_cpu_s_per_request", "handshake": "server_cpu_s_per_handshake"}
"""Metric of the CPU time per request, and per handshake."""


def _cost_available(run: StoredRun) -> bool:
    """Return True if any trial spoke another protocol than HTTP/1.1 without TLS, and the CPU time is known."""
    spoken = set(run.measured["protocol"].dropna())
    return bool(spoken - {"http1"}) and bool(_cost_cells(run))


def _cost_alt(run: StoredRun) -> str:
    """Describe the medians of each panel; of many cells the highest and the lowest."""
    texts = []
    for per in _drawn_costs(run):
        medians = run.values(_COSTS[per]).medians
        ranked = sorted(((medians[name], run.labels[name]) for name in medians if name in run.labels), reverse=True)
        shown, which = name_extremes(ranked, _MAX_NAMED, "cells")
        values = "; ".join(f"{label} {units.seconds(value)}" for value, label in shown)
        texts.append(f"per {per}{which}: {values or 'too few included trials'}")
    return f"Bar charts of the median CPU time of the servers {'. And '.join(texts)}."


def _cost_caption(run: StoredRun) -> str:
    return (
        "Bars end at the median over the included trials of a cell; each point is one trial, the first block on top. CPU is "
        "that of all services of the stack over the measured window."
        + (
            " Per handshake: of cells in which each request has a connection of its own; the CPU time of connection and "
            "request is included."
            if "handshake" in _drawn_costs(run)
            else ""
        )
        + more_in_table(len(_cost_cells(run)) - MAX_CELLS, "cell")
    )


@style()
def _draw_cost(run: StoredRun) -> Figure:
    """Draw a panel for each cost, with a row for each cell, below the levels that it shares with others."""
    costs, placed = _drawn_costs(run), list(_cost_rows(_cost_cells(run)[:MAX_CELLS]))
    rows = [FigureRow(y, name, is_heading=cell is None) for y, (name, cell) in enumerate(placed)]
    cells = {y: cell for y, (_, cell) in enumerate(placed) if cell is not None}
    has_exclusions = any(run.values(_COSTS[per]).has_exclusions for per in costs)
    declaration = COST.declaration(
        run,
        notes("bar: median of the trials", "point: one trial", HOLLOW if has_exclusions else None),
    )
    return draw_rows(declaration, rows, [_cost_panel(run, per, cells, len(rows)) for per in costs])


COST = ReportFigure(
    name="protocol-cost",
    title="CPU time per request and per TLS handshake",
    is_available=_cost_available,
    alt=_cost_alt,
    caption=_cost_caption,
    see="A longer bar costs the server more CPU time; cells that differ in the protocol alone show what it costs.",
    draw=_draw_cost,
)


@cached_per_run
def _cost_cells(run: StoredRun) -> list[CellView]:
    """Return the cells with any of the costs, in the order of the plan."""
    return [cell for cell in run.cells if any(cell.cell_id in run.values(metric).by_cell for metric in _COSTS.values())]


def _drawn_costs(run: StoredRun) -> list[str]:
    cells = {cell.cell_id for cell in _cost_cells(run)[:MAX_CELLS]}
    return [per for per, metric in _COSTS.items() if not cells.isdisjoint(run.values(metric).by_cell)]


def _cost_rows(cells: Sequence[CellView]) -> Iterator[tuple[str, CellView | None]]:
    """Yield the cells; cells that differ only in the factor of the colours get a heading with their shared levels."""
    panels: dict[str, list[CellView]] = {}
    for cell in cells:
        panels.setdefault(cell.panel, []).append(cell)
    for panel, members in panels.items():
        if panel:
            yield panel, None
        for cell in members:
            yield cell.hue_label if panel else cell.label, cell


def _cost_panel(run: StoredRun, per: str, cells: Mapping[int, CellView], rows: int) -> Panel:
    """Return the panel of a cost: the bar of each cell with its median beside it, and its trials over its height."""
    values = run.values(_COSTS[per])
    shown = {y: cell for y, cell in cells.items() if cell.cell_id in values.by_cell}
    medians = {y: values.medians.get(cell.cell_id) for y, cell in shown.items()}
    bars = pd.DataFrame(
        [(y, 0.0, median, shown[y].hue, 0.28) for y, median in medians.items() if median is not None],
        columns=["y", "low", "high", "hue", "opacity"],
    )
    points = pd.concat(
        spread_over_bar(values.by_cell[cell.cell_id], y).assign(
            hue=cell.hue,
            text=[
                f"{cell.label}, block {block}: {units.seconds(value)} per {per}"
                for block, value in values.by_cell[cell.cell_id][["block", "value"]].itertuples(index=False)
            ],
        )
        for y, cell in shown.items()
    )
    size = row_text_size(rows)

    def draw(axes: Axes) -> None:
        draw_bars(axes, bars)
        draw_points(axes, points, area=2 * size, rim=0.06 * size)
        for y, cell in shown.items():
            text = units.seconds(medians[y]) if medians[y] is not None else "invalid"
            write_beside(axes, y, text, rows, x=float(values.by_cell[cell.cell_id]["value"].max()))

    reach = _REACH * float(points["x"].max())
    return Panel(draw, Scale(units.seconds, f"server CPU per {per}", low=0, high=reach, ticks=4))


_CONNECT, _PROCESSING, _FIRST_BYTE = "connect_mean_s", "processing_mean_s", "first_byte_mean_s"
_PERCENTILES = {"latency_p50_s": "p50", "latency_p90_s": "p90", "latency_p99_s": "p99", "latency_max_s": "maximum"}
_TIME_HUES = {"connecting": 1, "waiting": 0, "receiving": 4}
"""Parts of a response time in their order, with their colours."""


@dataclass(frozen=True)
class _ResponseTime:
    """Mean times of a cell by part, and its percentiles, in seconds: measured (medians over trials), or published."""

    name: str
    parts: Mapping[str, float]
    percentiles: Mapping[str, float]
    is_published: bool

    @property
    def mean_s(self) -> float:
        """The mean response time."""
        return sum(self.parts.values())


def _has_response_times(run: StoredRun) -> bool:
    return bool(_response_times(run))


def _times_alt(run: StoredRun) -> str:
    ranked = sorted(
        ((row.parts["connecting"] / row.mean_s, row) for row in _response_times(run)), key=lambda each: -each[0]
    )
    shown, which = name_extremes(ranked, _MAX_NAMED, "rows")
    connecting = "; ".join(f"{row.name} {units.share(share)} of {units.seconds(row.mean_s)}" for share, row in shown)
    return f"Stacked bars of the mean response time by part, with percentiles; connecting{which}: {connecting}."


def _times_caption(run: StoredRun) -> str:
    has_published = any(row.is_published for row in _response_times(run))
    return (
        "A bar is the mean response time of a cell; the number beside it says how long. Its parts are opening the "
        "connection, waiting for the first byte of the response, and receiving the rest. Points are percentiles 50, 90 and "
        "99 and the maximum. Bars and points are medians over the included trials."
        + (" Pale bars and hollow points are what the study published." if has_published else "")
    )


@style()
def _draw_times(run: StoredRun) -> Figure:
    """Draw two panels with a row for each cell, followed by one for its published figures."""
    rows = _response_times(run)
    parts = [
        (y, part, time_s / row.mean_s, f"{row.name}: {part} {units.seconds(time_s)}", row.is_published)
        for y, row in enumerate(rows)
        for part, time_s in row.parts.items()
    ]
    shares = pd.DataFrame(parts, columns=["y", "part", "share", "text", "faint"])
    percentiles = [
        (y, time_s, f"{row.name}: {label} {units.seconds(time_s)}", row.is_published)
        for y, row in enumerate(rows)
        for label, time_s in row.percentiles.items()
    ]
    points = pd.DataFrame(percentiles, columns=["y", "x", "text", "hollow"])
    spans = points.groupby("y", as_index=False).agg(low=("x", "min"), high=("x", "max"))

    def draw_percentiles(axes: Axes) -> None:
        draw_intervals(axes, spans, width=0.8)
        draw_points(axes, points, area=16, rim=0.4)

    declaration = RESPONSE_TIMES.declaration(
        run,
        notes(
            "points: p50, p90, p99, maximum",
            "pale, hollow: published" if any(row.is_published for row in rows) else None,
        ),
        legend=part_legend(_TIME_HUES),
    )
    panels = [
        Panel(
            lambda axes: draw_shares(axes, shares, _TIME_HUES),
            Scale(units.share, "share of the mean", low=0, high=1, ticks=4),
        ),
        Panel(draw_percentiles, Scale(units.seconds, "response time", kind="log", ticks=3)),
    ]
    named_rows = [FigureRow(y, row.name, units.seconds(row.mean_s)) for y, row in enumerate(rows)]
    return draw_rows(declaration, named_rows, panels)


RESPONSE_TIMES = ReportFigure(
    name="connection-times",
    title="Mean response time by part, and percentiles",
    is_available=_has_response_times,
    alt=_times_alt,
    caption=_times_caption,
    see="The first part of a bar is the kernel's time for opening connections, which no server can shorten.",
    draw=_draw_times,
)


@cached_per_run
def _response_times(run: StoredRun) -> list[_ResponseTime]:
    """Return the rows of the cells that have all parts, in the order of the plan, each before its published one."""
    medians = {name: run.values(name).medians for name in (_CONNECT, _PROCESSING, _FIRST_BYTE, *_PERCENTILES)}
    records = {cell.cell_id: cell for cell in run.manifest.cells}
    rows = []
    for view in run.cells:
        values = {name: of[view.cell_id] for name, of in medians.items() if view.cell_id in of}
        measured = _response_time(view.label, values, is_published=False)
        if measured is None:
            continue
        rows.append(measured)
        for entry in published_of(run.manifest.scenario):
            published = _response_time("published", entry.figures, is_published=True)
            if published and cells_with_levels(level_texts(entry.cell), [records[view.cell_id]]):
                rows.append(published)
    return rows


def _response_time(name: str, values: Mapping[str, float], *, is_published: bool) -> _ResponseTime | None:
    """Return a row; None without all parts, or without any time."""
    if not {_CONNECT, _PROCESSING, _FIRST_BYTE} <= values.keys() or values[_CONNECT] + values[_PROCESSING] <= 0:
        return None
    waiting = min(values[_FIRST_BYTE], values[_PROCESSING])
    parts = {"connecting": values[_CONNECT], "waiting": waiting, "receiving": values[_PROCESSING] - waiting}
    percentiles = {label: values[metric] for metric, label in _PERCENTILES.items() if values.get(metric)}
    return _ResponseTime(name, parts, percentiles, is_published)
