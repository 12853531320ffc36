"""Tests of the figure of latencies over time."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import pyarrow as pa

from benchkit.report.figures.registry import get_figure
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


def test_a_stall_is_named_and_in_the_table(run: StoredRun) -> None:
    shown = with_series(run)
    assert "in second 2 of block 1, with a p99 of 750 ms." in get_figure("latency-over-time").alt(shown)
    table = get_figure("latency-over-time").table
    assert table is not None
    rows = table(shown)
    assert rows is not None
    assert len(rows.rows) == len(shown.measured)
    assert sum("750 ms" in str(row) for row in rows.rows) == 1


def test_trials_of_two_seconds_have_no_course(run: StoredRun) -> None:
    assert not get_figure("latency-over-time").is_available(run)
    assert not get_figure("latency-over-time").is_available(with_series(run, seconds=2))
