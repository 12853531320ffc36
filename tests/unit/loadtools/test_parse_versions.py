"""Other versions, locales and parts of outputs of tools that benchkit reads and does not run."""

from __future__ import annotations

import re

import pytest

from benchkit.errors import ParseError
from benchkit.loadtools.formats import FORMATS
from benchkit.loadtools.text import decode
from tests.support.loadtools.outputs import codes, parsed, recorded


def test_the_times_of_nighthawk_are_text() -> None:
    text = recorded("nighthawk/text").replace("mean: 0s 000ms 598us", "mean: 12s 034ms 005us")
    assert parsed("nighthawk", text).latency.mean_s == 12.034005
    damaged = parsed("nighthawk", text.replace("12s 034ms 005us", "12s 34ms 5us"))
    assert (damaged.latency.mean_s, damaged.complete) == (None, False)
    assert "unread" in codes(damaged)


def test_nighthawk_without_a_statistic_of_requests_has_no_latency() -> None:
    text = re.sub(r"Request start to response end", "foo_latency", recorded("nighthawk/text"))
    result = parsed("nighthawk", text)
    assert (result.latency.mean_s, result.latency.percentiles) == (None, {})
    assert "no-latency" in codes(result)


def test_the_first_nighthawk_printed_seconds() -> None:
    text = (
        "benchmark_http_client.request_to_response: 9997 samples, mean: 0.000168003s, pstdev: 0.000153462s\n"
        "Percentile  Count       Latency        \n0           1           0.000066339s   \n"
        "0.5         4999        0.000157879s   \n1           9997        0.008074751s   \n\n"
        "Counter                                 Value       Per second\n"
        "client.benchmark.http_2xx               9999        1999.80\n"
        "client.upstream_rq_total                9999        1999.80\n"
    )
    result = parsed("nighthawk", text)
    assert FORMATS["nighthawk"].recognise(text)
    assert (result.requests, result.rps, result.latency.mean_s, result.latency.max_s) == (
        9999,
        1999.8,
        0.000168003,
        0.008074751,
    )
    assert result.latency.percentiles == {"50": 0.000157879}


def test_counters_of_a_truncated_text_of_nighthawk_are_not_zero() -> None:
    text = recorded("nighthawk/text")
    result = parsed("nighthawk", text[: text.index("benchmark.http_5xx")])
    assert (result.requests, result.errors.read, result.failed, result.complete) == (None, None, None, False)
    cut = parsed("nighthawk", text[: text.index("Counter ")])
    assert (cut.requests, cut.failed, cut.errors.read, cut.complete) == (None, None, None, False)


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


def test_the_intervals_of_jmeters_summariser_are_no_result() -> None:
    lines = [line for line in recorded("jmeter/v56-summary").splitlines(keepends=True) if "summary = " not in line]
    with pytest.raises(ParseError, match="intervals only"):
        parsed("jmeter", "".join(lines))
    cut = recorded("jmeter/v56-summary")
    result = parsed("jmeter", cut[: cut.index("summary +    258")])
    assert (result.requests, result.complete) == (942, False)


def test_lines_of_several_runs_of_jmeter_are_not_taken_for_one() -> None:
    line = "summary = {:6} in 00:00:01 = 1811.6/s Avg:     0 Min:     0 Max:    15 Err:     0 (0.00%)\n"
    with pytest.raises(ParseError, match="more than one run"):
        parsed("jmeter", f"== 1 thread ==\n{line.format(1000)}== 10 threads ==\n{line.format(2000)}")
    assert parsed("jmeter", line.format(1000) + line.format(2000)).requests == 2000


def test_a_jtl_may_have_other_columns_delimiters_and_dates() -> None:
    rows = "2017/07/12 10:00:00.100;20;a;200;true\n2017/07/12 10:00:01.000;100;a;Non HTTP response code: X;false\n"
    result = parsed("jmeter", f"timeStamp;elapsed;label;responseCode;success\n{rows}")
    assert (result.requests, result.duration_s, result.failed) == (2, 1.0, 1)
    assert (result.status, result.errors.other, result.complete) == ({"200": 1}, 1, True)


def test_a_jtl_without_a_heading_and_one_cut_in_a_row() -> None:
    heading, _, rows = recorded("jmeter/v56-csv").partition("\n")
    assert parsed("jmeter", rows) == parsed("jmeter", f"{heading}\n{rows}")
    cut = parsed("jmeter", f"{heading}\n{rows}"[:-30])
    assert (cut.requests, cut.rps, cut.complete) == (None, None, False)


