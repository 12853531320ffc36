"""Outputs as their authors published them: excerpts, old versions, and files that a report of a tool is made of."""

from __future__ import annotations

import csv
import json
import re
import textwrap

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
        ("nighthawk", "worker_0.stat_id.samples: 3\nworker_0.stat_id.mean: 2000\n"),
        ("nighthawk", '# TYPE nighthawk_bar counter\nnighthawk_bar{scope="worker_0"} 2\n'),
        ("nighthawk", "options:\n  termination_predicates:\n    {}\n"),
        ("siegem", "** SIEGEM 0.1.0\nThe server is now under siege...\nTransactions: 100\nElapsed time: 3 s\n"),
        (
            "moros",
            "Running 10s test @ http://here/\n  1 thread(s) and 10 connection(s) each\n  Latency  0ms  0ms  5ms  99%\n",
        ),
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
        read_runs("Requests/sec:  18605.37\nTransfer/sec:  2.31MB\nRequests/sec:  18702.11\n", where="here")


@pytest.mark.parametrize(
    ("name", "line", "behind"),
    [
        ("ab/v23-keepalive", "[#/sec] (mean)", "   # requests a second"),
        ("ab/v23-keepalive", "[#/sec] (mean)", "   //吞吐率"),
        ("ab/v23-keepalive", "[Kbytes/sec] received", "  \uff08传输速率\uff09"),
        ("wrk/v410-plain", "MB\n", " (平均每秒读取数据)\n"),
        ("ab/v23-keepalive", "(longest request)", " <- p100"),
        ("ab/v23-keepalive", "(longest request)", "   <<<<"),
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


VEGETA = """\
Requests      [total, rate, throughput]         6000, 100.02, 99.75
Duration      [total, attack, wait]             59.993s, 59.991s, 2.187ms
Latencies     [min, mean, 50, 90, 95, 99, max]  561.16µs, 55.298ms, 1.152ms, 1.443ms, 1.833ms, 1.909s, 2.475s
Bytes In      [total, mean]                     965387, 160.90
Bytes Out     [total, mean]                     0, 0.00
Success       [ratio]                           100.00%
Status Codes  [code:count]                      200:6000
Error Set:
"""
BUCKETS = """\
Bucket           #     %       Histogram
[0s,     100ms]  5865  97.75%  #########
[100ms,  +Inf]   135   2.25%   ##
"""
VEGETA_JSON = (
    '{"latencies":{"total":%d,"mean":%d,"50th":%d,"max":23259687},"bytes_in":{"total":2760,"mean":0},'
    '"bytes_out":{"total":0,"mean":0},"duration":%d,"wait":0,"requests":10,"rate":%s,"throughput":%s,"success":%d,'
    '"status_codes":{"201":10},"errors":[]}'
)
CLOSED = VEGETA_JSON % (79721833, 7972183, 7000000, 900000000, 11.1, 11, 1)
OHA = """\
Summary:
  Success rate:\t100.00%
  Total:\t2.1629 10 sec
  Slowest:\t2.1627 10 sec
  Fastest:\t0.0176 10 sec
  Average:\t0.3690 10 sec
  Requests/sec:\t1.3870

Response time distribution:
  50.00% in 0.0177 10 sec
  99.00% in 2.1627 10 sec

Status code distribution:
  [200] 30 responses

Total results
 176383
"""
OHA_JSON = '{"summary": {"requestsPerSec": 8432.1, "slowest": 2.345}, "latencyPercentiles": {"p99": 0.234}}'
FORTIO = """\
Ended after 1m0.147414s : 3599 calls. qps=59.836
Aggregated Sleep Time : count 3599 avg -28.19993 +/- 16.29 min -56.5460369 max -0.177150334 sum -101491.549
# target 50% -28.3694
Aggregated Function Time : count 3599 avg 0.16680827 +/- 0.006161 min 0.156933 max 0.217184 sum 600.342951
# target 99% 0.196209
Code 200 : 3599
All done 3599 calls (plus 10 warmup) 166.808 ms avg, 59.8 qps
"""
FORTIO_LOGGED = (
    '{"ts":1692767216.855035,"level":"info","file":"periodic.go","line":564,"msg":"Run ended","run":"0",'
    '"elapsed":"1m0.147414s","calls":"3599","qps":"59.8363"}\n'
)
FORTIO_JSON = (
    '{"ActualQPS": 98.7, "ActualDuration": 1013171225, "NumThreads": 4, "Exactly": 100, "RetCodes": {"200": 100},'
    ' "DurationHistogram": {"Count": 100, "Min": 0.008, "Max": 0.04, "Sum": 1.63, "Avg": 0.0163, "StdDev": 0.006}}'
)
LOCUST = """\
 Name                     # reqs      # fails     Avg     Min     Max  |  Median   req/s
----------------------------------------------------------------------------------------
 GET /                       100     0(0.00%)      30      17      96  |      28    2.00
 GET /about/                  20     0(0.00%)      60      11      80  |      50    0.10
----------------------------------------------------------------------------------------
 Total                       120     0(0.00%)                                       2.10

Percentage of the requests completed within given times
 Name                      # reqs    50%    66%    75%    80%    90%    95%    98%    99%   100%
------------------------------------------------------------------------------------------------
 Total                        120     28     30     36     37     49     62     69     72     96
"""
LOCUST_ROW = """\
Type     Name           # reqs      # fails |    Avg     Min     Max    Med |   req/s  failures/s
--------|-------------|-------|-------------|-------|-------|-------|-------|--------|-----------
GET      /read             704         199 |     18       2     123      5 |   73.00       20.64
"""
LOCUST_CSV = """\
"Method","Name","# requests","# failures","Median response time","Average response time","Min response time",\
"Max response time","Average Content Size","Requests/s"
"PUT","insert",5369,0,17,32,8,203,171,90.51
"None","Total",5797,0,17,31,5,214,350,97.72

"Name","# requests","50%","66%","75%","80%","90%","95%","98%","99%","100%"
"PUT insert",5387,17,23,37,53,87,100,110,110,203
"None Total",5820,17,22,37,53,87,99,110,120,214
"""
ONE_SAMPLE = """\
Label,# Samples,Average,Median,90% Line,95% Line,99% Line,Min,Max,Error %,Throughput,Received KB/sec,Sent KB/sec
TOTAL,1,328,328,328,328,328,328,328,0.000%,3.04878,1.71,0.66
"""
JTL = """\
timeStamp,elapsed,label,responseCode,threadName,dataType,success,bytes,Latency
1434291247743,3514,Login,200,Thread Group 1-2,,true,444013,0
1434291247541,3780,Login,200,Thread Group 1-1,,true,444236,0
"""
AUTOCANNON = """\
Running 10s test @ http://localhost:3000
10 connections

| Stat    | 2.5% | 50%  | 97.5% | 99%  | Avg    | Stdev  | Max  |
| ------- | ---- | ---- | ----- | ---- | ------ | ------ | ---- |
| Latency | 1ms  | 1ms  | 3ms   | 3ms  | 1.13ms | 0.54ms | 21ms |

| Stat      | 1%   | 2.5% | 50%    | 97.5%   | Avg     | Stdev  | Min  |
| --------- | ---- | ---- | ------ | ------- | ------- | ------ | ---- |
| Req/Sec   | 3817 | 3817 | 6855   | 7047    | 6514.64 | 898.63 | 3817 |
| Bytes/Sec | 1 MB | 1 MB | 1.8 MB | 1.85 MB | 1.71MB  | 235kB  | 1 MB |

Req/Bytes counts sampled once per second.
# of samples: 11

72k requests in 11.03s, 18.8 MB read
"""
REPORTER = """\
Stat         Avg     Stdev Max
Latency (ms) 0.13    0.55  14
Req/Sec      15276   0     15279
Bytes/Sec    1.67 MB 0 B   1.7 MB

15k requests in 1s, 1.7 MB read
"""
AUTOCANNON_JSON = (
    '{"url": "http://here", "connections": 1, "duration": 4.45, "errors": 0, "timeouts": 0, "mismatches": 0, "non2xx": 0,'
    ' "latency": {"average": 1, "max": 3, "p97_5": 2}, "requests": {"average": 9, "stddev": 1, "min": 1, "max": 1, "total": 40},'
    ' "throughput": {"average": 1, "stddev": 1, "min": 1, "max": 1}}'
)
GATEWAY = """\
Request start to response end (489025 samples)
  min: 135.16µs | mean: 1.205247ms | max: 473.694207ms | pstdev: 6.469448ms

  Percentile\tCount\t\tValue
  0.990625\t\t484442\t\t55.599103ms

Counter\t\t\tValue\tPer second
benchmark.http_2xx\t489025\t16299.99
upstream_rq_total\t489026\t16300.03
"""
H2LOAD = """\
finished in 5.23s, 19120.46 req/s, 2.34MB/s
requests: 100000 total, 100000 started, 100000 done, 100000 succeeded
status codes: 100000 2xx, 0 3xx, 0 4xx, 0 5xx
traffic: 12.24MB total, 1.91MB headers, 9.54MB data
                     min         max         mean        sd
time for request:    1.23ms     89.45ms     5.21ms      3.12ms
time for connect:   45.12ms    156.78ms    78.34ms     12.45ms
time to 1st byte:   46.89ms    198.23ms    85.67ms     15.23ms
"""
K6_CSV = """\
metric_name,timestamp,metric_value,expected_response,status,url,extra_tags,metadata
http_reqs,1782873910,1.000000,true,200,http://here/,,
http_req_duration,1782873910,400.000000,true,200,http://here/,,
http_req_failed,1782873910,0.000000,true,200,http://here/,,
http_reqs,1782873911,1.000000,true,200,http://here/,,
http_req_duration,1782873911,600.000000,true,200,http://here/,,
http_req_failed,1782873911,1.000000,true,200,http://here/,,
"""
K6_SHORT = "http_req_duration..........: avg=230ms p(95)=890ms\nhttp_reqs..................: 16500 (55/s)\n"


H2LOAD_BOLD = """\
finished in 10.00s, 96.00 req/s, 41.81KB/s
**requests: 960 total, 970 started, 960 done, 960 succeeded, 0 failed, 0 errored, 0 timeout**
status codes: **961 2xx**, 0 3xx, 0 4xx, 0 5xx
traffic: 418.07KB (428103) total, 62.60KB (64100) headers (space savings 48.69%), 338.44KB (346560) data
                     min         max         mean         sd        +/- sd
time for request:    82.96ms    123.99ms    103.65ms     19.55ms    45.83%
time for connect:       61us        61us        61us         0us   100.00%
time to 1st byte:   103.01ms    103.01ms    103.01ms         0us   100.00%
req/s           :      96.00       96.00       96.00        0.00   100.00%
"""
AUTOCANNON_BOLD = """\
|   STAT   |   AVG   |   STDEV   |   MAX
|   -------   |   ------   |   ----------   |   -------
|   **Latency (ms)**   |   44.94   |   3.52   |   96
|   **Req/Sec**   |   214.29   |   24.89   |   225
|   **Bytes/Sec**   |   149 kB |   17.3 kB |   164 kB

6k requests in 28s, 4.18 MB read
"""
VEGETA_SHORT = """\
Requests      [total, rate, throughput]  840000, 1166.66, 1166.65
Duration      [total, attack, wait]      12m0.00774586s, 12m0.005126434s, 2.619426ms
Status Codes  [code:count]               200:840000
Error Set:
"""
LOCUST_SHARES = """\
Percentage of the requests completed within given times
 Name                                                           # reqs    50%    66%    75%    80%    90%    95%    98%    99%   100%
-------------------------------------------------------------------------------------------------------------------------------------
 GET /endpoint                                                      39    470    580    650    770   5200   6700   6700   6900   6732
-------------------------------------------------------------------------------------------------------------------------------------
 Total                                                              39    470    580    650    770   5200   6700   6700   6900   6732
"""
LOCUST_013 = LOCUST_SHARES.replace("   6900   6732\n", "   6900   7000   7100   6732\n")
DISTRIBUTION = """\
"Name","# requests","50%","66%","75%","80%","90%","95%","98%","99%","100%"
"GET /get",287,82,82,83,83,84,86,89,94,544
"None Total",287,82,82,83,83,84,86,89,94,544
"""
RETURNED = """\
Result {
  url: 'http://localhost:7357/',
  concurrency: 10,
  requestsPerSecond: 100,
  elapsedSeconds: 9.997396,
  totalRequests: 1000,
  totalErrors: 3,
  totalTimeSeconds: 9.997396,
  maxLatencyMs: 12,
  minLatencyMs: 1,
  errorCodes: { '503': 3 },
  histogramMs: { '1': 850, '2': 148, '11': 1, '12': 1 },
  meanLatencyMs: 1.5,
  effectiveRps: 100,
  rps: 100,
  percentiles: { '50': 1, '90': 2, '95': 2, '99': false }
}
"""
RETURNED_JSON = (
    '{"totalRequests":10000,"totalErrors":0,"totalTimeSeconds":164.58,"rps":61,"meanLatencyMs":1640.3,"maxLatencyMs":4546,'
    '"minLatencyMs":87,"percentiles":{"50":1600,"99":2589},"errorCodes":{}}'
)
AB_TABLE = """\
Concurrency Level:      100
Time taken for tests:   1406.488 seconds
Complete requests:      50000
Failed requests:        0
Time per request:       2812.977 [ms] (mean)

| | min | mean | [+/-sd] | median | max |
|---|---|---|---|---|---|
| Connect: | 0 | 28 | 115.4 | 0 | 531 |
| Total: | 5 | 2806 | 265.4 | 3039 | 3611 |

| 50% | 3039 |
| 100% | 3611 (longest request) |
"""
WRK_TABLE = """\
| Stat    | Avg     | Stdev    | Max   | +/- Stdev |
| ------- | ------- | -------- | ----- | --------- |
| Latency | 74.64ms | 138.80ms | 1.98s | 97.51%    |
| Req/Sec | 1.07k   | 399.10   | 2.51k | 84.50%    |
"""
WRK = """\
Running 20s test @ http://here/ 2 threads and 120 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency    74.64ms  138.80ms   1.98s    97.51%
    Req/Sec     1.07k   399.10     2.51k    84.50%
  42428 requests in 20.02s, 11.61MB read
Requests/sec:   2118.87
Transfer/sec:    593.86KB
"""
HEY_ERRORS = """\
$ hey -n 100 http://here/
Error distribution:
  [24]\tGet http://here/: EOF
  [76]\tGet http://here/: net/http: request canceled (Client.Timeout exceeded while awaiting headers)
"""
NOT_MEASURED = (REPORTER + "0 2xx responses, 15279 non 2xx responses\n").replace("0.13    0.55  14", "NaN     NaN   0")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (VEGETA + "\n# Build and run\n\nBuild the container.\n", {"notes": ()}),
        (VEGETA + BUCKETS, {"requests": 6000, "notes": ()}),
        (re.sub("(Duration|Bytes).*\n", "", VEGETA), {"requests": 6000, "duration_s": None}),
        (f"run-benchmark:\t{CLOSED}\n", {"rps": 11.1, "mean_s": 0.007972183}),
        (f"'''{CLOSED}z\n'''\n", {"rps": 11.1}),
        (VEGETA_JSON % (79721833, 0, 0, 0, 0, 0, 0), {"rps": None, "mean_s": 0.0079721833, "availability": None}),
        (OHA, {"requests": 30, "duration_s": 21.629, "max_s": 21.627}),
        (OHA_JSON, {"rps": 8432.1, "requests": None, "p99": 0.234, "max_s": 2.345}),
        (FORTIO, {"requests": 3599, "p99": 0.196209, "status": {"200": 3599}}),
        (FORTIO_LOGGED + FORTIO, {"rps": 59.8363, "duration_s": 60.147414}),
        (FORTIO[FORTIO.index("Code") :], {"mean_s": 0.166808, "rps": 59.8}),
        (
            FORTIO + "As seen above:\nAll done 3599 calls (plus 10 warmup) 166.808 ms avg, 59.8 qps\n",
            {"requests": 3599},
        ),
        (f'{{"meshery_id": "x", "runner_results": {FORTIO_JSON}}}', {"requests": 100, "rps": 98.7}),
        (LOCUST, {"min_s": 0.011, "mean_s": 0.035, "max_s": 0.096, "rps": 2.1}),
        (LOCUST_ROW, {"requests": 704, "failed": 199, "mean_s": 0.018, "rps": None}),
        (f"Before:\n```bash\n{LOCUST_CSV}```\n\nAfter, 1, 2\n", {"requests": 5797, "p99": 0.120, "max_s": 0.214}),
        (f"```csv\n{ONE_SAMPLE}```\n\n## CUI\n", {"requests": 1, "rps": 3.04878}),
        (ONE_SAMPLE.replace(",", ";").replace(".", ","), {"rps": 3.04878, "failed": 0}),
        (f"- Output, e.g.:\n\n```\n{JTL}```\n\nTo run it:\n\n`java -jar x.jar`\n", {"requests": 2, "max_s": 3.78}),
        (AUTOCANNON, {"rps": 6514.64, "mean_s": 0.00113, "p99": 0.003}),
        (AUTOCANNON + "--- RESULTS ---\nLatency (p99): 3 ms\n0 errors, 0 timeouts (100%)\n", {"rps": 6514.64}),
        (REPORTER, {"rps": 15276, "mean_s": 0.00013, "max_s": 0.014}),
        (f'{{"user": "me", "result": {AUTOCANNON_JSON}}}', {"requests": 40, "rps": 9}),
        (GATEWAY, {"mean_s": 0.001205247, "max_s": 0.473694207, "rps": 16299.99}),
        (H2LOAD, {"requests": 100000, "mean_s": 0.00521, "bytes_total": 12.24 * 1024**2, "failed": None}),
        (H2LOAD + "\n```\n traffic: 12.24MB total, 1.91MB headers, 9.54MB data\n", {"requests": 100000}),
        (K6_CSV, {"requests": 2, "failed": 1, "mean_s": 0.5, "duration_s": 1.4, "status": {"200": 2}}),
        (H2LOAD_BOLD, {"requests": 960, "non_2xx": 0, "rps": 96}),
        (AUTOCANNON_BOLD, {"rps": 214.29, "mean_s": 0.04494, "bytes_per_s": 149000}),
        (VEGETA_SHORT, {"requests": 840000, "status": {"200": 840000}, "mean_s": None, "availability": None}),
        (LOCUST_SHARES, {"requests": 39, "p50": 0.47, "p99": 6.9, "p99.9": None, "failed": None}),
        (LOCUST_013, {"requests": 39, "p50": 0.47, "p99": 6.9, "p99.9": 7, "p99.99": 7.1}),
        (DISTRIBUTION, {"requests": 287, "p50": 0.082, "p99": 0.094, "mean_s": None}),
        (f"Both at once:\n```\n{RETURNED}```\n", {"requests": 1000, "failed": 3, "min_s": 0.001, "connections": 10}),
        (RETURNED, {"status": {"503": 3}, "p95": 0.002, "p99": None, "max_s": 0.012, "rps": 100}),
        (f"// {RETURNED_JSON}\n", {"requests": 10000, "mean_s": 1.6403, "p99": 2.589, "rps": 61, "failed": 0}),
        (K6_SHORT, {"requests": 16500, "rps": 55}),
        (AB_TABLE, {"mean_s": 2.806, "max_s": 3.611, "p50": 3.039, "connect_mean_s": 0.028}),
        (WRK, {"target": "http://here/", "mean_s": 0.07464}),
        (WRK_TABLE + WRK, {"mean_s": 0.07464, "max_s": 1.98, "requests": 42428}),
        (WRK_TABLE.replace("Stat ", "Thread Stats ") + WRK[WRK.index("  42428") :], {"mean_s": 0.07464, "max_s": 1.98}),
        (recorded("siege/v407-verbose").replace("\n", "<br/>\n"), {"tool_version": "4.0.7", "requests": 24}),
        (HEY_ERRORS, {"failed": 100, "requests": None}),
        (NOT_MEASURED, {"mean_s": None, "max_s": None, "rps": 15276, "non_2xx": 15279}),
        (K6_SHORT + "http_req_failed............: 0.05%   ✓ 6000  ✗ 3\n", {"failed": 3}),
        (K6_SHORT + "http_req_failed............: 0.8%            ✅ <1%\n", {"failed": None}),
    ],
)
def test_what_authors_do_to_an_output_breaks_nothing(text: str, expected: dict[str, object]) -> None:
    result = _only(text)
    times = {f"p{name}": time for name, time in result.latency.percentiles.items()}
    stated = {**dict(result), **dict(result.latency), **times}
    assert result.complete, result.notes
    assert {name: stated.get(name) for name in expected} == {
        name: pytest.approx(value, rel=1e-5) if isinstance(value, float) else value for name, value in expected.items()
    }


