"""Accept queues against their limits, and what the kernel dropped: where connections waited for a server."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from benchkit import units
from benchkit.report.cell_labels import CellView
from benchkit.report.figures.figure import ReportFigure, provenance
from benchkit.report.panel_grid import grid, left_out
from benchkit.report.stored_run import StoredRun, numbers, once
from benchkit.report.style import styled
from benchkit.report.tables import Column, Entry, Table, number
from benchkit.report.theme import GRID, MUTED
from benchkit.report.trial_marks import DOTTED, any_void, draw_lines

TITLE = "Accept queues"

_NAMED = 8

QUEUE, LIMIT = "accept_queue", "accept_queue_limit"
DROPS = ("listen_overflows_total", "listen_drops_total", "req_queue_full_cookies_total", "req_queue_full_drops_total")
"""What the kernel counts when a queue is full; an overflow is a drop, too, so that only the first is shown."""


def available(run: StoredRun) -> bool:
    """Whether any connection was seen waiting, or dropped."""
    telemetry = run.telemetry
    waited = (telemetry["metric"] == QUEUE) & (telemetry["value"] > 0)
    return bool(waited.any()) or bool((overflows(run) > 0).any())


def alt(run: StoredRun) -> str:
    """The deepest queue and the overflows of each cell, in words."""
    full, deepest = overflows(run), _highest(run)[QUEUE]
    said = [
        f"{view.label}: at most {units.count(float(deepest[view.cell_id]))} waiting, {_overflowed(view, full)}"
        for view in _shown(run)[:_NAMED]
    ]
    return f"Time series of the depth of accept queues: {'; '.join(said)}."


@once
def caption(run: StoredRun) -> str:
    """What is drawn."""
    more = left_out([view.label for view in _shown(run)])
    void = " Dotted lines are of trials that do not count; depths and overflows are of all." if _void(run) else ""
    return (
        "Connections that wait to be accepted, of the socket where most waited, one line a trial; dashed: the most that "
        "may wait there. Overflows are connections that came when the queue was full (ListenOverflows over the measured "
        f"window).{void}" + (f" {units.counted(more, 'cell')} more are left out; the table has all." if more else "")
    )


@styled
def draw(run: StoredRun) -> Figure:
    """The figure: a panel for each cell."""
    shown = _shown(run)
    full = overflows(run)
    by_label = {view.label: view for view in shown}
    drawn = grid(
        list(by_label),
        title=TITLE,
        subtitle=[
            "depth of the fullest socket over time, one line a trial",
            "dashed: its limit" + (f" \N{MIDDLE DOT} {DOTTED}" if _void(run) else ""),
        ],
        foot=provenance(run),
        x_label="s from the start of the window",
        y_label="connections waiting",
    )
    highest = 1.0
    for name, axes in drawn.panels.items():
        highest = max(highest, _draw_cell(axes, run, by_label[name]))
        axes.annotate(
            _overflowed(by_label[name], full),
            (1, 1),
            xycoords="axes fraction",
            xytext=(-4, -3),
            textcoords="offset points",
            ha="right",
            va="top",
            color=MUTED.light,
        )
    axes = drawn.first
    axes.set_yscale("symlog", linthresh=10)
    axes.set_ylim(0, highest * 1.6)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: units.count(value)))
    axes.xaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
    return drawn.figure


@once
def table(run: StoredRun) -> Table:
    """The deepest queue, its limit and the overflows of each cell."""
    full, highest, rows = overflows(run), _highest(run), []
    watched, void = set(run.telemetry["trial_id"].unique()), run.void("rps")
    for view in _shown(run):
        deepest, limit = (float(highest[metric].get(view.cell_id, np.nan)) for metric in (QUEUE, LIMIT))
        trials = [str(trial_id) for trial_id in run.of_cell(view.cell_id)["trial_id"] if trial_id in watched]
        rows.append(
            (
                Entry(view.label),
                number(deepest, units.count),
                number(limit, units.count),
                number(float(round(full.get(view.cell_id, 0.0))), units.count),
                number(float(len(trials)), units.count),
                number(float(sum(trial_id in void for trial_id in trials)), units.count),
            )
        )
    return Table(
        name="figure-accept-queue",
        caption="Accept queues, over all trials of a cell",
        columns=(
            Column("Cell", "name"),
            Column("Most that waited", "number"),
            Column("Limit", "number"),
            Column("Overflows", "number"),
            Column("Trials", "number"),
            Column("Void of them", "number"),
        ),
        rows=tuple(rows),
    )


FIGURE = ReportFigure(
    name="accept-queue", title=TITLE, available=available, alt=alt, caption=caption, draw=draw, data=None, table=table
)


@once
def overflows(run: StoredRun) -> pd.Series[float]:
    """Connections of each cell's measured trials that found a full queue, over the measured windows, by cell_id."""
    measured = run.measured.set_index("trial_id")
    rows = run.telemetry[run.telemetry["metric"] == DROPS[0]]
    if rows.empty:
        return pd.Series(dtype="float64")
    window = rows["trial_id"].map(numbers(measured["duration_s"]))
    inside = rows[(rows["t_s"] >= 0) & (rows["t_s"] <= window)]
    counted = inside.groupby(["trial_id", "host"])["value"].agg(["max", "min"])
    grown = counted.assign(grown=counted["max"] - counted["min"]).reset_index()
    totals: pd.Series[float] = grown["grown"].groupby(grown["trial_id"].map(measured["cell_id"])).sum()
    return totals


