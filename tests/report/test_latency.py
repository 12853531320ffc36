from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest

from benchkit.analysis.latency_notes import latency_note
from benchkit.report.latency_curves import stored_percentiles
from benchkit.report.stored_run import StoredRun

MakeRun = Callable[..., StoredRun]


def trials(run: StoredRun, **columns: Any) -> pd.DataFrame:  # noqa: ANN401 - values of columns
    return run.trials.assign(**columns)


def test_a_closed_loop_is_called_one(run: StoredRun) -> None:
    said = latency_note(run.trials)
    assert said.startswith("closed loop: coordinated omission hides queueing; ")


def test_a_requested_rate_is_no_closed_loop(run: StoredRun) -> None:
    assert latency_note(trials(run, rate_requested=1000.0)).startswith("sent at a target rate; ")


def test_trials_of_both_kinds_are_said_to_be(run: StoredRun) -> None:
    rates = [None] * 5 + [1000.0] * 5
    said = latency_note(trials(run, rate_requested=rates))
    assert "closed loop: coordinated omission hides queueing, in the trials without a target rate" in said


@pytest.mark.parametrize(
    ("corrected", "said"),
    [
        ([True] * 10, "the tool's own correction applied"),
        ([False] * 10, "no correction applied"),
        ([None] * 10, "the tool does not state a correction"),
        ([True] * 5 + [False] * 5, "the tool's own correction applied in some trials"),
        ([True] * 5 + [None] * 5, "the tool's own correction applied in some trials"),
    ],
)
def test_correction_is_labelled_as_stored(run: StoredRun, corrected: list[bool | None], said: str) -> None:
    assert latency_note(trials(run, latency_corrected=corrected)).split("; ")[1] == said


@pytest.mark.parametrize(
    ("covers", "last"),
    [
        ("request", "connecting not included"),
        ("connect+request", "connecting included"),
        (None, "no correction applied"),
    ],
)
def test_coverage_is_said_where_it_is_known(run: StoredRun, covers: str | None, last: str) -> None:
    assert latency_note(trials(run, latency_covers=covers, latency_corrected=False)).split("; ")[-1] == last


def test_only_percentiles_that_a_trial_has_are_stored_ones(run: StoredRun) -> None:
    few = trials(run, latency_p999_s=None, latency_p9999_s=None)
    assert [percentile.label for percentile in stored_percentiles(few)] == ["p50", "p90", "p99"]
