"""The data, descriptions and tables of figures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.collections import PathCollection

from benchkit.comparison.notes import latency_note
from benchkit.report.figures.latency import stored_percentiles
from benchkit.report.figures.registry import get_figure
from benchkit.report.rendering import render
from benchkit.report.sections.results import build_results
from benchkit.report.sections.section import ReportInput
from benchkit.report.stored_run import StoredRun
from tests.support.report.variants import sliced, with_series


def trials(run: StoredRun, **columns: Any) -> pd.DataFrame:  # noqa: ANN401 - values of columns
    return run.trials.assign(**columns)


def test_a_closed_loop_is_noted(run: StoredRun) -> None:
    note = latency_note(run.trials)
    assert note.startswith("closed loop: coordinated omission hides queueing; ")


@pytest.mark.parametrize(
    ("latency_from", "note"),
    [
        ("due", "times from when a request was due"),
        ("sent", "times from when a request was sent: its wait before that is hidden"),
        (None, "times from when a request was sent: its wait before that is hidden"),
        (["due"] * 5 + ["sent"] * 5, "its wait before that is hidden, in some trials"),
    ],
)
def test_the_start_of_times_at_a_target_rate_is_noted(
    run: StoredRun, latency_from: str | list[str] | None, note: str
) -> None:
    noted = latency_note(trials(run, rate_requested=1000.0, latency_from=latency_from)).split("; ")[0]
    assert noted.startswith("sent at a target rate, times from when a request was ")
    assert noted.endswith(note)


def test_a_mix_of_open_and_closed_loops_is_noted(run: StoredRun) -> None:
    rates = [None] * 5 + [1000.0] * 5
    note = latency_note(trials(run, rate_requested=rates))
    assert "closed loop: coordinated omission hides queueing, in the trials without a target rate" in note


@pytest.mark.parametrize(
    ("corrected", "note"),
    [
        ([True] * 10, "the tool's own correction applied"),
        ([False] * 10, "no correction applied"),
        ([None] * 10, "the tool does not state a correction"),
        ([True] * 5 + [False] * 5, "the tool's own correction applied in some trials"),
        ([True] * 5 + [None] * 5, "the tool's own correction applied in some trials"),
    ],
)
def test_correction_is_labelled_as_stored(run: StoredRun, corrected: list[bool | None], note: str) -> None:
    assert latency_note(trials(run, latency_corrected=corrected)).split("; ")[1] == note


@pytest.mark.parametrize(
    ("covers", "last"),
    [
        ("request", "connecting not included"),
        ("connect+request", "connecting included"),
        (None, "no correction applied"),
    ],
)
def test_known_coverage_is_noted(run: StoredRun, covers: str | None, last: str) -> None:
    assert latency_note(trials(run, latency_covers=covers, latency_corrected=False)).split("; ")[-1] == last


def test_only_measured_percentiles_are_used(run: StoredRun) -> None:
    few = trials(run, latency_p999_s=None, latency_p9999_s=None)
    assert [percentile.label for percentile in stored_percentiles(few)] == ["p50", "p90", "p99"]


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


@pytest.mark.parametrize("is_sliced", [True, False])
def test_results_name_the_design(run: StoredRun, *, is_sliced: bool) -> None:
    text = build_results(ReportInput(sliced(run) if is_sliced else run, ())).design
    assert ("in 5 sliced blocks" in text) == is_sliced
    assert ("in 8 slices in turn with the other cells" in text) == is_sliced


MakeRun = Callable[..., StoredRun]


PUBLISHED = {
    "cell": {"stack": "nginx"},
    "figures": {"connect_mean_s": 0.32, "processing_mean_s": 0.197, "first_byte_mean_s": 0.162, "latency_p50_s": 0.371},
}


@pytest.fixture
def divided(make_run: MakeRun) -> StoredRun:
    """Run with a mean of 4 ms for every cell: 1 ms connecting, 2 ms waiting, 1 ms receiving."""
    run = make_run({"stack": ["nginx", "go"]}, blocks=3, scenario={"published": [PUBLISHED]})
    run.trials[["connect_mean_s", "processing_mean_s", "first_byte_mean_s"]] = [0.001, 0.003, 0.002]
    return run


def test_bars_are_shares_of_the_mean_and_published_rows_follow_their_cell(divided: StoredRun) -> None:
    figure = get_figure("connection-times")
    bars, points = figure.draw(divided).axes
    assert [label.get_text() for label in bars.get_yticklabels()] == ["nginx", "published", "go"]
    ends = [float(np.asarray(path.vertices)[:, 0].max()) for path in bars.collections[0].get_paths()]
    assert np.allclose(ends, [0.25, 0.75, 1.0, 0.32 / 0.517, 0.482 / 0.517, 1.0, 0.25, 0.75, 1.0])
    filled, hollow = [each for each in points.collections if isinstance(each, PathCollection)]
    assert [len(np.asarray(marks.get_offsets())) for marks in (filled, hollow)] == [8, 1]
    assert "published 61.9 % of 517 ms" in figure.alt(divided)
    assert "Pale bars and hollow points are what the study published." in figure.caption(divided)
    assert render(figure, divided).png.startswith(b"\x89PNG")
