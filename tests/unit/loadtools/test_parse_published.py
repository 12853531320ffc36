"""Outputs as their authors published them: excerpts, old versions, and files that a report of a tool is made of."""

from __future__ import annotations

import csv
import json
import re

import pytest

from benchkit.errors import ParseError
from benchkit.loadtools.formats import read_runs
from benchkit.models.load_result import LoadResult
from tests.support.loadtools.outputs import recorded

SUMMARY = """\
     checks.........................: 97.10% ✓ 57012      ✗ 1700
     data_received..................: 120 MB 2.0 MB/s
     data_sent......................: 5.2 MB 86 kB/s
   ✗ http_req_duration..............: avg=204.12ms min=1.21ms med=180.22ms max=2.31s p(90)=402.12ms p(95)=602.41ms
   ✗ http_req_failed................: 2.89%  ✓ 1700       ✗ 57012
     http_reqs......................: 58712  970.446279/s
     vus............................: 200    min=200      max=200
"""
HEADING = "  execution: local\n     script: script.js\n\n  scenarios: (100.00%) 1 scenario, 200 max VUs, 1m30s max duration\n\n"
ROW = '"{0}": {{"total": "{1}", "ok": "{1}", "ko": "-"}}'
FIGURES = {
    "numberOfRequests": 30000,
    "minResponseTime": 4,
    "maxResponseTime": 1485,
    "meanResponseTime": 441,
    "standardDeviation": 256,
    "percentiles1": 412,
    "percentiles2": 600,
    "percentiles3": 895,
    "percentiles4": 1098,
    "meanNumberOfRequestsPerSecond": 270.27,
}


def _only(text: str) -> LoadResult:
    (result,) = read_runs(text, where="here")
    return result


@pytest.mark.parametrize("end", ["running (1m00.5s), 000/200 VUs, 58712 complete and 0 interrupted iterations\n", ""])
def test_k6_is_complete_with_its_last_line_or_its_last_row(end: str) -> None:
    text = HEADING + end + SUMMARY
    assert _only(text).complete is bool(end)
    whole = _only(text + "     vus_max........................: 200    min=200      max=200\n")
    assert (whole.complete, whole.requests, whole.failed) == (True, 58712, 1700)


def test_k6_without_counts_of_failures_states_none() -> None:
    result = _only(SUMMARY.replace("  ✓ 1700       ✗ 57012", ""))
    assert (result.complete, result.failed, result.requests) == (True, None, 58712)


def test_the_script_of_a_report_of_gatling_is_read() -> None:
    figures = ",\n".join(ROW.format(name, value) for name, value in FIGURES.items())
    part = 'stats: {\n    "name": "all",\n' + figures + "\n}"
    text = f'var stats = {{\n    type: "GROUP",\nname: "Global Information",\n{part},\ncontents: {{\n"req": {{\n{part}\n}}\n}}\n}}\n'
    result = _only(text)
    assert (result.tool, result.requests, result.rps, result.failed) == ("gatling", 30000, 270.27, 0)
    assert (result.latency.mean_s, result.latency.percentiles["99"]) == (0.441, 1.098)


def test_figures_of_gatling_may_be_text() -> None:
    stats = {name: {"total": str(value), "ok": str(value), "ko": "10"} for name, value in FIGURES.items()}
    result = _only(json.dumps({"type": "GROUP", "stats": stats, "contents": {}}, indent=1))
    assert (result.requests, result.failed, result.latency.max_s) == (30000, 10, 1.485)


def test_wide_cells_of_the_first_autocannon_have_one_blank_between() -> None:
    text = (
        "Running 10s test @ http://localhost:3000\n100 connections\n\nStat         Avg      Stdev   Max\n"
        "Latency (ms) 3.05     1.36    127\nReq/Sec      28023.28 1132.03 28992\nBytes/Sec    5.08 MB  211 kB  5.33 MB\n\n"
        "280k requests in 10s, 50.8 MB read\n"
    )
    result = _only(text)
    assert (result.rps, result.bytes_per_s, result.latency.mean_s, result.latency.max_s) == (
        28023.28,
        5.08e6,
        0.00305,
        0.127,
    )
    assert result.complete


