"""Tests of the figure of slices."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import pyarrow as pa
import pytest

from benchkit.report.figures.registry import get_figure
from benchkit.report.sections.results import build_results
from benchkit.report.sections.section import ReportInput
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


def test_table_and_alt_state_the_spread(run: StoredRun) -> None:
    shown = sliced(run)
    alt = get_figure("slices").alt(shown)
    assert "5 blocks" in alt
    assert alt.endswith("and 0.0 % relative to the other cells in a round.")
    table = get_figure("slices").table
    assert table is not None
    rows = table(shown)
    assert rows is not None
    assert len(rows.rows) == len(shown.measured)


def test_other_designs_have_no_such_figure(run: StoredRun) -> None:
    assert not get_figure("slices").is_available(run)


@pytest.mark.parametrize("is_sliced", [True, False])
def test_results_name_the_design(run: StoredRun, *, is_sliced: bool) -> None:
    text = build_results(ReportInput(sliced(run) if is_sliced else run, ())).design
    assert ("in 5 sliced blocks" in text) == is_sliced
    assert ("in 8 slices in turn with the other cells" in text) == is_sliced
