"""Tests of the figure of slices."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import pyarrow as pa
from matplotlib.collections import LineCollection

from benchkit.report.figures.registry import get_figure
from benchkit.report.rendering import render
from benchkit.report.stored_run import StoredRun
from benchkit.store.parquet_files import arrow_schema, empty_frame

ROUNDS = 8


def sliced(run: StoredRun) -> StoredRun:
    """Return the run with eight slices of each measured trial, whose rates rise together from round to round."""
    rows = [
        {
            "trial_id": trial_id,
            "slice": number,
            "place": place,
            "started_s": 0.28 * (2 * number + place),
            "late_s": 0.0,
            "requests": 100,
            "rps": rps * (1 + number / 10),
        }
        for place, (trial_id, rps) in enumerate(
            zip(run.measured["trial_id"], run.measured["rps"], strict=True), start=1
        )
        for number in range(1, ROUNDS + 1)
    ]
    slices = pa.Table.from_pylist(rows, schema=arrow_schema("slices")).to_pandas()

    def table(name: str) -> pd.DataFrame:
        return slices if name == "slices" else empty_frame(name)

    return replace(run, table=table, trials=run.trials.assign(slices=ROUNDS))


def test_slices_are_drawn_for_each_block_and_cell(run: StoredRun) -> None:
    shown = sliced(run)
    figure = get_figure("slices").draw(shown)
    assert [axes.get_title(loc="left") for axes in figure.axes] == [f"block {block}" for block in range(1, 6)]
    for axes in figure.axes:
        lines = [artist for artist in axes.collections if isinstance(artist, LineCollection)]
        assert [len(segment) for line in lines for segment in line.get_segments()] == [ROUNDS, ROUNDS]
    drawing = render(get_figure("slices"), shown)
    assert drawing.svg.startswith(b"<?xml")
