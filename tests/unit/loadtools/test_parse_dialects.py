"""Outputs of other versions, forks and locales, derived from recordings by their known differences."""

from __future__ import annotations

import re

import pytest

from benchkit.errors import ParseError
from benchkit.loadtools.registry import TOOLS
from benchkit.loadtools.text import (
    BINARY_SIZES,
    SECONDS,
    decode,
    parse_count,
    parse_duration,
    parse_number,
    parse_scaled,
)
from tests.support.loadtools.outputs import codes, parsed, recorded


def test_units_of_wrk() -> None:
    assert parse_scaled("0.90m", SECONDS) == pytest.approx((54.0, 0.6))
    assert parse_scaled("850.00us", SECONDS) == pytest.approx((0.00085, 1e-8))
    assert parse_scaled("618.36\ufffds", SECONDS) == pytest.approx((0.00061836, 1e-8))
    assert parse_scaled("0.90GB", BINARY_SIZES) == pytest.approx((0.9 * 1024**3, 0.01 * 1024**3))
    for token in ("1,21s", "1.21", "1e3s", "-1.00s", "nans", "1.2.3s", "", "12.5sec", "9" * 30 + "s"):
        assert parse_scaled(token, SECONDS) is None, token


def test_only_plain_numbers_are_parsed() -> None:
    assert parse_number("42745.15") == 42745.15
    for token in (
        "1,5",
        "1,500",
        "1,50.0",
        "1.",
        ".5",
        "1e5",
        "inf",
        "nan",
        "-1",
        "0x1f",
        "\u0661",
        "1_000",
        " 1",
        None,
    ):
        assert parse_number(token) is None, token
    assert parse_number("95,342.18") == 95342.18
    assert [parse_count(token) for token in ("10,000", "1,234,567", "1,5", "1000,000")] == [
        10_000,
        1_234_567,
        None,
        None,
    ]


def test_durations_of_go() -> None:
    assert parse_duration("1h2m3.5s") == 3723.5
    assert parse_duration("2m55s") == 175
    assert parse_duration("145.082066ms") == 0.145082066
    assert parse_duration("12.5\u00b5s") == 12.5e-6
    assert parse_duration("90ns") == 90e-9
    assert parse_duration("0s") == 0
    for token in ("2m", "1h", "10.09", "145m", "1.5h0m0s", "-1s", "1,5s"):
        assert parse_duration(token) is None, token


def test_wrks_version_decides_whether_it_corrected() -> None:
    four, three = parsed("wrk", recorded("wrk/v410-latency-version")), parsed("wrk", recorded("wrk/v312-latency"))
    unnamed = parsed("wrk", recorded("wrk/v410-plain"))
    assert [result.latency.corrected for result in (four, three, unnamed)] == [True, False, None]
    assert "wrk-version-unknown" in codes(unnamed)


def test_text_of_a_script_after_wrks_own_is_ignored() -> None:
    text = recorded("wrk/v410-plain")
    script = text + "Requests/sec: 5.00\n  5 requests in 1.00s, 1.00GB read\n 50%  1.00s\n"
    assert parsed("wrk", script) == parsed("wrk", text)


@pytest.mark.parametrize(
    ("tool", "name", "stated", "damaged"),
    [
        ("wrk", "wrk/v410-plain", "18605.37", "18605,37"),
        ("wrk", "wrk/v410-plain", "20454 requests", "20.454 requests"),
        ("ab", "ab/v23-keepalive", "17479.31", "17479,31"),
        ("ab", "ab/v23-keepalive", "2000\n", "2 000\n"),
        ("siege", "siege/v417-text", "129.82", "129,82"),
        ("hey", "hey/v014-plain", "7157.5938", "7157,5938"),
        ("vegeta", "vegeta/v12-text", "50.49", "50,49"),
        ("h2load", "h2load/v152-count", "11183.18", "11183,18"),
        ("wrk", "wrk/v410-plain", "18605.37", "1e999"),
        ("wrk", "wrk/v410-plain", "20454 requests", f"{'9' * 40} requests"),
    ],
)
def test_a_malformed_figure_is_none_and_makes_the_result_incomplete(
    tool: str, name: str, stated: str, damaged: str
) -> None:
    text = recorded(name)
    assert stated in text
    result = parsed(tool, text.replace(stated, damaged))
    assert None in (result.rps, result.requests)
    assert not result.complete


