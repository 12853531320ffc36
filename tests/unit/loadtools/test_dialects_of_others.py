"""Outputs of other versions, locales and encodings of tools, derived from recordings by their known differences."""

from __future__ import annotations

import json
import re

import pytest

from benchkit.errors import ParseError
from benchkit.loadtools.formats import AUTO, read_output
from benchkit.loadtools.text import decode
from benchkit.models.load_result import LoadResult
from benchkit.plugins.output_formats.autocannon import parse_local
from tests.support.loadtools.outputs import recorded


def _read(text: str) -> LoadResult:
    return read_output(AUTO, text, where="out.txt", command="benchkit parse {tool} out.txt")


def _without_notes(result: LoadResult) -> LoadResult:
    return result.model_copy(update={"notes": ()})


def test_oha_0_4_has_heys_headings_and_a_share_without_percent() -> None:
    text = recorded("oha/v1-seconds").replace(" sec\n", " secs\n").replace("100.00%\n", "1.0000\n")
    text = text.replace("Response time distribution", "Latency distribution").replace(".00% in", "% in")
    text = re.sub(r"  99\.9[09]% in .*\n", "", re.sub(r"( [0-9.]+) sec ", r"\1 ", text))
    result = _read(text)
    assert (result.tool, result.requests, result.availability, result.complete) == ("oha", 400, 1, True)
    assert result.latency.percentiles["99"] == 0.0014


def test_oha_aborts_requests_that_are_no_failures() -> None:
    result = _read(recorded("oha/v1-deadline"))
    assert (result.requests, result.failed, result.aborted) == (244, 0, 4)
    assert result.rps == pytest.approx(244 / 2.007736)
    whole = recorded("oha/v1-deadline")
    cut = _read(whole[: whole.index("\nError distribution")])
    assert (cut.aborted, cut.failed, cut.complete) == (None, None, False)


@pytest.mark.parametrize(
    ("cell", "value"),
    [
        ("87,916.8", 87916.8),
        ("87.916,8", 87916.8),
        ("87 916,8", 87916.8),
        ("87\u202f916,85", 87916.85),
        ("87\u2019916.8", 87916.8),
        ("80.575", 80575),
        ("80,575", 80575),
        ("8,79,168.5", 879168.5),
        ("1.234.567", 1234567),
        ("8056", 8056),
        ("8056,5", 8056.5),
        ("0.91", 0.91),
        ("\u0668\u0667\u066c\u0669\u0661\u0666\u066b\u0668", 87916.8),
        ("12.3456", None),
        ("1.2.3", None),
        ("k", None),
        ("", None),
    ],
)
def test_a_rate_is_read_in_any_locale(cell: str, value: float | None) -> None:
    assert parse_local(cell) == value


def test_autocannons_table_is_read_in_a_locale_and_with_lost_borders() -> None:
    text = recorded("autocannon/v8-statuses")
    plain = _read(text)
    assert (plain.rps, plain.non_2xx, plain.status) == (5378.5, 10757, {"404": 10757})
    german = re.sub(
        r"([0-9]),([0-9]{3})(?:\.([0-9]))?", lambda m: f"{m[1]}.{m[2]}" + (f",{m[3]}" if m[3] else ""), text
    )
    assert german != text
    assert _read(german) == plain
    for border in ("|", "?", "\u00e2\u201d\u201a", "\ufffd"):
        assert _without_notes(_read(text.replace("│", border))) == _without_notes(plain)
    data = text.encode("utf-16")
    assert _read(decode(data)) == plain


def test_autocannon_before_3_had_no_percentiles() -> None:
    text = """\
Running 10s test @ http://localhost:3000
10 connections

Stat         Avg     Stdev   Max
Latency (ms) 0.62    2.77    72.5
Req/Sec      14332.8 1100.53 14895
Bytes/Sec    1.6 MB  122 kB  1.7 MB

143k requests in 10s, 15.9 MB read
"""
    result = _read(text)
    assert (result.tool, result.rps, result.duration_s, result.complete) == ("autocannon", 14332.8, 10, True)
    assert (result.latency.mean_s, result.latency.max_s, result.latency.percentiles) == (0.00062, 0.0725, {})
    assert (result.bytes_per_s, result.bytes_total) == (1.6e6, 15.9e6)


