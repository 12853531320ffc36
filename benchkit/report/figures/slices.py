"""Rates of the slices of sliced blocks over time: what the cells of a block share, and what they do not."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from benchkit import units
from benchkit.report.figures.figure import ReportFigure, more_in_table, provenance
from benchkit.report.layout import line_legend, new_figure, panel_grid, panel_height, sample_evenly
from benchkit.report.stored_run import StoredRun, cached_per_run
from benchkit.report.style import styled
from benchkit.report.tables import Column, Entry, Table, number
from benchkit.report.theme import SERIES
from benchkit.report.trial_marks import DOTTED, Mark, draw_lines, draw_marks

TITLE = "Rates of slices over a block"
MAX_CELLS = len(SERIES)
"""Cells that differ in colour; of more, the first are drawn."""


def is_available(run: StoredRun) -> bool:
    """Return True if any trial has slices with a rate."""
    return not _slices(run).empty


def alt(run: StoredRun) -> str:
    """Describe how much rates vary over the slices of a block, and how much the cells vary against each other."""
    slices, common = _slices(run), _common_spread(run)
    blocks = units.counted(slices["block"].nunique(), "block")
    spread = units.share(float(slices.groupby("trial_id")["log_rps"].std().median()))
    text = f"Time series of the rate of each slice in {blocks}; within a trial the standard deviation is {spread}"
    return (
        f"{text}." if common is None else f"{text}, and {units.share(common)} relative to the other cells in a round."
    )


def caption(run: StoredRun) -> str:
    """Explain points and lines."""
    blocks = _slices(run)["block"].unique()
    return (
        "Every point is a slice, in which the load goes to one cell while the others are up without load. What all lines of a "
        "block do together is the machine's, and their ratio does not contain it."
        + (" Dotted lines are of excluded trials." if run.values("rps").has_exclusions else "")
        + more_in_table(len(blocks) - len(sample_evenly(list(blocks))), "block")
        + more_in_table(len(_cells(run)) - MAX_CELLS, "cell")
    )


@styled
def draw(run: StoredRun) -> Figure:
    """Draw a panel for each block, with a line for each cell."""
    slices, exclusions = _slices(run), run.values("rps").exclusions
    cells = {cell_id: hue for hue, cell_id in enumerate(_cells(run)[:MAX_CELLS])}
    blocks = {f"block {block}": block for block in sample_evenly(list(slices["block"].unique()))}
    figure = new_figure(
        panel_height(len(blocks)),
        title=TITLE,
        subtitle=[
            "point: one slice of one cell" + (f" \N{MIDDLE DOT} {DOTTED}" if run.values("rps").has_exclusions else "")
        ],
        source=provenance(run),
        legend=line_legend({hue: run.labels[cell_id] for cell_id, hue in cells.items()}),
    )
    panels = panel_grid(figure, list(blocks), x_label="s from the first slice", y_label="requests per second")
    for name, axes in panels.items():
        of_block = slices[slices["block"] == blocks[name]]
        for trial_id, rows in of_block.groupby("trial_id", sort=True):
            cell_id = str(rows["cell_id"].iloc[0])
            if cell_id not in cells:
                continue
            line = rows[["started_s", "rps"]].to_numpy(dtype=np.float64)
            draw_lines(axes, cells[cell_id], [line], [str(trial_id) in exclusions])
            marks = [
                Mark(float(x), float(y), f"{run.labels[cell_id]}, {x:.1f} s: {units.requests_per_s(float(y))}")
                for x, y in line
            ]
            draw_marks(axes, cells[cell_id], marks, area=5.0)
    axes = next(iter(panels.values()))
    axes.set_ylim(0, 1.05 * float(slices["rps"].max()))
    axes.set_xlim(0, 1.02 * max(float(slices["started_s"].max()), 0.1))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: units.rate(value)))
    axes.xaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
    return figure


def table(run: StoredRun) -> Table:
    """Return the lowest, median and highest rate of the slices of each trial."""
    rows = []
    for _, slices in _slices(run).groupby(["block", "cell_id"], sort=True):
        block, cell_id = int(slices["block"].iloc[0]), str(slices["cell_id"].iloc[0])
        rates = slices["rps"].astype(float)
        values = (float(len(rates)), float(rates.min()), float(rates.median()), float(rates.max()))
        numbers = (number(value, units.count if place == 0 else units.rate) for place, value in enumerate(values))
        rows.append((number(float(block), units.count), Entry(run.labels[cell_id]), *numbers))
    return Table(
        name="figure-slices",
        caption="Slices of each trial",
        columns=(
            Column("Block", "number"),
            Column("Cell", "name"),
            Column("Slices", "number"),
            Column("Lowest rate", "number", unit="req/s"),
            Column("Median rate", "number", unit="req/s"),
            Column("Highest rate", "number", unit="req/s"),
        ),
        rows=tuple(rows),
    )


FIGURE = ReportFigure(
    name="slices",
    title=TITLE,
    is_available=is_available,
    alt=alt,
    caption=caption,
    see="Lines that rise and fall together show drift of the machine; a line that leaves the others shows a cell of its own.",
    draw=draw,
    data=None,
    table=table,
)


@cached_per_run
def _slices(run: StoredRun) -> pd.DataFrame:
    """Return the slices of measured trials that have a rate, with their cell and block, in order of time."""
    slices = run.table("slices").merge(run.measured[["trial_id", "cell_id", "block"]], on="trial_id")
    known = slices[pd.to_numeric(slices["rps"]) > 0]
    logs = np.log(known["rps"].to_numpy(dtype=np.float64))
    return known.assign(log_rps=logs).sort_values(["block", "started_s"], ignore_index=True)


def _cells(run: StoredRun) -> list[str]:
    """Return the cells with slices, in the order of the plan."""
    with_slices = set(_slices(run)["cell_id"])
    return [view.cell_id for view in run.cells if view.cell_id in with_slices]


def _common_spread(run: StoredRun) -> float | None:
    """Return the median standard deviation of log rates after the mean of their round is removed; None for one cell."""
    slices = _slices(run)
    rounds = slices.groupby(["block", "slice"])["log_rps"]
    whole = slices[rounds.transform("size") > 1]
    if whole.empty:
        return None
    relative = whole["log_rps"] - rounds.transform("mean").loc[whole.index]
    spread = float(relative.groupby(whole["trial_id"]).std().median())
    return None if math.isnan(spread) else spread
