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


def test_wrk_truncates_a_mean_just_below_a_second() -> None:
    row = "Latency   1000.00m   17.76ms1000.00ms   91.67%"
    result = parsed("wrk", re.sub(r"Latency .*%", row, recorded("wrk/v410-plain")))
    assert (result.latency.mean_s, result.latency.stdev_s, result.latency.max_s) == (1.0, 0.01776, 1.0)
    assert result.complete


def test_a_fork_of_wrk2_has_the_99th_percentile_where_others_have_the_maximum() -> None:
    text = recorded("wrk/wrk2-short").replace("Stdev     Max ", "Stdev     99% ")
    result = parsed("wrk", text)
    assert result.latency.max_s is None
    assert result.latency.percentiles == {"99": 0.00449}
    without = parsed("wrk", re.sub(r"  Thread Stats.*\n", "", text))
    assert without.latency.max_s is None
    assert not without.complete


def test_hyperfoils_clone_of_wrk() -> None:
    text = recorded("wrk/v410-plain").replace("2.31MB", "164.41kB")
    text = re.sub(r"requests in \S+, ", "requests in 10.006s,   ", text).replace("66.67%", "66.67")
    result = parsed("wrk", text)
    assert (result.duration_s, result.bytes_per_s) == (10.006, 164.41 * 1024)


def test_text_of_a_script_after_wrks_own_is_ignored() -> None:
    text = recorded("wrk/v410-plain")
    script = text + "Requests/sec: 5.00\n  5 requests in 1.00s, 1.00GB read\n 50%  1.00s\n"
    assert parsed("wrk", script) == parsed("wrk", text)


def test_figures_in_the_url_are_ignored() -> None:
    decoy = "?q=Requests/sec:999999.99&x=5 requests in 1.00s, 1.00GB read"
    text = recorded("wrk/v410-plain")
    result = parsed("wrk", re.sub(r"(test @ \S+)", rf"\1{decoy}", text))
    assert (result.requests, result.rps) == (20454, 18605.37)


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
        ("siege", "siege/v407-json", "129.29", "nan"),
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
    assert "ab-unpadded-time" in codes(result)
    padded = parsed("ab", text.replace("3.73261 ", "3.073261 "))
    assert (padded.duration_s, codes(padded)) == (3.073261, {"resolution"})


def test_ab_before_2_3_has_no_receive_failures() -> None:
    old = (
        recorded("ab/v23-length")
        .replace("Receive: 0, ", "")
        .replace("HTML transferred:", "Write errors: 3\nHTML transferred:")
    )
    errors = parsed("ab", old).errors
    assert (errors.connect, errors.read, errors.write, errors.other) == (0, None, 3, 0)


def test_ab_states_the_requests_of_an_aborted_run() -> None:
    text = recorded("ab/v23-refused").replace("(111)", "(104)") + "Total of 1159 requests completed\n"
    result = parsed("ab", text)
    assert (result.requests, result.complete) == (1159, False)
    assert "aborted" in codes(result)


def test_booms_summary_has_full_stops_and_another_order() -> None:
    text = recorded("hey/v014-plain")
    boom = (
        text.replace(" secs\n", " secs.\n")
        .replace("Total data", "Total Data Recieved")
        .replace(" bytes\n", " bytes.\n")
    )
    assert parsed("hey", f"1000 / 1000 [====] 100.00 %\n{boom}\tSpeed index:\tMeh\n") == parsed("hey", text)


def test_hey_of_2016_repeats_average_fastest_and_slowest_for_each_phase() -> None:
    phases = "\n\tDNS+dialup:\n  \t\tAverage:\t1.0000 secs\n  \t\tFastest:\t0.5000 secs\n  \t\tSlowest:\t9.0000 secs\n"
    text = recorded("hey/v014-plain")
    detailed = re.sub(r"\nDetails .*?\n\n", f"\nDetailed Report:\n{phases}\n\n", text, flags=re.DOTALL)
    assert detailed != text
    assert parsed("hey", detailed) == parsed("hey", text)


def test_hey_keeps_a_million_results() -> None:
    text = recorded("hey/v014-plain").replace("1000 responses", "1000000 responses").replace("7157.5938", "24000.0000")
    capped = parsed("hey", text.replace("0.1397 secs", "100.0000 secs"))
    assert (capped.requests, capped.latency.mean_s, capped.non_2xx) == (None, None, None)
    assert capped.status == {"200": 1_000_000}
    assert "hey-cap" in codes(capped)
    whole = parsed("hey", text.replace("0.1397 secs", "41.6667 secs"))
    assert (whole.requests, whole.latency.mean_s) == (1_000_000, 0.0005)


def test_statuses_that_do_not_add_up_are_incomplete() -> None:
    result = parsed("hey", recorded("hey/v014-503").replace("  [503]\t100 responses\n", ""))
    assert (result.requests, result.non_2xx, result.complete) == (None, None, False)


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


