"""Other versions, locales and forms of outputs, derived from recordings by their known differences."""

from __future__ import annotations

import re

import pytest

from benchkit.errors import ParseError
from benchkit.loadtools.formats import AUTO, read_run
from benchkit.models.load_result import LoadResult
from benchkit.plugins.output_formats.autocannon import parse_local
from tests.support.loadtools.outputs import codes, parsed, recorded


def _read(text: str) -> LoadResult:
    return read_run(AUTO, text, where="out.txt", command="benchkit parse {tool} out.txt").result


def _without_notes(result: LoadResult) -> LoadResult:
    return result.model_copy(update={"notes": ()})


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
    assert _read(text.replace("│", "|")) == plain


def test_k6_before_1_0_has_ticks_for_failures() -> None:
    text = recorded("k6/v18-legacy")
    plain = _read(text)
    for failures in ("✓ 100       ✗ 200", "\ufffd 100 \ufffd 200"):
        old = re.sub(r"100 out of 300", failures, text).replace("     http_req_duration", "   ✓ http_req_duration")
        assert _without_notes(_read(old)) == _without_notes(plain)
    assert plain.failed == 100
    excerpt = "\n".join(line for line in text.splitlines() if "http_req" in line)
    assert _read(excerpt).complete
    assert _read(excerpt).requests == 300


def test_the_forms_of_k6_agree() -> None:
    export = _read(recorded("k6/v18-export"))
    assert export.failed == 100  # `passes`: `fails` are the 200 that did not fail
    dropped = _read(recorded("k6/v18-dropped"))
    assert (dropped.dropped, dropped.users, dropped.connections) == (295, 2, None)
    with pytest.raises(ParseError, match="no requests of HTTP"):
        read_run("k6", '{"metrics": {"http_req_blocked": {"avg": 1, "max": 2}}}', where="a", command="{tool}")


def test_h2load_renamed_its_rows_and_may_lack_its_threads() -> None:
    old = recorded("h2load/v152-duration")
    new = old.replace("time for request:", "request     :").replace("time for connect:", "connect     :")
    new = new.replace("time to 1st byte:", "TTFB        :")
    assert _read(new) == _read(old)
    harness = "\n".join(line for line in new.splitlines() if "spawning" not in line)
    assert _read(harness).complete
    assert (_read(harness).connections, _read(harness).first_byte_mean_s) == (None, _read(old).first_byte_mean_s)


def test_the_summariser_of_jmeter_before_3_and_in_other_locales() -> None:
    old = (
        "2015/02/21 13:31:35 INFO  - jmeter.reporters.Summariser: Generate Summary Results +   100 in   5.1s =   19.6/s "
        "Avg:   112 Min:    11 Max:   926 Err:     0 (0.00%) Active: 1 Started: 1 Finished: 0 \n"
        "2015/02/21 13:31:45 INFO  - jmeter.reporters.Summariser: Generate Summary Results =   433 in  15.2s =   28,5/s "
        "Avg:   110 Min:    10 Max:  1126 Err:    13 (3,00%)\n"
    )
    result = parsed("jmeter", old)
    assert (result.requests, result.duration_s, result.rps, result.failed) == (433, 15.2, 28.5, 13)
    assert (result.latency.mean_s, result.latency.max_s, result.complete) == (0.11, 1.126, False)


def test_transactions_of_jmeter_are_no_requests() -> None:
    heading, first, *_ = recorded("jmeter/v56-csv").splitlines(keepends=True)
    message = '"Number of samples in transaction : 1, number of failing samples : 0"'
    result = parsed("jmeter", heading + first + first.replace(",OK,", f",{message},"))
    assert result.requests == 1
    assert "transactions" in codes(result)


def test_gatling_prints_thousands_and_dashes() -> None:
    text = recorded("gatling/v313-console")
    text = re.sub(r"(max response time \(ms\) +\| +)766", r"\g<1>12,766", text)
    text = re.sub(r"(99th percentile \(ms\) +\| +)766", r"\g<1>-", text)
    latency = parsed("gatling", text).latency
    assert latency.max_s == 12.766
    assert "99" not in latency.percentiles
    assert parsed("gatling", text.replace("3s elapsed", "1m 3s elapsed")).duration_s == 63
    assert parsed("gatling", re.sub(r"(?s)\A.*\n(?====+\n---- Global)", "", text)).duration_s is None
    old = re.sub(r"(mean requests/sec +)40 ", r"\g<1>40,5 ", recorded("gatling/v39-console"))
    assert (parsed("gatling", old).rps, parsed("gatling", old).complete) == (None, False)


def test_an_interrupted_run_of_fortio_is_incomplete_in_json_too() -> None:
    text = recorded("fortio/v163-json")
    assert parsed("fortio", text).complete
    assert not parsed("fortio", text.replace('"RequestedDuration": "2s"', '"RequestedDuration": "30s"')).complete
