"""Suggestions for names that do not exist."""

from __future__ import annotations

import pytest

from benchkit.document import parse_document
from benchkit.errors import InputError, suggestion


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


def test_an_empty_file_is_named_so() -> None:
    with pytest.raises(InputError, match=r"^a\.yaml:1: the file is empty"):
        parse_document("", "a.yaml")