def test_wrk2_prints_nan_with_a_unit() -> None:
    text = re.sub(r"Latency .*", "Latency    -nanus    -nanus   0.00us    0.00%", recorded("wrk/wrk2-short"))
    result = parsed("wrk", text)
    assert result.complete
    assert result.latency.mean_s is None


@pytest.mark.parametrize(
    ("tool", "lines", "field", "value"),
    [
        ("wrk", "Transfer/sec:      1.23MB\n", "bytes_per_s", 1.23 * 1024**2),
        ("wrk", "  Socket errors: connect 0, read 3, write 0, timeout 0\n", "errors", None),
        ("ab", "Requests per second:    100.00 [#/sec] (mean)\n", "rps", 100.0),
        ("ab", "Transfer rate:          20.00 [Kbytes/sec] received\n", "bytes_per_s", 20480.0),
        ("ab", "Failed requests:        7\n", "failed", 7),
        ("hey", "Status code distribution:\n  [200]\t200 responses\n", "status", {"200": 200}),
    ],
)
def test_a_few_lines_are_an_incomplete_output(tool: str, lines: str, field: str, value: object) -> None:
    result = parsed(tool, lines)
    assert not result.complete
    assert value is None or getattr(result, field) == value


def test_siege_2_prints_bytes() -> None:
    text = recorded("siege/v407-verbose")
    text = re.sub(r"Data transferred:.*", "Data transferred:\t13040 bytes", text)
    text = re.sub(r"Throughput:.*", "Throughput:\t3309.64 bytes/sec", text).replace("** SIEGE 4.0.7", "** Siege 2.59")
    result = parsed("siege", text)
    assert (result.bytes_total, result.bytes_per_s, result.tool_version) == (13040, 3309.64, "2.59")


def test_siege_may_print_its_text_and_its_json() -> None:
    text, json = recorded("siege/v417-text"), recorded("siege/v417-json")
    both = text + json.replace("388", "296")
    assert parsed("siege", both) == parsed("siege", text)
    with pytest.raises(ParseError, match="more than one run"):
        parsed("siege", text + json)


def test_log_lines_within_sieges_json_are_ignored() -> None:
    json = recorded("siege/v407-json")
    noisy = json.replace(",\n", ",\n[alert] Zip encoding disabled; siege requires zlib support to enable it\n")
    assert parsed("siege", noisy) == parsed("siege", json)


def test_a_run_that_siege_aborted_is_incomplete() -> None:
    text = recorded("siege/v407-verbose").replace(
        "\nTransactions:", "siege aborted due to excessive socket failure; you\n\nTransactions:"
    )
    result = parsed("siege", text)
    assert not result.complete
    assert "aborted" in codes(result)


def test_without_a_transaction_siege_has_no_mean() -> None:
    text = re.sub(r"(Transactions:\s+)\S+", r"\g<1>0", recorded("siege/v407-verbose"))
    text = re.sub(r"(Response time:\s+)\S+", r"\g<1>nan", text)
    result = parsed("siege", text)
    assert result.latency.mean_s is None
    assert result.complete


def test_early_vegeta_has_one_duration() -> None:
    text = re.sub(r"Duration .*", "Duration      [total]  1.99s", recorded("vegeta/v12-text"))
    result = parsed("vegeta", text)
    assert (result.duration_s, result.complete) == (1.99, True)


def test_early_vegeta_has_fewer_latencies() -> None:
    text = re.sub(
        r"Latencies .*",
        "Latencies     [mean, 50, 95, 99, max]  30.587ms, 30.558ms, 30.731ms, 31.347ms, 31.381ms",
        recorded("vegeta/v12-text"),
    )
    latency = parsed("vegeta", text).latency
    assert (latency.min_s, latency.mean_s, latency.max_s) == (None, 0.030587, 0.031381)
    assert latency.percentiles == {"50": 0.030558, "95": 0.030731, "99": 0.031347}


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
    with pytest.raises(ParseError, match=f"this is no output of {tool}"):
        parsed(tool, f"Usage: {tool} [options] <url>\n\nOptions:\n  -c  Number of connections (default 50)\n")


@pytest.mark.parametrize("attributes", ["", "border=1"])
def test_the_html_of_ab_is_named_with_the_remedy(attributes: str) -> None:
    text = (
        "<p>\n This is ApacheBench, Version 2.3 <i>&lt;$Revision$&gt;</i><br>\n</p>\n..done\n\n\n<table >\n"
        f"<tr {attributes}><th colspan=2 bgcolor=white>Server Software:</th><td colspan=2>SimpleHTTP/0.6</td></tr>\n"
        f"<tr {attributes}><th colspan=2 bgcolor=white>Complete requests:</th><td colspan=2>20</td></tr>\n</table>\n"
    )
    with pytest.raises(ParseError, match="HTML that ab wrote because of -w") as raised:
        parsed("ab", text)
    assert raised.value.hint == "run ab without -w, -x, -y and -z, and give its plain text"