def test_k6_before_1_0_has_ticks_for_failures() -> None:
    text = recorded("k6/v18-legacy")
    plain = _read(text)
    for failures in ("✓ 100       ✗ 200", "\u00e2\u0153\u201c 100 \u00e2\u0153\u2014 200", "\ufffd 100 \ufffd 200"):
        old = re.sub(r"100 out of 300", failures, text).replace("     http_req_duration", "   ✓ http_req_duration")
        assert _without_notes(_read(old)) == _without_notes(plain)
    assert plain.failed == 100
    excerpt = "\n".join(line for line in text.splitlines() if "http_req" in line)
    assert _read(excerpt).complete
    assert _read(excerpt).requests == 300


def test_k6_states_its_times_in_one_unit_where_asked() -> None:
    row = (
        "http_req_duration..............: avg=1234.56ms min=0.10ms med=12.00ms max=61000.00ms p(90)=1m5s p(99.9)=2m0s\n"
    )
    result = _read(f"     {row}     http_reqs......................: 300    20.5/s\n")
    assert (result.latency.mean_s, result.latency.max_s) == (1.23456, 61)
    assert result.latency.percentiles == {"50": 0.012, "90": 65, "99.9": 120}


def test_the_forms_of_k6_agree() -> None:
    export = _read(recorded("k6/v18-export"))
    assert export.failed == 100  # `passes`: `fails` are the 200 that did not fail
    points = _read(recorded("k6/v18-points"))
    assert (points.requests, points.failed, points.status) == (12, 4, {"200": 8, "503": 4})
    assert points.complete
    text = recorded("k6/v18-points")
    assert _read(f"> k6 run --out json=- mine.js\n{text}").complete, "a line of another program is none of k6's"
    assert not _read(text.rstrip()[:-20]).complete
    dropped = _read(recorded("k6/v18-dropped"))
    assert (dropped.dropped, dropped.users, dropped.connections) == (295, 2, None)
    with pytest.raises(ParseError, match="no requests of HTTP"):
        read_output("k6", '{"metrics": {"http_req_blocked": {"avg": 1, "max": 2}}}', where="a", command="{tool}")


def test_bombardier_1_has_no_brackets_and_progress_on_one_line() -> None:
    text = recorded("bombardier/v2-plain").replace("request(s)", "requests").replace("connection(s)", "connections")
    assert _read(text.replace("\nDone!", " Done!")) == _read(recorded("bombardier/v2-plain"))


def test_h2load_renamed_its_rows_and_may_lack_its_threads() -> None:
    old = recorded("h2load/v152-duration")
    new = old.replace("time for request:", "request     :").replace("time for connect:", "connect     :")
    new = new.replace("time to 1st byte:", "TTFB        :")
    assert _read(new) == _read(old)
    harness = "\n".join(line for line in new.splitlines() if "spawning" not in line)
    assert _read(harness).complete
    assert (_read(harness).connections, _read(harness).first_byte_mean_s) == (None, _read(old).first_byte_mean_s)


def test_h2load_writes_json_with_times_in_seconds() -> None:
    times = {"min": 0.1, "max": 0.5, "median": 0.2, "p95": 0.4, "p99": 0.45, "mean": 0.25, "sd": 0.05, "samples": [0.1]}
    document = {
        "version": "v1",
        "metadata": {"generator": "h2load nghttp2/1.69.0"},
        "measurements": {
            "duration": 2.5,
            "request_per_second": 400,
            "bytes_per_second": 5000,
            "requests": dict.fromkeys(("started", "done", "succeeded"), 1000)
            | {"total": 1000, "failed": 3, "errored": 2, "timeout": 1},
            "status_codes": {"2xx": 990, "3xx": 4, "4xx": 5, "5xx": 1},
            "traffic": {"total": 12500, "headers": 1, "data": 1},
            "performance": {"request": times, "connect": times | {"mean": 0.01}, "ttfb": times | {"mean": 0.02}},
        },
    }
    result = _read(json.dumps(document))
    assert (result.tool, result.tool_version, result.complete) == ("h2load", "1.69.0", True)
    assert (result.requests, result.rps, result.failed, result.non_2xx) == (1000, 400, 3, 10)
    assert (result.latency.mean_s, result.latency.percentiles["99"]) == (0.25, 0.45)
    assert (result.connect_mean_s, result.first_byte_mean_s) == (0.01, 0.02)


def test_a_row_that_tools_share_decides_nothing() -> None:
    for line in ("Running 10s test @ http://127.0.0.1:1/\n", "Requests/sec:   1234.50\n", "  Latency   1.00ms\n"):
        with pytest.raises(ParseError, match="no load tool is recognised"):
            _read(line)