def test_the_heading_of_a_table_begins_a_run_of_autocannon() -> None:
    runs = read_runs(f"--- one ---\n{REPORTER}\n--- two ---\n{REPORTER.replace('15276', '15277')}", where="here")
    assert [(each.rps, each.latency.max_s, each.complete) for each in runs] == [
        (15276, 0.014, True),
        (15277, 0.014, True),
    ]


def test_several_documents_within_another_are_several_runs() -> None:
    with pytest.raises(ParseError, match="more than one run of vegeta"):
        read_runs(f'{{"metrics":{{"read":{CLOSED},"write":{CLOSED}}}}}', where="here")


@pytest.mark.parametrize("text", [RETURNED, RETURNED_JSON])
def test_what_loadtest_returned_twice_is_of_two_runs(text: str) -> None:
    whole = _only(text)
    first, second = read_runs(f"{text}\n{text.replace('00,', '07,')}\n", where="here")
    assert (first.requests, first.target, first.connections) == (whole.requests, whole.target, whole.connections)
    assert second.requests == (whole.requests or 0) + 7


def test_what_loadtest_returned_may_break_off() -> None:
    assert not _only(RETURNED.partition("effectiveRps")[0]).complete


@pytest.mark.parametrize(
    "text",
    [
        f"Results:\n\n    $ cat a.csv\n{textwrap.indent(DISTRIBUTION, '    ')}",
        f"user@host:~$ cat a.csv\n{DISTRIBUTION}user@host:~$ \n",
        DISTRIBUTION.replace(",544\n", ",544  \n"),
    ],
)
def test_tables_are_read_as_they_are_quoted(text: str) -> None:
    result = _only(text)
    assert (result.complete, result.requests, result.latency.percentiles["99"]) == (True, 287, 0.094)


