"""What is said about how latencies were measured."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from benchkit.comparison.notes import latency_note

SENT = "sent at a target rate, times from when a request was sent: its wait before that is hidden"


def note(**columns: Any) -> list[str]:  # noqa: ANN401 - values of columns
    trials = {"rate_requested": None, "latency_from": None, "latency_corrected": None, "latency_covers": None}
    return latency_note(pd.DataFrame({**trials, **columns}, index=range(4))).split("; ")


@pytest.mark.parametrize(
    ("columns", "first"),
    [
        ({}, "closed loop: coordinated omission hides queueing"),
        (
            {"rate_requested": 1.0, "latency_from": "due"},
            "sent at a target rate, times from when a request was due",
        ),
        ({"rate_requested": 1.0, "latency_from": "sent"}, SENT),
        ({"rate_requested": 1.0}, SENT),
        ({"rate_requested": 1.0, "latency_from": ["due", "due", "sent", "sent"]}, f"{SENT}, in some trials"),
    ],
)
def test_the_loop_is_noted_first(columns: dict[str, Any], first: str) -> None:
    assert note(**columns)[0] == first


def test_a_mix_of_open_and_closed_loops_is_noted() -> None:
    mixed = "closed loop: coordinated omission hides queueing, in the trials without a target rate"
    assert mixed in note(rate_requested=[None, None, 1.0, 1.0])


@pytest.mark.parametrize(
    ("corrected", "second"),
    [
        (True, "the tool's own correction applied"),
        (False, "no correction applied"),
        (None, "the tool does not state a correction"),
        ([True, True, None, None], "the tool's own correction applied in some trials"),
    ],
)
def test_the_correction_is_noted_as_stored(corrected: Any, second: str) -> None:  # noqa: ANN401 - a column
    assert note(latency_corrected=corrected)[1] == second


@pytest.mark.parametrize(
    ("covers", "last"), [("request", "connecting not included"), ("connect+request", "connecting included")]
)
def test_known_coverage_is_noted(covers: str, last: str) -> None:
    assert note(latency_covers=covers)[-1] == last
