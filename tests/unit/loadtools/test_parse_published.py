"""Outputs as their authors published them: excerpts, old versions, and files that a report of a tool is made of."""

from __future__ import annotations

import json

import pytest

from benchkit.errors import ParseError
from benchkit.loadtools.formats import read_runs
from benchkit.models.load_result import LoadResult

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
