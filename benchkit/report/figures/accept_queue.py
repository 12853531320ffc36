"""Accept queues against their limits, and overflows that the kernel counted."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from benchkit import units
from benchkit.comparison.cell_labels import CellView
from benchkit.report.figures.figure import ReportFigure, more_in_table, provenance
from benchkit.report.layout import new_figure, panel_grid, panel_height, sample_evenly
from benchkit.report.metric_values import numbers
from benchkit.report.stored_run import StoredRun, cached_per_run
from benchkit.report.style import styled
from benchkit.report.tables import Column, Entry, Table, number
from benchkit.report.theme import MUTED
from benchkit.report.trial_marks import DOTTED, draw_time_series, shade_window

TITLE = "Accept queues"

_MAX_NAMED = 8

QUEUE, LIMIT = "accept_queue", "accept_queue_limit"
OVERFLOWS = "listen_overflows_total"
"""Connections that the kernel refused because an accept queue was full; it counts each of them as a drop as well."""


def is_available(run: StoredRun) -> bool:
    """Return True if any connection waited or overflowed."""
    telemetry = run.telemetry
    waited = (telemetry["metric"] == QUEUE) & (telemetry["value"] > 0)
    return bool(waited.any()) or bool((overflows(run) > 0).any())


def alt(run: StoredRun) -> str:
    """Describe the deepest queue and the overflows of each cell."""
    counts, deepest = overflows(run), _deepest(run)[QUEUE]
    cells = [
        f"{view.label}: at most {units.count(float(deepest[view.cell_id]))} waiting, {_overflow_text(view, counts)}"
        for view in _drawn(run)[:_MAX_NAMED]
    ]
    return f"Time series of the depth of accept queues: {'; '.join(cells)}."


def caption(run: StoredRun) -> str:
    """Explain lines and overflows."""
    cells = _drawn(run)
    return (
        "Connections that wait to be accepted, of the socket with the deepest queue, one line per trial; dashed: the limit of "
        "the queue. Overflows are connections that arrived when the queue was full (ListenOverflows over the measured "
        "window)."
        + (
            " Dotted lines are of excluded trials; the limits and overflows are of all trials."
            if run.values("rps").has_exclusions
            else ""
        )
        + more_in_table(len(cells) - len(sample_evenly(cells)), "cell")
    )


@styled
def draw(run: StoredRun) -> Figure:
    """Draw a panel for each cell."""
    by_label = {view.label: view for view in sample_evenly(_drawn(run))}
    counts = overflows(run)
    figure = new_figure(
        panel_height(len(by_label)),
        title=TITLE,
        subtitle=[
            "depth of the deepest queue over time, one line per trial",
            "dashed: its limit" + (f" \N{MIDDLE DOT} {DOTTED}" if run.values("rps").has_exclusions else ""),
        ],
        source=provenance(run),
    )
    panels = panel_grid(figure, list(by_label), x_label="s from the start of the window", y_label="connections waiting")
    highest = 1.0
    for name, axes in panels.items():
        highest = max(highest, _draw_cell(axes, run, by_label[name]))
        axes.annotate(
            _overflow_text(by_label[name], counts),
            (1, 1),
            xycoords="axes fraction",
            xytext=(-4, -3),
            textcoords="offset points",
            ha="right",
            va="top",
            color=MUTED.light,
        )
    axes = next(iter(panels.values()))
    axes.set_yscale("symlog", linthresh=10)
    axes.set_ylim(0, highest * 1.6)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: units.count(value)))
    axes.xaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
    return figure


def table(run: StoredRun) -> Table:
    """Return the deepest queue, its limit and the overflows of each cell."""
    counts, deepest, rows = overflows(run), _deepest(run), []
    watched, exclusions = set(run.telemetry["trial_id"].unique()), run.values("rps").exclusions
    for view in _drawn(run):
        depth, limit = (float(deepest[metric].get(view.cell_id, np.nan)) for metric in (QUEUE, LIMIT))
        trials = [str(trial_id) for trial_id in run.trials_of(view.cell_id)["trial_id"] if trial_id in watched]
        values = (
            depth,
            limit,
            float(round(counts.get(view.cell_id, 0.0))),
            float(len(trials)),
            float(sum(trial_id in exclusions for trial_id in trials)),
        )
        rows.append((Entry(view.label), *(number(value, units.count) for value in values)))
    return Table(
        name="figure-accept-queue",
        caption="Accept queues, over all trials of a cell",
        columns=(
            Column("Cell", "name"),
            Column("Deepest queue", "number"),
            Column("Limit", "number"),
            Column("Overflows", "number"),
            Column("Trials", "number"),
            Column("Excluded trials", "number"),
        ),
        rows=tuple(rows),
    )


FIGURE = ReportFigure(
    name="accept-queue",
    title=TITLE,
    is_available=is_available,
    alt=alt,
    caption=caption,
    see="A line that reaches the dashed limit is a server that accepts connections too slowly.",
    draw=draw,
    data=None,
    table=table,
)


@cached_per_run
def overflows(run: StoredRun) -> pd.Series[float]:
    """Return the overflows of each cell's measured trials over their measured windows, by cell_id."""
    measured = run.measured.set_index("trial_id")
    rows = run.telemetry[run.telemetry["metric"] == OVERFLOWS]
    if rows.empty:
        return pd.Series(dtype="float64")
    window = rows["trial_id"].map(numbers(measured["duration_s"]))
    inside = rows[(rows["t_s"] >= 0) & (rows["t_s"] <= window)]
    counters = inside.groupby(["trial_id", "host"])["value"].agg(["max", "min"])
    increases = (counters["max"] - counters["min"]).reset_index(name="increase")
    totals: pd.Series[float] = increases["increase"].groupby(increases["trial_id"].map(measured["cell_id"])).sum()
    return totals


@cached_per_run
def _drawn(run: StoredRun) -> list[CellView]:
    """Return the cells whose accept queues were watched."""
    cells = _deepest(run)[QUEUE].dropna().index
    return [view for view in run.cells if view.cell_id in cells]


@cached_per_run
def _deepest(run: StoredRun) -> pd.DataFrame:
    """Return the highest depth and limit of each cell, by cell_id; NaN if it has none."""
    rows = run.telemetry[run.telemetry["metric"].isin([QUEUE, LIMIT])]
    cells = rows["trial_id"].map(dict(zip(run.measured["trial_id"], run.measured["cell_id"], strict=True)))
    table = rows.assign(cell_id=cells).pivot_table(index="cell_id", columns="metric", values="value", aggfunc="max")
    return table.reindex(columns=[QUEUE, LIMIT])


def _overflow_text(view: CellView, counts: pd.Series[float]) -> str:
    return units.counted(round(counts.get(view.cell_id, 0.0)), "overflow")


def _draw_cell(axes: Axes, run: StoredRun, view: CellView) -> float:
    """Draw the lines of a cell, and return the highest value among them."""
    samples = run.telemetry_of(view.cell_id)
    shade_window(axes, numbers(run.trials_of(view.cell_id)["duration_s"]))
    depths = samples[samples["metric"] == QUEUE].groupby(["trial_id", "t_s"])["value"].max().reset_index()
    draw_time_series(axes, view.hue, depths, run.values("rps").exclusions)
    axes.set_xlim(float(samples["t_s"].min()), float(samples["t_s"].max()))
    limit = samples.loc[samples["metric"] == LIMIT, "value"].max()
    if not np.isnan(limit):
        axes.axhline(float(limit), color=MUTED.light, linestyle="--", linewidth=0.9)
    return float(np.nanmax([limit, depths["value"].max()]))
