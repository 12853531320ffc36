"""Accept queues against their limits, and what the kernel dropped: where connections waited for a server."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from benchkit import units
from benchkit.report.cells import CellView, cell_views
from benchkit.report.figures.figure import ReportFigure, provenance
from benchkit.report.grid import grid, left_out
from benchkit.report.style import colour, styled
from benchkit.report.theme import GRID, MUTED
from benchkit.report.view import RunView, numbers

TITLE = "Accept queues"

_NAMED = 8

QUEUE, LIMIT = "accept_queue", "accept_queue_limit"
DROPS = ("listen_overflows_total", "listen_drops_total", "req_queue_full_cookies_total", "req_queue_full_drops_total")
"""What the kernel counts when a queue is full; an overflow is a drop, too, so that only the first is shown."""


def available(run: RunView) -> bool:
    """Whether any connection was seen waiting, or dropped."""
    telemetry = run.telemetry
    waited = (telemetry["metric"] == QUEUE) & (telemetry["value"] > 0)
    return bool(waited.any()) or bool((overflows(run) > 0).any())


def alt(run: RunView) -> str:
    """The deepest queue and the overflows of each cell, in words."""
    full = overflows(run)
    said = [f"{view.label}: {_said(run, view, full)}" for view in _shown(run)[:_NAMED]]
    return f"Time series of the depth of accept queues: {'; '.join(said)}."


def caption(run: RunView) -> str:
    """What is drawn."""
    more = left_out([view.label for view in _shown(run)])
    return (
        "Connections that wait to be accepted, of the socket where most waited, one line a trial; dashed: the most that "
        "may wait there. Overflows are connections that came when the queue was full (ListenOverflows over the measured "
        "window)." + (f" {units.counted(more, 'cell')} more are left out; the table has all." if more else "")
    )


@styled
def draw(run: RunView) -> Figure:
    """The figure: a panel for each cell."""
    shown = _shown(run)
    full = overflows(run)
    by_label = {f"{view.label} \N{MIDDLE DOT} {_overflowed(view, full)}": view for view in shown}
    drawn = grid(
        list(by_label),
        title=TITLE,
        subtitle=["depth of the fullest socket over time, one line a trial", "dashed: its limit"],
        foot=provenance(run),
        x_label="s from the start of the window",
        y_label="connections waiting",
    )
    highest = 1.0
    for name, axes in drawn.panels.items():
        highest = max(highest, _draw_cell(axes, run, by_label[name]))
    axes = drawn.first
    axes.set_yscale("symlog", linthresh=10)
    axes.set_ylim(0, highest * 1.6)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: units.count(value)))
    axes.xaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
    return drawn.figure


FIGURE = ReportFigure(name="accept-queue", title=TITLE, available=available, alt=alt, caption=caption, draw=draw)


def overflows(run: RunView) -> pd.Series[float]:
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


def _shown(run: RunView) -> list[CellView]:
    watched = set(run.telemetry.loc[run.telemetry["metric"] == QUEUE, "trial_id"])
    cells = set(run.measured.loc[run.measured["trial_id"].isin(watched), "cell_id"])
    return [view for view in cell_views(run.manifest) if view.cell_id in cells]


def _samples(run: RunView, view: CellView) -> pd.DataFrame:
    return run.telemetry[run.telemetry["trial_id"].isin(list(run.of_cell(view.cell_id)["trial_id"]))]


def _said(run: RunView, view: CellView, full: pd.Series[float]) -> str:
    depths = _samples(run, view)
    deepest = depths.loc[depths["metric"] == QUEUE, "value"].max()
    return f"at most {units.count(float(deepest))} waiting, {_overflowed(view, full)}"


def _overflowed(view: CellView, full: pd.Series[float]) -> str:
    return units.counted(round(full.get(view.cell_id, 0.0)), "overflow")


def _draw_cell(axes: Axes, run: RunView, view: CellView) -> float:
    """The lines of a cell; the highest of what is drawn."""
    samples = _samples(run, view)
    window = numbers(run.of_cell(view.cell_id)["duration_s"]).median()
    axes.axvspan(0, float(window), color=GRID.light, alpha=0.55, linewidth=0, zorder=0)
    depths = samples[samples["metric"] == QUEUE].groupby(["trial_id", "t_s"])["value"].max().reset_index()
    axes.add_collection(LineCollection(_lines(depths), colors=colour(view.hue), linewidths=1.0, alpha=0.75))
    axes.set_xlim(float(samples["t_s"].min()), float(samples["t_s"].max()))
    limit = samples.loc[samples["metric"] == LIMIT, "value"].max()
    if not np.isnan(limit):
        axes.axhline(float(limit), color=MUTED.light, linestyle="--", linewidth=0.9)
    return float(np.nanmax([limit, depths["value"].max()]))


def _lines(depths: pd.DataFrame) -> Sequence[np.ndarray]:
    return [
        rows.sort_values("t_s")[["t_s", "value"]].to_numpy(dtype=float)
        for _, rows in depths.groupby("trial_id", sort=True)
    ]
