"""The measurement of bombardier from the block of its template, whole, without times, and damaged."""

from __future__ import annotations

import pytest

from benchkit.errors import ParseError
from benchkit.loadtools.tool import ToolOutput
from benchkit.loadtools.tools.bombardier import TEMPLATE, measure

REFUSED = "dial tcp 127.0.0.1:1: connect: connection refused"
WHOLE = f"""\
--- benchkit counters of bombardier 1
duration_ns 2000000000
bytes 1200
status 0 5 1 2 0 2
error 2 {REFUSED.encode().hex()}
share 0.5 20
share 1 4000
18 4
20 5
4000 1
--- end of benchkit counters of bombardier
"""


def test_counts_and_times_are_those_of_the_block() -> None:
    output = measure(ToolOutput(WHOLE))
    result, measured = output.result, output.measurement
    assert (result.requests, result.failed, result.non_2xx, result.rps) == (8, 2, 3, 4)
    assert (result.errors.connect, result.errors.other) == (2, 0)
    assert (result.bytes_total, result.duration_s) == (1200, 2)
    assert measured is not None
    assert measured.histograms["raw"].total == 10
    assert result.latency == measured.latency()
    assert (result.latency.min_s, result.latency.max_s) == (18e-6, 0.004)
    assert result.latency.mean_s == pytest.approx(4172e-7)
    assert {note.code for note in result.notes} == {"bombardier-unanswered", "bombardier-errors"}


def test_a_run_with_a_long_answer_has_percentiles_alone() -> None:
    text = WHOLE.replace("18 4\n20 5\n4000 1\n", "").replace("share 1 4000", "share 0.99 30\nshare 1 6000000")
    output = measure(ToolOutput(text))
    assert output.measurement is None
    assert output.result.latency.percentiles == {"50": 20e-6, "99": 30e-6}
    assert output.result.latency.max_s == 6
    assert "a request took 6 s: bombardier printed percentiles alone" in [note.message for note in output.result.notes]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "did not print all its counters"),
        (WHOLE[:-12], "did not print all its counters"),
        (WHOLE + WHOLE, "did not print all its counters"),
        (WHOLE.replace("20 5\n", "20 6\n"), "10 requests, but 11 times"),
    ],
)
def test_a_damaged_block_is_refused(text: str, message: str) -> None:
    with pytest.raises(ParseError, match=message):
        measure(ToolOutput(text))


def test_the_template_prints_no_times_beyond_its_limit() -> None:
    assert "{{- if le $longest 1000000}}" in TEMPLATE