def test_the_first_interval_of_jmeter_is_the_run_so_far() -> None:
    line = "summary +   2802 in 00:00:06 =  433.7/s Avg:    66 Min:     9 Max:  1053 Err:     0 (0.00%) Active: 102 Started: 102 Finished: 0\n"
    result = _only(f"Creating summariser <summary>\n{line}...\n")
    assert (result.requests, result.rps, result.latency.mean_s, result.latency.max_s) == (2802, 433.7, 0.066, 1.053)
    assert not result.complete
    with pytest.raises(ParseError, match="intervals only"):
        _only(line + line)


DEFAULTS = "timeStamp elapsed label responseCode responseMessage threadName dataType success failureMessage bytes sentBytes grpThreads allThreads URL Latency IdleTime Connect"


@pytest.mark.parametrize(
    "columns",
    [
        DEFAULTS,
        DEFAULTS.replace("URL ", ""),
        DEFAULTS.replace("URL ", "").replace("sentBytes ", ""),
        "timeStamp elapsed label responseCode responseMessage threadName dataType success bytes grpThreads allThreads Latency IdleTime",
        "timeStamp elapsed label responseCode responseMessage threadName dataType success bytes grpThreads allThreads Latency",
        "timeStamp elapsed label responseCode responseMessage threadName dataType success bytes Latency",
        "timeStamp elapsed label responseCode threadName success",
    ],
    ids=["4.0", "3.1", "3.0", "2.13-idle", "2.13", "2.6", "few"],
)
@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_rows_of_jmeter_need_no_heading(columns: str, delimiter: str) -> None:
    names, kept = DEFAULTS.split(), columns.split()
    rows = list(csv.DictReader(recorded("jmeter/v56-csv").splitlines()))
    assert list(rows[0]) == names
    text = "".join(delimiter.join(f"{row[name]}" for name in kept) + "\n" for row in rows)
    headed, bare = _only(delimiter.join(kept) + "\n" + text), _only(text)
    shown = {"bytes_total", "first_byte_mean_s", "threads", "users"} if "bytes" not in kept else set()
    assert bare.model_dump(exclude=shown) == headed.model_dump(exclude=shown)
    assert (bare.requests, bare.failed) == (120, 24)


AGGREGATE = """\
Label,# Samples,Average,Median,90% Line,95% Line,99% Line,Min,Maximum,Error %,Throughput,Received KB/sec,Std. Dev.
Home,500,123,110,200,240,300,20,350,0.400%,49.50495,100.25,10.5
TOTAL,1000,173,160,280,320,390,20,650,0.700%,98.81423,150.5,48.71
"""
KEYS = "sampler_label,aggregate_report_count,average,aggregate_report_median,aggregate_report_90%_line,aggregate_report_95%_line,aggregate_report_99%_line,aggregate_report_min,aggregate_report_max,aggregate_report_error%,aggregate_report_rate,aggregate_report_bandwidth,aggregate_report_stddev"
CHINESE = "Label,# 样本,平均值,中位数,90% 百分位,95% 百分位,99% 百分位,最小值,最大值,异常 %,吞吐量,接收 KB/sec,标准偏差"


@pytest.mark.parametrize(
    "text",
    [
        AGGREGATE,
        AGGREGATE.replace(",", "\t"),
        AGGREGATE.replace(AGGREGATE.partition("\n")[0], KEYS).replace("0.700%", "0.007"),
        AGGREGATE.replace(AGGREGATE.partition("\n")[0], CHINESE).replace("TOTAL", "总体"),
        "".join(
            f"| {line.replace(',', ' | ')} |\n{'|---' * 13 * (not at)}|\n"
            for at, line in enumerate(AGGREGATE.splitlines())
        ),
        AGGREGATE.replace("98.81423", "98.81423/sec"),
    ],
    ids=["window", "tabs", "keys", "chinese", "markdown", "copied"],
)
def test_the_report_of_jmeter_states_all_samples(text: str) -> None:
    result = _only(text)
    assert (result.tool, result.requests, result.rps, result.failed) == ("jmeter", 1000, 98.81423, 7)
    assert result.latency.percentiles == {"50": 0.16, "90": 0.28, "95": 0.32, "99": 0.39}
    times = result.latency
    assert (times.mean_s, times.stdev_s, times.min_s, times.max_s) == (0.173, 0.04871, 0.02, 0.65)
    assert (result.availability, result.bytes_per_s, result.complete) == (0.993, 150.5 * 1024, True)


