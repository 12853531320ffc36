"""The figure of rates: requests per second by cell, with every trial and the interval of each cell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pandas as pd

from benchkit import units
from benchkit.comparison.ratios import value_alone
from benchkit.models.metrics import RPS
from benchkit.report.chart import MAX_ROWS, Chart, ChartRow, Panel, Scale, and_more, notes, text_size
from benchkit.report.figure import ReportFigure
from benchkit.report.layers import BAR, HOLLOW, bars, intervals, labels, points
from benchkit.report.stored_run import StoredRun, cached_per_run, numbers
from benchkit.report.summary import CellSummary, summarise
from benchkit.stats.inference import MIN_BLOCKS

_MAX_REACH = 1.5
"""Greatest end of the axis over the highest rate, so that bars are not tiny beside a wide interval."""


def _chart(run: StoredRun) -> Chart | None:
    if not run.values("rps").by_cell:
        return None
    cells = summarise(run)
    placed = list(_rows(cells[:MAX_ROWS]))
    by_y = {y: cell for y, (_, cell) in enumerate(placed) if cell is not None}
    ranges, size = rate_intervals(run), text_size(len(placed))
    highest = float(numbers(run.measured["rps"]).max()) or 1.0
    reach = min(max([highest, *(high for _, high in ranges.values())]), _MAX_REACH * highest)
    means = _mean_bars(by_y)
    ends = means[means["is_usable"]]
    lines = [(y, *ranges[cell.cell.cell_id]) for y, cell in by_y.items() if cell.cell.cell_id in ranges]
    layers = [
        bars(means),
        intervals(ends.assign(x=ends["high"], low=ends["y"] - BAR / 2, high=ends["y"] + BAR / 2), along="y", width=2),
        points(_trial_points(run, by_y), area=2 * size, rim=0.06 * size),
        intervals(pd.DataFrame(lines, columns=["y", "low", "high"])),
        labels(_results(by_y, ranges, reach), size=size),
    ]
    why_no_interval = (
        "a sequential design has none" if run.data.design == "sequential" else f"needs {MIN_BLOCKS} blocks"
    )
    interval = f"{1 - run.data.alpha:.0%} interval"
    return Chart(
        caption="A longer bar means more requests per second, and the spread of its points shows how far the trials agree"
        + and_more(len(cells) - MAX_ROWS, "cell")
        + ".",
        panels=[Panel(layers, Scale(units.rate, "requests per second", low=0, high=1.14 * reach, ticks=6))],
        rows=[row for row, _ in placed],
        subtitle=[
            notes(
                "bar: mean of the trials",
                "point: one trial",
                f"line: {interval}" if ranges else f"no {interval}: {why_no_interval}",
                HOLLOW if run.values("rps").trials["exclusion"].notna().any() else None,
            )
        ],
    )


RATES = ReportFigure("rps", "Requests per second by cell", _chart)


@cached_per_run
def rate_intervals(run: StoredRun) -> dict[str, tuple[float, float]]:
    """Return the interval of the rate of each cell over its blocks; cells with too few blocks have none.

    A sequential design has none: its blocks do not sample the conditions of the host.
    """
    if run.data.design == "sequential":
        return {}
    samples = run.data.samples(RPS)
    values = [value_alone(samples, view.cell_id, run.data.alpha) for view in run.cells]
    return {each.cell_id: (each.low, each.high) for each in values if each.low is not None and each.high is not None}


def _rows(cells: Sequence[CellSummary]) -> Iterator[tuple[ChartRow, CellSummary | None]]:
    """Yield the rows of the cells, below a heading with the levels that they share."""
    panels: dict[str, list[CellSummary]] = {}
    for cell in cells:
        panels.setdefault(cell.cell.panel, []).append(cell)
    for panel, members in panels.items():
        if panel:
            yield ChartRow(panel, is_heading=True), None
        for cell in members:
            yield ChartRow(cell.cell.hue_label if panel else cell.cell.label), cell


def _mean_bars(cells: Mapping[int, CellSummary]) -> pd.DataFrame:
    """Return the bars of the means, faint for a cell without any usable trial."""
    rows = [
        (y, 0.0, cell.mean_rps, cell.cell.hue, 0.28 if cell.is_usable else 0.08, cell.is_usable)
        for y, cell in cells.items()
        if cell.mean_rps is not None
    ]
    return pd.DataFrame(rows, columns=["y", "low", "high", "hue", "opacity", "is_usable"])


def _trial_points(run: StoredRun, cells: Mapping[int, CellSummary]) -> pd.DataFrame:
    """Return a point for each trial, spread over the height of its cell's bar, the first block on top."""
    rows = []
    for y, cell in cells.items():
        trials = run.values("rps").by_cell.get(cell.cell.cell_id)
        if trials is not None:
            places = y + 0.76 * BAR * (np.linspace(-0.5, 0.5, len(trials)) if len(trials) > 1 else np.zeros(1))
            rows.append(trials.assign(x=trials["value"], y=places, hue=cell.cell.hue))
    return pd.concat(rows)


def _results(cells: Mapping[int, CellSummary], ranges: Mapping[str, tuple[float, float]], reach: float) -> pd.DataFrame:
    """Return the text beside each bar: its mean, or the reason why it has none."""
    rows = []
    for y, cell in cells.items():
        _, high = ranges.get(cell.cell.cell_id, (0.0, 0.0))
        if cell.mean_rps is not None:
            text = units.rate(cell.mean_rps) if cell.is_usable else f"{units.rate(cell.mean_rps)}, invalid"
        else:
            text = "not supported on these hosts" if cell.cell.unsupported is not None else "no trial ended with a rate"
        rows.append((min(max([high, *cell.rps]), reach), y, text))
    return pd.DataFrame(rows, columns=["x", "y", "text"])
