"""Tests of the figure of latencies over time."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import pyarrow as pa
from matplotlib.collections import LineCollection

from benchkit.report.figures.registry import get_figure
from benchkit.report.rendering import render
from benchkit.report.stored_run import StoredRun
from benchkit.store.parquet_files import arrow_schema, empty_frame

SECONDS = 5
STALL_S = 0.75


def with_series(run: StoredRun, seconds: int = SECONDS) -> StoredRun:
    """Return the run with a series of each measured trial; the first has a stall in its second 2."""
    rows = [
        {
            "trial_id": trial_id,
            "t_s": float(second),
            "rps": 1000.0,
            "in_flight": 8,
            "errors": 0,
            "latency_p50_s": 0.001,
            "latency_p99_s": STALL_S if place == 0 and second == 2 else 0.004,
        }
        for place, trial_id in enumerate(run.measured["trial_id"])
        for second in range(seconds)
    ]
    series = pa.Table.from_pylist(rows, schema=arrow_schema("series")).to_pandas()

    def table(name: str) -> pd.DataFrame:
        return series if name == "series" else empty_frame(name)

    return replace(run, table=table)


def test_each_trial_has_two_lines_in_the_panel_of_its_cell(run: StoredRun) -> None:
    shown = with_series(run)
    figure = get_figure("latency-over-time").draw(shown)
    assert [axes.get_title(loc="left") for axes in figure.axes] == [shown.labels[view.cell_id] for view in shown.cells]
    points = [
        len(segment)
        for axes in figure.axes
        for artist in axes.collections
        if isinstance(artist, LineCollection)
        for segment in artist.get_segments()
    ]
    assert points == [SECONDS] * 2 * len(shown.measured)
    assert render(get_figure("latency-over-time"), shown).svg.startswith(b"<?xml")