def test_transactions_of_jmeter_are_no_requests() -> None:
    heading, first, *_ = recorded("jmeter/v56-csv").splitlines(keepends=True)
    message = '"Number of samples in transaction : 1, number of failing samples : 0"'
    result = parsed("jmeter", heading + first + first.replace(",OK,", f",{message},"))
    assert result.requests == 1
    assert "transactions" in codes(result)
    inner = '<httpSample t="{}" ts="1{:012}" s="true" rc="200" rm="OK" by="9" na="1">\n{}</httpSample>\n'
    redirect = inner.format(30, 0, inner.format(10, 0, "") + inner.format(20, 10, ""))
    transaction = f'<sample t="50" ts="1{0:012}" s="true" rc="200" rm="{message[1:-1]}">\n{redirect}</sample>\n'
    xml = parsed("jmeter", f'<testResults version="1.2">\n{transaction}</testResults>\n')
    assert (xml.requests, xml.latency.max_s, xml.complete) == (1, 0.03, True)
    single = parsed("jmeter", "<testResults>\n<sample t='976' ts='1330418007548' s='true' rc='200'/>\n</testResults>\n")
    assert (single.requests, single.latency.mean_s, single.status) == (1, 0.976, {"200": 1})


def test_locust_before_1_has_no_figures_in_its_total() -> None:
    table = (
        " Name                          # reqs      # fails     Avg     Min     Max  |  Median   req/s\n"
        "--------------------------------------------------------------------------------------------\n"
        " POST order                      1880     3(0.16%)     335      33    1258  |     130  108.90\n"
        "--------------------------------------------------------------------------------------------\n"
        " Total                           1880     3(0.16%)                                     108.90\n\n"
    )
    percentiles = (
        "Percentage of the requests completed within given times\n"
        " Name                 # reqs    50%    66%    75%    80%    90%    95%    98%    99%   100%\n"
        "--------------------------------------------------------------------------------------------\n"
        " Total                  1880    130    290    470    560    800    980   1100   1200   1258\n"
    )
    result = parsed("locust", table + percentiles)
    assert (result.requests, result.failed, result.rps, result.latency.mean_s) == (1880, 3, 108.9, 0.335)
    assert result.latency.percentiles["99"] == 1.2
    assert "100" not in result.latency.percentiles
    named = parsed("locust", table + percentiles.replace(" Total    ", " None     Aggregated"))
    assert named.latency.percentiles == result.latency.percentiles
    live = parsed("locust", table)
    assert (live.rps, live.requests) == (None, 1880)
    assert "live-table" in codes(live)


def test_the_csv_of_early_locust_has_other_headings() -> None:
    text = (
        '"Method","Name","# requests","# failures","Median response time","Average response time","Min response time",'
        '"Max response time","Average Content Size","Requests/s"\n'
        '"GET","/",120,2,9,12,3,80,100,40.00\n"None","Total",120,2,9,12,3,80,100,40.00\n'
    )
    result = parsed("locust", text.replace('"None"', '""'))
    assert (result.requests, result.failed, result.rps, result.latency.mean_s) == (120, 2, 40.0, 0.012)
    assert parsed("locust", text) == result


def test_a_file_of_locust_without_its_total_states_nothing() -> None:
    lines = recorded("locust/v247-csv").splitlines(keepends=True)
    result = parsed("locust", "".join(lines[:-1]))
    assert (result.requests, result.rps, result.complete) == (None, None, False)


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


def test_what_gatling_prints_during_a_run_is_incomplete() -> None:
    for name in ("gatling/v39-console", "gatling/v313-console"):
        text = recorded(name)
        result = parsed("gatling", text[: text.index("Parsing log")])
        assert (result.requests, result.rps, result.complete) == (120, None, False)


def test_the_percentiles_of_gatlings_early_json_are_unknown() -> None:
    text = re.sub(r'    "percentiles[34]": \{[^}]*\},\n', "", recorded("gatling/v39-global"))
    result = parsed("gatling", text)
    assert result.latency.percentiles == {}
    assert "ranks-unknown" in codes(result)


def test_the_binary_log_of_gatling_is_refused_with_what_to_give_instead() -> None:
    log = (
        bytes.fromhex("0000000006")
        + b"3.13.5"
        + bytes(3)
        + b"\x04Fast"
        + bytes(3)
        + b"\x01\xa2\x1a\xdcU\xea"
        + bytes(90)
    )
    text = decode(log)
    assert FORMATS["gatling"].recognise(text)
    with pytest.raises(ParseError, match=r"simulation\.log of gatling") as raised:
        parsed("gatling", text)
    assert "Global Information" in (raised.value.hint or "")


