"""Latencies of each second of the measured trials, as the load tool saw them: stalls, and queues that grow."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from benchkit import units
from benchkit.models.capacity import Objective
from benchkit.report.figures.figure import ReportFigure, more_in_table, provenance
from benchkit.report.layout import line_legend, new_figure, panel_grid, panel_height, sample_evenly
from benchkit.report.stored_run import StoredRun, cached_per_run
from benchkit.report.style import colour, styled
from benchkit.report.tables import Column, Entry, Table, number
from benchkit.report.theme import GRID
from benchkit.report.trial_marks import DOTTED, draw_lines

TITLE = "Latency over time"
P50, P99 = "latency_p50_s", "latency_p99_s"
HUES = {P50: 0, P99: 1}
NAMES = {P50: "p50", P99: "p99"}
MIN_SECONDS = 3
"""Seconds of a trial below which there is no course of time to see."""


def is_available(run: StoredRun) -> bool:
    """Return True if a measured trial has a series of at least three seconds."""
    return not _series(run).empty


def alt(run: StoredRun) -> str:
    """Describe the worst second."""
    series = _series(run)
    worst = series.iloc[int(series[P99].astype(float).argmax())]
    return (
        f"Time series of p50 and p99 latency in each second of {units.counted(series['trial_id'].nunique(), 'trial')}; "
        f"the worst is {run.labels[str(worst['cell_id'])]} in second {int(worst['t_s'])} of block {int(worst['block'])}, with "
        f"a p99 of {units.seconds(float(worst[P99]))}."
    )


def caption(run: StoredRun) -> str:
    """Explain the lines."""
    cells = _cells(run)
    return (
        "Every line is a trial: the median and the 99th percentile of the requests that ended in each second, as the load "
        "tool saw them."
        + (" Grey: the seconds in which the target rate has its shape." if _shape(run) else "")
        + (" Dashed: limits of the objective." if _limits(run) else "")
        + (" Dotted lines are of excluded trials." if run.values(P99).has_exclusions else "")
        + more_in_table(len(cells) - len(sample_evenly(cells)), "cell")
    )


@styled
def draw(run: StoredRun) -> Figure:
    """Draw a panel for each cell, with two lines for each trial."""
    series, exclusions = _series(run), run.values(P99).exclusions
    cells = {run.labels[cell_id]: cell_id for cell_id in sample_evenly(_cells(run))}
    figure = new_figure(
        panel_height(len(cells)),
        title=TITLE,
        subtitle=["line: one trial" + (f" \N{MIDDLE DOT} {DOTTED}" if run.values(P99).has_exclusions else "")],
        source=provenance(run),
        legend=line_legend({HUES[column]: NAMES[column] for column in (P50, P99)}),
    )
    panels = panel_grid(figure, list(cells), x_label="s from the first request", y_label="latency")
    for name, axes in panels.items():
        _draw_target(axes, run)
        of_cell = series[series["cell_id"] == cells[name]]
        for column in (P50, P99):
            trials = {str(trial_id): _line(rows, column) for trial_id, rows in of_cell.groupby("trial_id", sort=True)}
            draw_lines(axes, HUES[column], list(trials.values()), [trial_id in exclusions for trial_id in trials])
    axes = next(iter(panels.values()))
    shown = series[series["cell_id"].isin(cells.values())]
    axes.set_yscale("log")
    axes.set_ylim(float(shown[P50].min()) / 1.3, float(shown[P99].max()) * 1.3)
    axes.set_xlim(0, float(shown["t_s"].max()))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: units.seconds(value)))
    axes.yaxis.set_minor_formatter(FuncFormatter(lambda _value, _: ""))
    axes.xaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
    return figure


def table(run: StoredRun) -> Table:
    """Return the median and the worst second of each trial."""
    rows = []
    for _, seconds in _series(run).groupby(["block", "cell_id", "trial_id"], sort=True):
        p99 = seconds[P99].astype(float)
        rows.append(
            (
                number(float(seconds["block"].iloc[0]), units.count),
                Entry(run.labels[str(seconds["cell_id"].iloc[0])]),
                number(float(len(seconds)), units.count),
                number(float(p99.median()), units.seconds),
                number(float(p99.max()), units.seconds),
                number(float(seconds["in_flight"].max()), units.count),
            )
        )
    return Table(
        name="figure-latency-over-time",
        caption="Seconds of each trial",
        columns=(
            Column("Block", "number"),
            Column("Cell", "name"),
            Column("Seconds", "number"),
            Column("Median p99", "number"),
            Column("Worst p99", "number"),
            Column("Most in flight", "number"),
        ),
        rows=tuple(rows),
    )


FIGURE = ReportFigure(
    name="latency-over-time",
    title=TITLE,
    is_available=is_available,
    alt=alt,
    caption=caption,
    see="A second far above the others is a stall; lines that rise to the end show a queue that grows.",
    draw=draw,
    data=None,
    table=table,
)


@cached_per_run
def _series(run: StoredRun) -> pd.DataFrame:
    """Return the seconds of measured trials that have latencies, with their cell and block, in order of time."""
    series = run.table("series").merge(run.measured[["trial_id", "cell_id", "block"]], on="trial_id")
    known = series[(pd.to_numeric(series[P50]) > 0) & (pd.to_numeric(series[P99]) > 0)]
    lengths = known.groupby("trial_id")["t_s"].transform("size")
    return known[lengths >= MIN_SECONDS].sort_values(["block", "trial_id", "t_s"], ignore_index=True)


def _cells(run: StoredRun) -> list[str]:
    """Return the cells with a series, in the order of the plan."""
    with_series = set(_series(run)["cell_id"])
    return [view.cell_id for view in run.cells if view.cell_id in with_series]


def _draw_target(axes: Axes, run: StoredRun) -> None:
    """Shade the shape of the target rate, and draw the limits of the objective."""
    if (shape := _shape(run)) is not None:
        axes.axvspan(*shape, color=GRID.light, linewidth=0, zorder=0)
    for column, limit_s in _limits(run).items():
        axes.axhline(limit_s, color=colour(HUES[column]), linestyle="--", linewidth=0.8, zorder=1)


def _shape(run: StoredRun) -> tuple[int, int] | None:
    """Return start and end of the shape that all cells have; None without one."""
    shape = run.manifest.scenario.get("load", {}).get("shape") or {}
    start_s, length_s = shape.get("start_s"), shape.get("length_s")
    return (start_s, start_s + length_s) if isinstance(start_s, int) and isinstance(length_s, int) else None


def _limits(run: StoredRun) -> dict[str, float]:
    """Return the limits of the objective that are about drawn percentiles."""
    goal = run.manifest.scenario.get("load", {}).get("capacity") or {}
    slo = goal.get("slo")
    limits = Objective.model_validate(slo).latencies if isinstance(slo, dict) else {}
    return {column: limit_s for column, limit_s in limits.items() if column in HUES}


def _line(rows: pd.DataFrame, column: str) -> npt.NDArray[np.float64]:
    return rows[["t_s", column]].to_numpy(dtype=np.float64)