def test_a_rounded_share_of_failures_is_no_number_of_them() -> None:
    result = _only(AGGREGATE.replace("1000,173", "1000000,173"))
    assert (result.requests, result.failed, result.availability) == (1000000, None, 0.993)
    without_total = AGGREGATE.replace("TOTAL", "Login")  # rows of single labels are a table
    assert read_runs(without_total, where="here") == []


NIGHTHAWK = """{
 "Labels": "", "RequestedQPS": 30, "URL": "http://127.0.0.1/", "RequestedDuration": "2s",
 "ActualQPS": 27.99999399400129, "ActualDuration": 2000000429, "NumThreads": 300,
 "DurationHistogram": {"Count": "53", "Data": [{"Start": 0.05, "End": 0.05, "Percent": 0, "Count": "1"}],
  "Min": 0.053, "Max": 0.31, "Avg": 0.078, "StdDev": 0.05, "Percentiles": [{"Percentile": 50, "Value": 0.065}]},
 "RetCodes": {"200": "56"}, "BytesReceived": "2702142"
}
"""


@pytest.mark.parametrize("quirks", [True, False])
def test_nighthawk_writes_fortios_form_with_all_requests_in_its_rate(*, quirks: bool) -> None:
    plain = re.sub(r'"(Count|200|BytesReceived)": "([0-9]+)"', r'"\1": \2', NIGHTHAWK).replace('QPS": 30', 'QPS": "30"')
    result = _only(NIGHTHAWK if quirks else plain)
    assert (result.tool, result.requests, result.rps, result.connections) == ("nighthawk", 56, 27.99999399400129, 300)
    assert (result.latency.mean_s, result.latency.percentiles, result.bytes_total) == (0.078, {"50": 0.065}, 2702142)
    assert {note.code for note in result.notes} == {"nighthawk-fortio", "target-rate"}


def test_fortio_without_a_rate_prints_minus_one() -> None:
    text = recorded("fortio/v163-text")
    unlimited = re.sub(r"running at \S+ queries", "running at -1 queries", text)
    assert unlimited != text
    assert (_only(unlimited).complete, "target-rate" in {note.code for note in _only(unlimited).notes}) == (True, False)


@pytest.mark.parametrize(
    ("tool", "text"),
    [
        ("loadtest", "Effective rps:       1234\n"),
        ("autocannon", "│ Stat      │ 50%     │ Avg      │\n│ Req/Sec   │ 57343   │ 56798.55 │\n"),
    ],
)
def test_an_excerpt_without_a_beginning_is_not_broken_off(tool: str, text: str) -> None:
    result = _only(text)
    assert (result.tool, result.complete) == (tool, True)
    assert "excerpt" in {note.code for note in result.notes}


def test_excerpts_of_several_runs_are_read_one_by_one() -> None:
    rates = [each.rps for each in read_runs("Effective rps:  1234\nEffective rps:  2345\n", where="here")]
    assert rates == [1234, 2345]


def test_an_interrupt_stands_before_the_heading_of_wrk() -> None:
    result = _only(
        "Running 30s test @ http://127.0.0.1/\n  2 threads and 40 connections\n^C  Thread Stats   Avg      Stdev     Max   +/- Stdev\n"
        "    Latency   635.91us    0.89ms  12.92ms   93.69%\n    Req/Sec    56.20k     8.07k   62.00k    86.54%\n"
        "  1124608 requests in 10.05s, 1.08GB read\nRequests/sec: 111903.94\nTransfer/sec:    110.14MB\n"
    )
    assert (result.latency.max_s, result.duration_s) == (0.01292, 10.05)
    assert not any(note.code == "unread" for note in result.notes)


def test_the_prefix_of_a_container_runtime_is_removed() -> None:
    lines = [f"2024-03-01T10:00:00.123456789Z stdout F {line}\n" for line in SUMMARY.splitlines()]
    result = _only("".join(lines))
    assert (result.requests, result.complete) == (58712, True)


