"""Figures of rates: requests per second by cell, and the rates of slices over a block."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchkit import units
from benchkit.report.figure import ReportFigure, more_in_table, name_extremes
from benchkit.report.layout import line_legend, row_text_size, sample_evenly, write_beside
from benchkit.report.metric_values import numbers
from benchkit.report.panels import (
    BAR,
    DOTTED,
    HOLLOW,
    FigureRow,
    Panel,
    Scale,
    count_rows,
    draw_bars,
    draw_intervals,
    draw_lines,
    draw_panels,
    draw_points,
    draw_rows,
    notes,
    spread_over_bar,
)
from benchkit.report.stored_run import StoredRun, cached_per_run
from benchkit.report.style import style
from benchkit.report.summary import CellSummary, summarise
from benchkit.report.tables import Entry, Table, named, number, table
from benchkit.report.theme import SERIES
from benchkit.stats.inference import MIN_BLOCKS, mean_interval
from benchkit.stats.samples import take_samples

_MAX_WRITTEN = 60
"""Rows up to which the means are written beside the bars."""
_MAX_NAMED = 8
_GAP = 0.6
"""Rows between two panels whose cells have no names of their own."""
_MAX_REACH = 1.5
"""Multiple of the highest rate that the axis shows at most, so that a wide interval does not dwarf the bars."""
_LARGEST_LOG = 700.0
"""Logarithm near the largest number that a double holds."""


def _rates_alt(run: StoredRun) -> str:
    known = [cell for cell in summarise(run) if cell.mean_rps is not None]
    ranked = sorted(
        ((cell.mean_rps, cell.cell.label) for cell in [each for each in known if each.is_usable] or known),
        reverse=True,
    )
    shown, which = name_extremes(ranked, _MAX_NAMED, "cells")
    means = "; ".join(f"{label} {units.rate(rps)}" for rps, label in shown)
    return f"Bar chart of the mean requests per second{which}: {means}."


def _rates_caption(run: StoredRun) -> str:
    if rate_intervals(run):
        lines = (
            f" The line across a bar is the {1 - run.data.alpha:.0%} interval of the cell's rate (Student's t on its "
            "logarithms; a block is the sample)."
        )
    elif run.data.design == "sequential":
        lines = " There are no intervals: in a sequential design they would not contain drift."
    else:
        lines = f" There are no intervals: they need {MIN_BLOCKS} blocks with included trials."
    return (
        "Bars end at the mean over the included trials of a cell. Each of the "
        f"{units.counted(len(run.measured), 'point')} is one trial, in the order of the blocks from top to bottom.{lines} "
        "Cells share the conditions of their blocks, so that two cells may differ although their intervals overlap. The "
        "figure of ratios shows whether they do."
    )


@style()
def _draw_rates(run: StoredRun) -> Figure:
    """Draw a row for each cell; a row without a rate says why."""
    cells = summarise(run)
    legend, intervals = _colour_legend(cells), rate_intervals(run)
    placed = list(_rate_rows(cells, has_legend=bool(legend)))
    rows, by_y = [row for row, _ in placed], {row.y: cell for row, cell in placed if cell is not None}
    lines = count_rows(rows)
    size = row_text_size(lines)
    highest = float(numbers(run.measured["rps"]).max()) or 1.0
    reach = min(max([highest, *(high for _, high in intervals.values())]), _MAX_REACH * highest)

    def draw(axes: Axes) -> None:
        means = _mean_bars(by_y)
        draw_bars(axes, means)
        ends = means[means["is_usable"]]
        marked = ends.assign(x=ends["high"], low=ends["y"] - BAR / 2, high=ends["y"] + BAR / 2)
        draw_intervals(axes, marked, along="y", width=2)
        draw_points(axes, _trial_points(run, by_y), area=2 * size, rim=0.06 * size)
        draw_intervals(axes, _interval_lines(by_y, intervals, 1 - run.data.alpha))
        for y, cell in by_y.items():
            if len(rows) <= _MAX_WRITTEN or cell.mean_rps is None:
                _, high = intervals.get(cell.cell.cell_id, (0.0, 0.0))
                write_beside(axes, y, _result_text(cell), lines, x=min(max([high, *cell.rps]), reach))

    declaration = RATES.declaration(
        run,
        notes(
            "bar: mean of the trials",
            "point: one trial",
            f"line: {1 - run.data.alpha:.0%} interval" if intervals else None,
            HOLLOW if run.values("rps").has_exclusions else None,
        ),
        legend=line_legend(legend),
    )
    scale = Scale(units.rate, "requests per second", low=0, high=1.14 * reach, ticks=6)
    return draw_rows(declaration, rows, [Panel(draw, scale)])


RATES = ReportFigure(
    name="rps",
    title="Requests per second by cell",
    is_available=lambda run: bool(run.values("rps").by_cell),
    alt=_rates_alt,
    caption=_rates_caption,
    see="A longer bar serves more requests per second; the points show how much its trials vary.",
    draw=_draw_rates,
)


@cached_per_run
def rate_intervals(run: StoredRun) -> dict[str, tuple[float, float]]:
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
            mean, reach = mean_interval(logs, run.data.alpha)
            ranges[view.cell_id] = math.exp(mean - reach), math.exp(min(mean + reach, _LARGEST_LOG))
    return ranges


def _colour_legend(cells: Sequence[CellSummary]) -> dict[int, str]:
    """Return the legend of colours if there are many cells, which differ in colour within panels; else nothing."""
    hues = {cell.cell.hue: cell.cell.hue_label for cell in cells}
    is_long = len(cells) > _MAX_WRITTEN and any(cell.cell.panel for cell in cells)
    return hues if is_long and len(hues) <= len(SERIES) else {}


def _rate_rows(cells: Sequence[CellSummary], *, has_legend: bool) -> Iterator[tuple[FigureRow, CellSummary | None]]:
    """Yield cells with their rows below the heading of their panel; with a legend the panel is named beside them."""
    y = 0.0
    panels: dict[str, list[CellSummary]] = {}
    for cell in cells:
        panels.setdefault(cell.cell.panel, []).append(cell)
    for panel, members in panels.items():
        if has_legend:
            yield FigureRow(y + (len(members) - 1) / 2, panel), None
        elif panel:
            yield FigureRow(y, panel, is_heading=True), None
            y += 1
        for cell in members:
            name = cell.cell.hue_label if panel else cell.cell.label
            yield FigureRow(y, "" if has_legend else name), cell
            y += 1
        y += _GAP if has_legend else 0


def _mean_bars(rows: Mapping[float, CellSummary]) -> pd.DataFrame:
    """Return the bars of the means, faint for a cell without any usable trial."""
    bars = []
    for y, cell in rows.items():
        if (rps := cell.mean_rps) is not None:
            text = f"{cell.cell.label}: mean {units.requests_per_s(rps)}"
            bars.append((y, 0.0, rps, cell.cell.hue, 0.28 if cell.is_usable else 0.08, cell.is_usable, text))
    return pd.DataFrame(bars, columns=["y", "low", "high", "hue", "opacity", "is_usable", "text"])


def _trial_points(run: StoredRun, rows: Mapping[float, CellSummary]) -> pd.DataFrame:
    """Return each trial as a point over the height of its cell's bar, the first block on top."""
    by_cell = run.values("rps").by_cell
    return pd.concat(
        [
            spread_over_bar(trials, y).assign(
                hue=cell.cell.hue,
                text=[
                    f"{cell.cell.label}, block {block}: {units.requests_per_s(rps)}"
                    for block, rps in zip(trials["block"], trials["value"], strict=True)
                ],
            )
            for y, cell in rows.items()
            if (trials := by_cell.get(cell.cell.cell_id)) is not None
        ]
    )