def test_ab_2_does_not_pad_microseconds() -> None:
    text = recorded("ab/v23-keepalive").replace("0.114 seconds", "3.73261 seconds").replace("17479.31", "650.77")
    result = parsed("ab", text)
    assert result.duration_s == 3.073261
    assert parsed("ab", text.replace("3.73261 ", "3.073261 ")).duration_s == 3.073261


def test_booms_summary_has_full_stops_and_another_order() -> None:
    text = recorded("hey/v014-plain")
    boom = (
        text.replace(" secs\n", " secs.\n")
        .replace("Total data", "Total Data Recieved")
        .replace(" bytes\n", " bytes.\n")
    )
    assert parsed("hey", f"1000 / 1000 [====] 100.00 %\n{boom}\tSpeed index:\tMeh\n") == parsed("hey", text)


def test_hey_keeps_a_million_results() -> None:
    text = recorded("hey/v014-plain").replace("1000 responses", "1000000 responses").replace("7157.5938", "24000.0000")
    capped = parsed("hey", text.replace("0.1397 secs", "100.0000 secs"))
    assert (capped.requests, capped.latency.mean_s, capped.non_2xx) == (None, None, None)
    assert capped.status == {"200": 1_000_000}
    assert "hey-cap" in codes(capped)
    whole = parsed("hey", text.replace("0.1397 secs", "41.6667 secs"))
    assert (whole.requests, whole.latency.mean_s) == (1_000_000, 0.0005)


def test_early_versions_of_hey_rate_answers_alone() -> None:
    text = recorded("hey/v014-statuses-errors")
    now = parsed("hey", text)
    assert now.rps is not None
    assert now.duration_s is not None
    assert now.requests is not None
    assert now.failed
    answered = (now.requests - now.failed) / now.duration_s
    then = parsed("hey", re.sub(r"(Requests/sec:\s+)\S+", rf"\g<1>{answered:.4f}", text))
    assert (then.requests, then.failed, then.errors, then.complete) == (now.requests, now.failed, now.errors, True)
    assert then.rps == pytest.approx(answered, abs=1e-4)


def test_siege_may_print_its_text_and_its_json() -> None:
    text, json = recorded("siege/v417-text"), recorded("siege/v417-json")
    both = text + json.replace("388", "296")
    assert parsed("siege", both) == parsed("siege", text)
    with pytest.raises(ParseError, match="not a complete output of siege"):
        parsed("siege", json.replace("388", "nan"))


def test_h2load_has_quantiles_since_1_68() -> None:
    columns = (
        "                 min         max         median      p95         p99         mean        sd         +/- sd"
    )
    row = "request     :       53us      2.23ms       300us      1.00ms      1.50ms       341us       173us    75.60%"
    text = re.sub(r" +min +max .*", columns, recorded("h2load/v152-count"))
    latency = parsed("h2load", re.sub(r"time for request.*", row, text)).latency
    assert latency.percentiles == {"50": 0.0003, "95": 0.001, "99": 0.0015}
    assert (latency.mean_s, latency.max_s) == (0.000341, 0.00223)


def test_utf_16_as_powershell_writes_it_is_decoded() -> None:
    text = recorded("wrk/v410-plain")
    assert decode(text.encode("utf-16")) == text
    assert decode(b"\xef\xbb\xbf" + text.encode()) == text
    assert decode(b"Latency \xb5s") == "Latency \ufffds"


@pytest.mark.parametrize("tool", TOOLS)
def test_empty_text_and_usage_are_refused(tool: str) -> None:
    with pytest.raises(ParseError, match="the output is empty"):
        parsed(tool, " \n\n")
    with pytest.raises(ParseError, match=f"this is not an output of {tool}"):
        parsed(tool, f"Usage: {tool} [options] <url>\n\nOptions:\n  -c  Number of connections (default 50)\n")