@pytest.mark.parametrize(
    ("tool", "text"),
    [
        ("k6", "metric_name,timestamp,metric_value,check\nhttp_reqs,1709287200,1.000000,\n"),
        ("nighthawk", "worker_0.stat_id.samples: 3\nworker_0.stat_id.mean: 2000\n"),
        ("nighthawk", '# TYPE nighthawk_bar counter\nnighthawk_bar{scope="worker_0"} 2\n'),
        ("nighthawk", "options:\n  termination_predicates:\n    {}\n"),
    ],
)
def test_forms_that_are_not_read_are_refused_by_name(tool: str, text: str) -> None:
    with pytest.raises(ParseError, match=tool):
        read_runs(text, where="here")


def _without_first_line(text: str, mark: str) -> str:
    return text[text.index(mark) :]


SIEGE_JSON = recorded("siege/v407-json").strip().strip("{}")


@pytest.mark.parametrize(
    ("name", "mark"),
    [("wrk/v410-plain", "  2 threads"), ("wrk/v410-plain", "  Thread Stats"), ("bombardier/v2-plain", "Statistics")],
)
def test_runs_that_lack_their_first_line_are_kept_apart(name: str, mark: str) -> None:
    whole = recorded(name)
    one = _without_first_line(whole, mark)
    runs = read_runs(f"{one}\n{whole}\n{one}\n{whole}", where="here")
    assert [each.target for each in runs] == [None, _only(whole).target] * 2
    assert {each.rps for each in runs} == {_only(whole).rps}


def test_siege_may_lose_the_braces_of_its_json() -> None:
    runs = read_runs(f"## -c10\n{SIEGE_JSON}\n\n## -c25\n{SIEGE_JSON.replace('129.29', '99.00')}\n", where="here")
    assert [each.rps for each in runs] == [129.29, 99]


def test_figures_of_two_runs_that_cannot_be_told_apart_are_refused() -> None:
    with pytest.raises(ParseError, match="more than one run"):
        read_runs("Requests/sec:  18605.37\nTransfer/sec:  2.31MB\n" * 2, where="here")


@pytest.mark.parametrize(
    ("name", "line", "behind"),
    [
        ("ab/v23-keepalive", "[#/sec] (mean)", "   # requests a second"),
        ("ab/v23-keepalive", "[#/sec] (mean)", "   //吞吐率"),
        ("ab/v23-keepalive", "[Kbytes/sec] received", "  \uff08传输速率\uff09"),
        ("wrk/v410-plain", "MB\n", " (平均每秒读取数据)\n"),
        ("ab/v23-keepalive", "(longest request)", " <- p100"),
        ("bombardier/v2-plain", "/s\n", "%\n"),
        ("siege/v407-verbose", " hits", " hits\\"),
    ],
)
def test_what_authors_and_shells_put_behind_a_line_is_ignored(name: str, line: str, behind: str) -> None:
    text = recorded(name)
    place = text.rindex(line) + len(line.rstrip("\n") if line != " hits" else "")
    marked = text[:place] + behind.rstrip("\n") + text[place + (len(line) if line == " hits" else 0) :]
    assert marked != text
    assert _only(marked) == _only(text)


DISTRIBUTION = "  Latency Distribution (HdrHistogram - {} Latency)\n 50.000%    8.65m\n 99.000%   19.29m\n\n"
UNCORRECTED = DISTRIBUTION.format("Uncorrected").replace("8.65m", "4.08ms").replace("19.29m", "11.69ms")


@pytest.mark.parametrize(
    ("text", "percentiles", "corrected"),
    [
        (DISTRIBUTION.format("Recorded") + UNCORRECTED, {"50": 519, "99": 1157.4}, True),
        (UNCORRECTED, {"50": 0.00408, "99": 0.01169}, False),
    ],
)
def test_a_distribution_of_wrk2_may_stand_alone(text: str, percentiles: dict[str, float], *, corrected: bool) -> None:
    result = _only(text)
    assert (result.tool, result.latency.percentiles, result.latency.corrected) == ("wrk2", percentiles, corrected)
    assert ("open-loop" in {note.code for note in result.notes}) is corrected


def test_a_heading_of_wrk_may_have_a_remark() -> None:
    text = recorded("wrk/v410-latency-version")
    assert _only(text.replace("Latency Distribution", "Latency Distribution   (only with --latency)")) == _only(text)