def test_a_part_of_fortios_text_is_incomplete_only_where_its_beginning_is_seen() -> None:
    text = recorded("fortio/v163-text")
    end = text.index("All done")
    assert not parsed("fortio", text[:end]).complete
    assert parsed("fortio", text[text.index("Aggregated Function") : end]).complete


def test_the_rate_of_fortio_stands_in_two_lines() -> None:
    text = recorded("fortio/v163-qps")
    assert "target-rate" in {note.code for note in parsed("fortio", text[text.index("Starting at") :]).notes}


def test_a_document_of_k6_below_its_rows_is_of_the_same_run() -> None:
    rows = recorded("k6/v18-legacy")
    assert parsed("k6", f"{rows}\n{recorded('k6/v18-export')}") == parsed("k6", rows)


def test_fortios_protobuf_counts_are_text() -> None:
    text = re.sub(r'"Count": (\d+)', r'"Count": "\1"', recorded("fortio/v163-json"))
    assert parsed("fortio", text) == parsed("fortio", recorded("fortio/v163-json"))


def test_an_interrupted_run_of_fortio_is_incomplete_in_json_too() -> None:
    text = recorded("fortio/v163-json")
    assert parsed("fortio", text).complete
    assert not parsed("fortio", text.replace('"RequestedDuration": "2s"', '"RequestedDuration": "30s"')).complete


def test_rewrk_prints_errors_since_0_4() -> None:
    text = (
        recorded("rewrk/v03-drop").rstrip("\n") + "\n\n12 Errors: connection closed\n3 Errors: operation timed out\n\n"
    )
    result = parsed("rewrk", text)
    assert (result.failed, result.errors.timeout, result.errors.other) == (15, 3, 12)


def test_the_text_and_the_series_of_zrk_are_refused_with_what_to_give_instead() -> None:
    text = "  19998 requests in 20.00s, 1.18MiB read\n  latency (coordinated-omission corrected)\n    p50     251us\n"
    series = '{"t":1.006,"target_rate":480.0,"achieved_rate":476.2,"requests":476,"errors":0}\n'
    for each in (text, series):
        assert FORMATS["zrk"].recognise(each)
        with pytest.raises(ParseError, match="not its summary") as raised:
            parsed("zrk", each)
        assert "--format json" in (raised.value.hint or "")


def test_a_closed_loop_of_zrk_is_not_corrected() -> None:
    text = recorded("zrk/v01-readme").replace('"config": {', '"config": { "closed": true,')
    result = parsed("zrk", text)
    assert result.latency.corrected is False
    assert "open-loop" not in codes(result)


def test_a_ramp_of_zrk_has_the_rate_of_its_last_window() -> None:
    text = recorded("zrk/v01-readme").replace(
        '"target_rate": 1000,\n', '"target_rate": 1000, "target_rate_end": 3000,\n'
    )
    new = text.replace('"achieved_rate": 999.80', '"end_window_s": 1.0, "achieved_rate": 2950.00')
    result = parsed("zrk", new)
    assert result.rps == pytest.approx(19998 / 20.002)
    assert result.bytes_per_s is None
    assert "ramp" in codes(result)
    closed = parsed("zrk", new.replace('"config": {', '"config": { "closed": true,'))
    assert (closed.rps, codes(closed) & {"ramp", "open-loop"}) == (2950.0, set())


def test_loadtest_prints_false_and_nan_for_what_it_did_not_measure() -> None:
    text = recorded("loadtest/v8-count").replace("27 ms", "false ms")
    assert "99" not in parsed("loadtest", text).latency.percentiles
    assert parsed("loadtest", text).complete
    nothing = parsed("loadtest", text.replace("7.2 ms", "NaN ms")).latency
    assert (nothing.mean_s, nothing.max_s, nothing.percentiles) == (None, None, {})


@pytest.mark.parametrize(
    ("name", "stated", "damaged"),
    [
        ("fortio/v163-text", "9745.6", "9745,6"),
        ("loadtest/v8-count", "Effective rps:       1282", "Effective rps:       1,282"),
        ("rewrk/v03-pct", "Req/Sec: 2703.82", "Req/Sec: 2703,82"),
        ("locust/v247-text", "1240.26", "1240,26"),
        ("gatling/v39-console", " 40 (OK=34.333", " 4o (OK=34.333"),
    ],
)
def test_a_malformed_rate_is_none_or_makes_the_result_incomplete(name: str, stated: str, damaged: str) -> None:
    text = recorded(name)
    assert stated in text
    tool = name.partition("/")[0]
    whole, result = parsed(tool, text), parsed(tool, text.replace(stated, damaged))
    assert result.rps in {None, whole.rps}
    assert result.rps == whole.rps or not result.complete
