"""Suggestions for names that do not exist."""

from __future__ import annotations

import pytest

from benchkit.errors import suggestion


@pytest.mark.parametrize(
    ("wanted", "start"),
    [
        ("rsp", "did you mean 'rps'?"),
        ("p99", "did you mean 'latency_p99_s'?"),
        ("p9", "allowed: "),
        ("", "allowed: "),
    ],
)
def test_a_similar_name_is_suggested(wanted: str, start: str) -> None:
    assert suggestion(wanted, ["rps", "latency_p99_s", "latency_p999_s"]).startswith(start)
