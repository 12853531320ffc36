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
        (
            {"rate_requested": 1.0, "latency_from": ["due", "due", "sent", "sent"]},
            "sent at a target rate, times from when a request was due",
        ),
    ],
)
def test_the_loop_is_noted_first(columns: dict[str, Any], first: str) -> None:
    assert note(**columns)[0] == first


@pytest.mark.parametrize(
    ("corrected", "second"),
    [
        (True, "the tool's own correction applied"),
        (False, "no correction applied"),
        (None, "the tool does not state a correction"),
    ],
)
def test_the_correction_is_noted_as_stored(corrected: Any, second: str) -> None:  # noqa: ANN401 - a column
    assert note(latency_corrected=corrected)[1] == second
