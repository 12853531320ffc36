"""Files of the reducer: complete, cut and invalid ones."""

from __future__ import annotations

import json
from typing import Any

import pytest

from benchkit.errors import ParseError
from benchkit.loadtools.reducer_output import read, summary_with_rows
from benchkit.loadtools.registry import get_tool
from benchkit.models.load import Load
from benchkit.models.load_result import LoadResult
from tests.support.loadtools.reductions import document, document_with_histogram, measured, payload, wrapped


def measure_document(whole: dict[str, Any]) -> object:
    return measured(read(json.dumps(whole)))


def test_a_complete_file_is_read() -> None:
    found = measured(read(json.dumps(document())))
    assert list(zip(*found.histograms["raw"].columns(), strict=True)) == [(300e-6, 300e-6, 2), (2e-3, 2e-3, 1)]
    assert found.histograms["raw"].mean_s == pytest.approx(2.6e-3 / 3)


def test_a_histogram_encoded_by_hand_is_read() -> None:
    zeros_to_300, zeros_to_2000 = b"\xd7\x04", b"\xc5\x1a"  # zigzag: -300 and -1699
    numbers = zeros_to_300 + b"\x04" + zeros_to_2000 + b"\x02"
    assert measure_document(document_with_histogram(wrapped(payload(numbers)))) == measure_document(document())


@pytest.mark.parametrize(
    ("changed", "complete"),
    [
        ({"ended": "cut"}, True),
        ({"ended": "damaged"}, False),
        ({"ended": "cut", "unread": {"count": 1, "first": "x"}}, False),
    ],
)
def test_the_last_row_of_a_tool_that_was_ended_may_be_cut(changed: dict[str, Any], *, complete: bool) -> None:
    rows = get_tool("hey").rows
    assert rows is not None
    load = Load(tool="hey", connections=1, duration_s=2)
    summary = LoadResult(tool="hey", complete=False)
    found = summary_with_rows(summary, json.dumps(document(**changed)).encode(), rows, load).result
    assert (found.complete, found.requests, found.rps) == (complete, 3, 1.5)
    whole = summary.model_copy(update={"requests": 3, "complete": True})
    assert not summary_with_rows(whole, json.dumps(document(**changed)).encode(), rows, load).result.complete


@pytest.mark.parametrize(
    ("whole", "message"),
    [
        (document(reduction=2), "reduction"),
        (document(tool="wrk"), "tool"),
        (document(rows=-1), "rows"),
        (document(surplus=1), "surplus"),
        (document(rows=4), "4 rows, but 3 counts"),
        (document(latency={**document()["latency"], "min_ns": -1}), "min_ns"),
        (document_with_histogram(""), "cannot be decoded"),
        (document_with_histogram("µ"), "cannot be decoded"),
        (document_with_histogram(wrapped(payload(b"\x04"), cookie=7)), "cannot be decoded"),
        (document_with_histogram(wrapped(payload(b"\x02" + b"\xff" * 8 + b"\x7f" + b"\x02"))), "cannot be decoded"),
        (document_with_histogram(wrapped(payload(b"\x02", digits=3))), "unknown layout"),
        (document_with_histogram(wrapped(payload(b"\x02"))), "3 rows, but 1 counts"),
        (document_with_histogram(document()["latency"]["histogram_us"][:-8]), "cannot be decoded"),
    ],
)
def test_invalid_files_are_refused(whole: dict[str, Any], message: str) -> None:
    with pytest.raises(ParseError) as refused:
        measure_document(whole)
    assert message in str(refused.value)


@pytest.mark.parametrize("text", ["", "{", "null", "[]", '{"reduction": 1}', "HTTP/1.1 200 OK", "\ud800", b"\xff\xfe"])
def test_text_that_is_no_json_is_refused(text: str | bytes) -> None:
    with pytest.raises(ParseError, match="not a complete file of benchkit's reducer"):
        read(text)