def _void(run: StoredRun) -> bool:
    return any_void(run.measured, run.void("rps"))


@once
def _shown(run: StoredRun) -> list[CellView]:
    watched = set(run.telemetry.loc[run.telemetry["metric"] == QUEUE, "trial_id"].unique())
    cells = set(run.measured.loc[run.measured["trial_id"].isin(watched), "cell_id"])
    return [view for view in run.cells if view.cell_id in cells]


@once
def _highest(run: StoredRun) -> pd.DataFrame:
    """The highest depth and limit of each cell, by cell_id; NaN where it has none."""
    rows = run.telemetry[run.telemetry["metric"].isin([QUEUE, LIMIT])]
    cells = rows["trial_id"].map(dict(zip(run.measured["trial_id"], run.measured["cell_id"], strict=True)))
    found = rows.assign(cell_id=cells).pivot_table(index="cell_id", columns="metric", values="value", aggfunc="max")
    return found.reindex(columns=[QUEUE, LIMIT])


def _overflowed(view: CellView, full: pd.Series[float]) -> str:
    return units.counted(round(full.get(view.cell_id, 0.0)), "overflow")


def _draw_cell(axes: Axes, run: StoredRun, view: CellView) -> float:
    """The lines of a cell; the highest of what is drawn."""
    samples = run.telemetry_of(view.cell_id)
    window = numbers(run.of_cell(view.cell_id)["duration_s"]).median()
    axes.axvspan(0, float(window), color=GRID.light, alpha=0.55, linewidth=0, zorder=0)
    depths = samples[samples["metric"] == QUEUE].groupby(["trial_id", "t_s"])["value"].max().reset_index()
    trials, lines = _lines(depths)
    draw_lines(axes, view.hue, lines, [trial_id in run.void("rps") for trial_id in trials])
    axes.set_xlim(float(samples["t_s"].min()), float(samples["t_s"].max()))
    limit = samples.loc[samples["metric"] == LIMIT, "value"].max()
    if not np.isnan(limit):
        axes.axhline(float(limit), color=MUTED.light, linestyle="--", linewidth=0.9)
    return float(np.nanmax([limit, depths["value"].max()]))


def _lines(depths: pd.DataFrame) -> tuple[Sequence[str], Sequence[np.ndarray]]:
    """The trials, and the line of each."""
    groups = [(str(trial_id), rows.sort_values("t_s")) for trial_id, rows in depths.groupby("trial_id", sort=True)]
    return [trial_id for trial_id, _ in groups], [rows[["t_s", "value"]].to_numpy(dtype=float) for _, rows in groups]
