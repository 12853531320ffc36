from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from benchkit.comparison.notes import latency_note
from benchkit.report.figures.latency import stored_percentiles
from benchkit.report.stored_run import StoredRun


def trials(run: StoredRun, **columns: Any) -> pd.DataFrame:  # noqa: ANN401 - values of columns
    return run.trials.assign(**columns)


def test_a_closed_loop_is_noted(run: StoredRun) -> None:
    note = latency_note(run.trials)
    assert note.startswith("closed loop: coordinated omission hides queueing; ")


@pytest.mark.parametrize(
    ("latency_from", "note"),
    [
        ("due", "times from when a request was due"),
        ("sent", "times from when a request was sent: how long it waited for that is hidden"),
        (None, "times from when a request was sent: how long it waited for that is hidden"),
        (["due"] * 5 + ["sent"] * 5, "how long it waited for that is hidden, in some trials"),
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