def _interval_lines(
    rows: Mapping[float, CellSummary], intervals: Mapping[str, tuple[float, float]], confidence: float
) -> pd.DataFrame:
    lines = []
    for y, cell in rows.items():
        if cell.cell.cell_id in intervals:
            low, high = intervals[cell.cell.cell_id]
            text = f"{cell.cell.label}: {confidence:.0%} interval {units.rate(low)} to {units.requests_per_s(high)}"
            lines.append((y, low, high, text))
    return pd.DataFrame(lines, columns=["y", "low", "high", "text"])


def _result_text(cell: CellSummary) -> str:
    if cell.mean_rps is not None:
        return units.rate(cell.mean_rps) if cell.is_usable else f"{units.rate(cell.mean_rps)}, invalid"
    return "not supported on these hosts" if cell.cell.unsupported is not None else "no trial ended with a rate"


MAX_SLICED_CELLS = len(SERIES)
"""Cells that differ in colour; of more, the first are drawn."""


def _has_slices(run: StoredRun) -> bool:
    return not _slices(run).empty


def _slices_alt(run: StoredRun) -> str:
    """Describe how much rates vary over the slices of a block, and how much the cells vary against each other."""
    slices, common = _slices(run), _spread_within_rounds(run)
    blocks = units.counted(slices["block"].nunique(), "block")
    spread = units.share(float(slices.groupby("trial_id")["log_rps"].std().median()))
    text = f"Time series of the rate of each slice in {blocks}; within a trial the standard deviation is {spread}"
    return (
        f"{text}." if common is None else f"{text}, and {units.share(common)} relative to the other cells in a round."
    )