def test_wrk2_without_an_answer_measured_no_times() -> None:
    text = re.sub(r"Latency .*", "Latency    -nanus    -nanus   0.00us    0.00%", recorded("wrk/wrk2-short"))
    result = _only(f"{text}  Latency Distribution (HdrHistogram - Recorded Latency)\n 50.000%    0.00us\n")
    assert (result.latency.max_s, result.latency.percentiles) == (None, {})


def test_lines_that_an_author_left_out_are_no_end_of_a_run() -> None:
    text = recorded("ab/v23-keepalive")
    begun, _, rest = text.partition("Concurrency Level")
    for dots in ("...", "[…]", "....中間省略...."):
        excerpt = f"{begun}{dots}\n{rest[rest.index('Requests per') : rest.index('Connection Times')]}"
        assert _only(excerpt).complete, dots
    interrupted = re.sub(r"Finished .*\n", "", text[text.index("Benchmarking") :])
    assert not _only(f"...\n{interrupted}").complete


def test_lines_of_ab_may_be_shortened_by_hand() -> None:
    result = _only(
        "Requests per second:    95,342.18 [#/sec]\nTime per request:       5.369 ms\nComplete requests: 10,000\n"
    )
    assert (result.rps, result.latency.mean_s, result.requests) == (95342.18, 0.005369, 10_000)
    old = _only(
        "This is ApacheBench, Version 1.3d <$Revision: 1.73 $> apache-1.3\n[...snip...]\nRequests per second:    12.33\n"
    )
    assert (old.rps, old.complete) == (12.33, True)
    close = _only("Requests per second: 1276.68 [#/sec](mean)\nTime per request: 39.164 [ms](mean)\n")
    assert (close.rps, close.latency.mean_s) == (1276.68, 0.039164)


def test_siege_aborts_on_the_line_of_its_beginning() -> None:
    text = recorded("siege/v407-verbose")
    aborted = text.replace("under siege...", "under siege...siege aborted due to excessive socket failure; you")
    assert aborted != text
    assert (_only(text).complete, _only(aborted).complete) == (True, False)


def test_an_aborted_run_of_sieges_log_is_the_one_above_its_mark() -> None:
    heading = "      Date & Time,  Trans,  Elap Time,  Data Trans,  Resp Time,  Trans Rate,  Throughput,  Concurrent,    OKAY,   Failed"
    row = "2012-08-02 12:51:47,  14663,  9.58,  0,  0.01,  1530.58,  0.00,  22.87,  14663,  0"
    mark = "**** siege aborted due to excessive socket failure. ****"
    assert _only(f"{heading}\n{row}\n{mark}\n{row}, 512/0.2, notes\n").complete
    assert not _only(f"{heading}\n{row}\n{mark}\n").complete


def test_bombardier_may_print_its_first_line_twice() -> None:
    text = recorded("bombardier/v2-plain")
    first, _, rest = text.partition("\n")
    assert _only(f"{first}{first}\n{rest}") == _only(text)


def test_json_of_bombardier_may_be_indented() -> None:
    document = recorded("bombardier/v2-json")
    text = json.dumps(json.loads(document[document.index('{"spec"') :]), indent=2)
    assert _only(text) == _only(document)
    runs = read_runs(f"```json\n{text}\n```\n\n```json\n{text}\n```\n", where="here")
    assert [each.rps for each in runs] == [_only(document).rps] * 2


def test_a_long_line_of_ab_may_be_wrapped() -> None:
    text = recorded("ab/v23-keepalive")
    wrapped = text.replace("across all concurrent requests)", "across all concurrent\nrequests)")
    assert wrapped != text
    assert _only(wrapped) == _only(text)


def test_tabs_in_rows_of_ab_may_have_become_blanks() -> None:
    rows = "starttime\tseconds\tctime\tdtime\tttime\twait\nWed Apr 15 18:54:11 2015\t1429149251\t1\t147\t148\t147\n"
    assert _only(rows.expandtabs()) == _only(rows.replace("\t", " ")) == _only(rows)
    assert _only(rows).latency.max_s == 0.148
    unread = _only(rows.replace("147\t148\t147", "147\t0.148\t147"))
    assert (unread.requests, unread.complete) == (None, False)