def test_a_table_below_a_heading_may_have_semicolons() -> None:
    table = (
        "Label;# Samples;Average;Median;90% Line;95% Line;99% Line;Min;Max;Error %;Throughput\n"
        "Home;10;12;11;20;21;22;5;23;0,000%;2,50000\nTOTAL;10;12;11;20;21;22;5;23;0,000%;2,50000\n"
    )
    assert _only(f"# Results\n\n```text\n{table}```\n").requests == 10


@pytest.mark.parametrize("blank", [" ", "\t"])
def test_loadtest_may_have_one_blank(blank: str) -> None:
    text = f"Completed requests:{blank}359\nTotal errors:{blank}0\nTotal time:{blank}6.409 s\nMean latency:{blank}1629 ms\n"
    assert (_only(text).tool, _only(text).requests) == ("loadtest", 359)


def test_a_share_of_every_request_by_name_alone_states_nothing_of_all() -> None:
    result = _only("".join(DISTRIBUTION.splitlines(keepends=True)[:2]))
    assert (result.complete, result.requests, result.latency.percentiles) == (False, None, {})
    with pytest.raises(ParseError, match="more than one run"):
        _only(DISTRIBUTION + DISTRIBUTION.splitlines()[-1] + "\n")


def test_tables_of_two_blocks_are_two_runs() -> None:
    with pytest.raises(ParseError, match=r"more than one run|two files"):
        read_runs(f"Before:\n```\n{JTL}```\nAfter:\n```\n{JTL.replace('3514', '3515')}```\n", where="here")


def test_each_run_of_jmeter_has_its_own_beginning() -> None:
    run = (
        "Creating summariser <summary>\nStarting standalone test @ May 16, 2026 8:34:43 PM CEST (1778956483832)\n"
        "summary = {} in 00:00:22 =    1.8/s Avg:   124 Min:    42 Max:   736 Err:     0 (0.00%)\n"
        "Tidying up ...    @ May 16, 2026 8:36:14 PM CEST (1778956574703)\n... end of run\n"
    )
    results = read_runs(run.format(200) + "Terminado\n" + run.format(40), where="here")
    assert [(each.requests, each.complete) for each in results] == [(200, True), (40, True)]