def _slices_caption(run: StoredRun) -> str:
    blocks = _slices(run)["block"].unique()
    return (
        "Every point is a slice, in which the load goes to one cell while the others are up without load. What all lines of a "
        "block do together is the machine's, and their ratio does not contain it."
        + (" Dotted lines are of excluded trials." if run.values("rps").has_exclusions else "")
        + more_in_table(len(blocks) - len(sample_evenly(list(blocks))), "block")
        + more_in_table(len(_sliced_cells(run)) - MAX_SLICED_CELLS, "cell")
    )


@style()
def _draw_slices(run: StoredRun) -> Figure:
    exclusions = run.values("rps").exclusions
    hues = {cell_id: hue for hue, cell_id in enumerate(_sliced_cells(run)[:MAX_SLICED_CELLS])}
    slices = _slices(run)
    slices = slices[slices["cell_id"].isin(list(hues))]
    points = slices.assign(
        x=numbers(slices["started_s"]),
        y=numbers(slices["rps"]),
        hue=slices["cell_id"].map(hues),
        exclusion=slices["trial_id"].map(exclusions),
        text=[
            f"{run.labels[cell_id]}, {x:.1f} s: {units.requests_per_s(rps)}"
            for cell_id, x, rps in zip(slices["cell_id"], slices["started_s"], slices["rps"], strict=True)
        ],
    )
    blocks = {f"block {block}": block for block in sample_evenly(list(_slices(run)["block"].unique()))}

    def draw_block(axes: Axes, block: object) -> None:
        of_block = points[points["block"] == block]
        draw_lines(axes, of_block)
        draw_points(axes, of_block.assign(exclusion=None), area=5.0)

    declaration = SLICES.declaration(
        run,
        notes("point: one slice of one cell", DOTTED if run.values("rps").has_exclusions else None),
        legend=line_legend({hue: run.labels[cell_id] for cell_id, hue in hues.items()}),
    )
    scale = Scale(units.rate, "requests per second", 0, 1.05 * float(_slices(run)["rps"].max()))
    latest = max(float(_slices(run)["started_s"].max()), 0.1)
    return draw_panels(
        declaration,
        [Panel(partial(draw_block, block=block), scale, name) for name, block in blocks.items()],
        Scale(units.count, "s from the first slice", 0, 1.02 * latest, whole=True),
    )


def _slices_table(run: StoredRun) -> Table:
    rows = []
    for (block, cell_id), slices in _slices(run).groupby(["block", "cell_id"], sort=True):
        rates = numbers(slices["rps"])
        rows.append(
            {
                "Block": Entry(str(block), float(slices["block"].iloc[0]), "number"),
                "Cell": named(run.labels[str(cell_id)]),
                "Slices": number(len(rates), units.count),
                "Lowest rate": number(rates.min(), units.rate),
                "Median rate": number(rates.median(), units.rate),
                "Highest rate": number(rates.max(), units.rate),
            }
        )
    rate_units = dict.fromkeys(("Lowest rate", "Median rate", "Highest rate"), "req/s")
    return table("figure-slices", "Slices of each trial", rows, units=rate_units)


SLICES = ReportFigure(
    name="slices",
    title="Rates of slices over a block",
    is_available=_has_slices,
    alt=_slices_alt,
    caption=_slices_caption,
    see="Lines that rise and fall together show drift of the machine; a line that leaves the others shows a cell of its own.",
    draw=_draw_slices,
    data=None,
    table=_slices_table,
)


@cached_per_run
def _slices(run: StoredRun) -> pd.DataFrame:
    """Return the slices of measured trials that have a rate, with their cell and block, in order of time."""
    slices = run.table("slices").merge(run.measured[["trial_id", "cell_id", "block"]], on="trial_id")
    known = slices[pd.to_numeric(slices["rps"]) > 0]
    logs = np.log(known["rps"].to_numpy(dtype=np.float64))
    return known.assign(log_rps=logs).sort_values(["block", "started_s"], ignore_index=True)


def _sliced_cells(run: StoredRun) -> list[str]:
    return [view.cell_id for view in run.cells_in(set(_slices(run)["cell_id"]))]


def _spread_within_rounds(run: StoredRun) -> float | None:
    """Return the median standard deviation of log rates after the mean of their round is removed; None for one cell."""
    slices = _slices(run)
    rounds = slices.groupby(["block", "slice"])["log_rps"]
    whole = slices[rounds.transform("size") > 1]
    if whole.empty:
        return None
    relative = whole["log_rps"] - rounds.transform("mean").loc[whole.index]
    spread = float(relative.groupby(whole["trial_id"]).std().median())
    return None if math.isnan(spread) else spread
