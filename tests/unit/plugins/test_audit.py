from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import asdict

import numpy as np
import pytest

from benchkit.errors import InputError
from benchkit.models.load_result import Errors, Latency, LoadResult, Note
from benchkit.plugins.foreign.checks import AuditContext, AuditFinding
from benchkit.plugins.foreign.output_marks import marks_of
from benchkit.plugins.foreign.published import (
    PublishedResult,
    result_of_output,
    results_of_outputs,
    stated_result,
)
from benchkit.plugins.foreign.table_checks import run_checks
from benchkit.plugins.foreign.table_results import read_table
from tests.support.plugins.audit_pages import AUDITS

THOUSANDS = Note(code="autocannon-thousands", message="counts with a k are rounded to thousands")


def findings(*results: PublishedResult, **context: float) -> list[AuditFinding]:
    return list(run_checks(results, AuditContext(**context))[0])  # type: ignore[arg-type] # all are numbers


def codes(*results: PublishedResult, **context: float) -> list[tuple[str, str]]:
    return [(finding.check, finding.severity) for finding in findings(*results, **context)]


def public_table() -> str:
    """Return a table as web-frameworks#9775 describes it: 174 of 380 servers between 96.0k and 97.4k req/s."""
    rates = [*np.linspace(97_400, 96_000, 174), *np.geomspace(95_000, 2_000, 206)]
    lines = ["| | Language | Framework | Speed (64) | p99 |", "|---|---|---|---:|---:|"]
    lines += [f"| {i} | x | server{i} | {rate:,.0f} | 0.55 ms |" for i, rate in enumerate(rates, start=1)]
    return "\n".join(lines) + "\n"


def test_a_plateau_of_a_public_table_is_found_with_its_size() -> None:
    results, unused = read_table(public_table(), "table.md")
    assert len(results) == 380
    assert unused == ["Language"]
    assert {result.connections for result in results} == {64}
    (found, *others) = [finding for finding in findings(*results, noise=0.02) if finding.check == "plateau"]
    assert others == []
    assert "174 of 380 results lie between 96,000 and 97,400 requests/s" in found.text
    assert len(found.results) == 174
    ranks = next(finding for finding in findings(*results, noise=0.02) if finding.check == "rank-noise")
    count = re.search(r"(\d+) results cannot be told from the first", ranks.text)
    assert count is not None
    assert int(count[1]) >= 174


def test_equal_rates_of_two_servers_and_rates_that_spread_are_no_plateau() -> None:
    spread = [PublishedResult(name=str(i), rps=1000 * 1.1**i) for i in range(20)]
    assert codes(*spread) == []
    assert codes(*(PublishedResult(name=name, rps=1000) for name in "ab")) == []
    assert codes(*(PublishedResult(name=name, rps=1000) for name in "abc")) == [("plateau", "suspect")]


def test_percentiles_that_rate_and_connections_contradict_are_found() -> None:
    table = "framework,requests/s,connections,p50,p99\nfulmine,148906,512,1.19 ms,2.19 ms\nfulmine,172187,64,0.31 ms,0.55 ms\n"
    (found,) = findings(*read_table(table, "table.csv").results)
    assert (found.check, found.results) == ("littles-law", ("fulmine, 512 connections",))
    assert "a mean of 3.44 ms, more than the p99 of 2.19 ms" in found.text
    assert "the slowest 1 % would take 127 ms on average" in found.text


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"rps": 1000.0, "connections": 10, "mean_s": 0.010}, []),
        ({"rps": 1000.0, "connections": 10, "mean_s": 0.013}, [("littles-law", "invalid")]),
        ({"rps": 1000.0, "connections": 10, "mean_s": 0.005}, [("littles-law", "invalid")]),
        ({"rps": 1000.0, "connections": 10, "mean_s": 0.005, "resolution_s": 0.01}, []),
        ({"rps": 1000.0, "connections": 10, "mean_s": 0.013, "tool": "wrk", "corrected": None}, []),
        (
            {"rps": 1000.0, "connections": 10, "mean_s": 0.005, "tool": "wrk", "corrected": None},
            [("littles-law", "invalid")],
        ),
        ({"rps": 1000.0, "connections": 10, "max_s": 0.005}, [("littles-law", "invalid")]),
        ({"rps": 1000.0, "requests": 9000, "duration_s": 10.0}, [("rate-and-count", "suspect")]),
        ({"rps": 1000.0, "requests": 9900, "duration_s": 10.0}, []),
        ({"requests": 10_000, "failures": 1}, [("errors", "suspect")]),
        ({"requests": 10_000, "failures": 100}, [("errors", "invalid")]),
        ({"failure_share": 0.0005}, [("errors", "suspect")]),
        ({"failure_share": 0.0}, []),
        ({"requests": 500, "percentiles": {50: 0.1, 90: 0.2, 99: 0.3}}, [("too-few-samples", "suspect")]),
        ({"requests": 1000, "percentiles": {99: 0.3}}, []),
        ({"bytes_per_s": 1.2e8}, [("link", "invalid")]),
        ({"bytes_per_s": 1.0e8}, []),
        ({"complete": False}, [("incomplete", "invalid")]),
        # pipelining and streams
        ({"rps": 16000.0, "connections": 10, "streams": 16, "mean_s": 0.010}, []),
        ({"rps": 16000.0, "connections": 10, "streams": 16, "mean_s": 0.001}, [("littles-law", "invalid")]),
        ({"rps": 16000.0, "connections": 10, "streams": 16, "mean_s": 0.013}, [("littles-law", "invalid")]),
        ({"rps": 16000.0, "connections": 10, "mean_s": 0.010}, []),  # streams that nothing states
        (
            {"rps": 1000.0, "connections": 10, "mean_s": 0.005, "requests": 5000, "reconnects": 200},
            [("littles-law", "suspect")],
        ),
        # held rates, and users that wait
        ({"rps": 500.0, "connections": 10, "mean_s": 0.001, "target_rate": 500.0}, []),
        ({"rps": 500.0, "connections": 10, "mean_s": 0.001, "is_open": True, "tool": "k6"}, []),
        ({"rps": 500.0, "connections": 10, "mean_s": 0.001, "tool": "k6"}, []),
        (
            {"rps": 500.0, "connections": 10, "mean_s": 0.030, "tool": "k6", "corrected": False},
            [("littles-law", "invalid")],
        ),
        ({"rps": 500.0, "connections": 10, "target_rate": 600.0}, [("rate-held", "invalid")]),
        ({"rps": 500.0, "connections": 10, "target_rate": 600.0, "rate_ratio": 0.998}, []),
        ({"rps": 500.0, "dropped": 12, "is_open": True}, [("dropped-iterations", "suspect")]),
        ({"rps": 49.4, "connections": 50, "target_rate": 50.0, "requests": 4940, "duration_s": 100.0}, []),
        # a run of a few requests on each connection, whose end is much of it
        ({"rps": 1.57, "connections": 10, "mean_s": 4.64, "max_s": 6.35, "requests": 10, "tool": "ab"}, []),
        (
            {"rps": 1.57, "connections": 10, "mean_s": 4.64, "max_s": 6.35, "requests": 100, "tool": "ab"},
            [("littles-law", "invalid")],
        ),
        ({"rps": 0.13, "requests": 4, "duration_s": 30.1}, []),  # a rate of two decimals
        # too short, sampled by the second, or failed
        ({"rps": 1000.0, "connections": 10, "mean_s": 0.005, "duration_s": 0.5, "requests": 400}, []),
        ({"rps": 200.0, "connections": 4, "mean_s": 0.0016, "duration_s": 1.06, "tool": "autocannon"}, []),
        ({"rps": 100.0, "connections": 10, "mean_s": 0.005, "requests": 100, "failures": 30}, [("errors", "invalid")]),
        ({"rps": 0.6, "connections": 100, "max_s": 7.9, "duration_s": 10.0, "requests": 6, "tool": "rewrk"}, []),
        ({"rps": 82.0, "target_rate": 100.0, "duration_s": 2.4}, []),
        ({"rps": 82.0, "target_rate": 100.0, "duration_s": 24.0}, [("rate-held", "invalid")]),
        # times that cannot be so, and those that rounding explains
        ({"percentiles": {50: 0.009, 99: 0.005}}, [("order-of-times", "invalid")]),
        ({"percentiles": {99: 0.009}, "max_s": 0.005}, [("order-of-times", "invalid")]),
        ({"percentiles": {50: 0.0, 99: 1.1}, "max_s": 1.06}, []),
        ({"mean_s": 0.060, "max_s": 0.050}, [("order-of-times", "invalid")]),
        ({"mean_s": 0.020, "percentiles": {50: 0.006, 99: 0.009}, "max_s": 0.050}, [("order-of-times", "suspect")]),
        ({"mean_s": 0.002, "percentiles": {50: 0.006, 99: 0.009}}, [("order-of-times", "suspect")]),
        ({"mean_s": 0.002, "percentiles": {50: 0.006, 99: 0.009}, "resolution_s": 0.01}, []),
        ({"mean_s": 0.002, "percentiles": {50: 0.006, 99: 0.009}, "tool": "ab"}, []),  # of other samples
        ({"rps": 9724.0, "connections": 10, "percentiles": {99: 0.001}, "resolution_s": 0.001}, []),
        ({"rps": 9724.0, "connections": 10, "percentiles": {99: 0.001}}, [("littles-law", "invalid")]),
        # connections that could not be opened, errors alone, defects of the tool
        ({"connections": 396, "errors_connect": 155}, [("connect-errors", "invalid")]),
        ({"connections": 396, "errors_connect": 3}, [("connect-errors", "suspect")]),
        ({"connections": 10, "errors_connect": 155}, []),  # tried again
        ({"rps": 0.0, "requests": 1_875_336, "failures": 1_875_336}, [("errors-only", "invalid")]),
        ({"notes": (Note(code="hey-cap", message="hey keeps a million"),)}, [("hey-cap", "suspect")]),
        ({"notes": (Note(code="resolution", message="whole milliseconds"),)}, []),
        # a rate of good answers alone, and a duration in whole seconds
        ({"rps": 100.0, "requests": 1500, "duration_s": 10.0, "statuses": {"2xx": 1000, "4xx": 500}}, []),
        ({"rps": 980.0, "requests": 5000, "duration_s": 5.0, "duration_step_s": 1.0}, []),
        ({"rps": 333.0, "requests": 5000, "duration_s": 5.0, "duration_step_s": 1.0}, [("rate-and-count", "suspect")]),
        # a low rate that is rounded to whole numbers, or tenths
        ({"rps": 3.0, "requests": 10, "duration_s": 3.135}, []),
        ({"rps": 0.1, "requests": 3, "duration_s": 45.0}, []),
        ({"rps": 0.3, "requests": 3, "duration_s": 45.0}, [("rate-and-count", "suspect")]),
        # a number that is rounded to thousands
        ({"rps": 294.1, "requests": 3000, "duration_s": 11.01, "notes": (THOUSANDS,)}, []),
        ({"rps": 194.1, "requests": 3000, "duration_s": 11.01, "notes": (THOUSANDS,)}, [("rate-and-count", "suspect")]),
    ],
)
def test_single_results(fields: dict[str, object], expected: list[tuple[str, str]]) -> None:
    result = PublishedResult.model_validate({"name": "one", **fields})
    assert codes(result, link_bps=1e9) == expected


def rows(*rates: float, **fields: object) -> list[PublishedResult]:
    return [PublishedResult.model_validate({"name": f"s{i}", "rps": rate, **fields}) for i, rate in enumerate(rates)]


def test_a_percentile_that_is_the_mean_in_every_row_was_copied() -> None:
    copied = [PublishedResult(name=str(i), mean_s=i / 1e3, percentiles={50: 0.001, 99: i / 1e3}) for i in range(1, 5)]
    (found,) = findings(*copied)
    assert (found.check, found.severity, len(found.results)) == ("p99-is-mean", "invalid", 4)
    assert "p99 equals the mean in every one of 4 rows" in found.text
    measured = [*copied, PublishedResult(name="5", mean_s=0.001, percentiles={99: 0.002})]
    assert codes(*measured) == []
    assert (
        codes(*(PublishedResult(name=str(i), mean_s=0.001, percentiles={99: 0.001}) for i in range(9))) == []
    )  # rounded
    assert codes(*copied[:2]) == []


def test_rates_over_whole_seconds_are_compared_with_the_distance_of_ranks() -> None:
    fields = {"duration_s": 5.0, "duration_step_s": 1.0}
    near = [rows(rate, requests=rate * 5, **fields)[0] for rate in (10_000, 10_300, 10_600)]
    (found,) = findings(*(each.model_copy(update={"name": str(i)}) for i, each in enumerate(near)))
    assert (found.check, found.severity) == ("whole-seconds", "suspect")
    assert "Half a second more or less is 10.0 %, and 2 of 2 neighbours in rank are closer" in found.text
    measured = [rows(rate, requests=int(rate * 5.1), **fields)[0] for rate in (10_000, 10_300, 10_600)]
    assert codes(*measured) == []
    apart = [rows(rate, requests=rate * 5, **fields)[0] for rate in (10_000, 20_000, 40_000)]
    assert codes(*apart) == []


def test_rows_that_close_their_connections_are_named_where_the_table_keeps_them() -> None:
    kept, closed = rows(100, 200, 400, requests=1000, reconnects=0), rows(800, requests=1000, reconnects=1000)
    (found,) = findings(*kept, closed[0].model_copy(update={"name": "bottle"}))
    assert (found.check, found.results) == ("reconnects", ("bottle",))
    assert codes(*rows(100, 200, 400, requests=1000, reconnects=1000)) == []


def test_streams_that_nothing_states_are_one_finding_of_the_table() -> None:
    multiplexed = [each for rate in (1e4, 2e4, 4e4) for each in rows(rate, connections=10, mean_s=320 / rate)]
    named = [each.model_copy(update={"name": str(i)}) for i, each in enumerate(multiplexed)]
    (found,) = findings(*named)
    assert (found.check, found.severity, len(found.results)) == ("unstated-streams", "suspect", 3)
    assert "with 32 requests in flight for each connection" in found.text
    assert list(run_checks(named, AuditContext(streams=32))[0]) == []


def test_servers_that_share_a_target_rate_have_no_ranks_and_no_plateau() -> None:
    assert codes(*rows(9982, 9983, 9984, 9985, target_rate=10_000), noise=0.05) == []
    assert codes(*rows(9982, 9983, 9984, 9985), noise=0.05) == [("plateau", "suspect"), ("rank-noise", "suspect")]


def test_repetitions_of_two_servers_are_no_plateau() -> None:
    table = "| old | new |\n|-|-|\n| 100 req/s | 90 req/s |\n| 101 req/s | 91 req/s |\n| 102 req/s | 89 req/s |\n"
    assert codes(*read_table(table, "t").results) == []


@pytest.mark.parametrize(
    ("tool", "text", "expected"),
    [
        ("h2load", "$ h2load -n100 -c10 -m 32 https://x\nfinished in 1s", {"streams": 32}),
        ("h2load", "$ h2load -c10 --max-concurrent-streams=8 https://x", {"streams": 8}),
        ("autocannon", '{"connections":40,"pipelining":10}', {"streams": 10}),
        ("autocannon", "10 connections with 4 pipelining factor", {"streams": 4}),
        ("wrk2", "$ wrk -t2 -c100 -d30s -R2000 http://x", {"target_rate": 2000.0, "is_open": True}),
        ("fortio", "Starting at 8 qps with 4 thread(s)", {"target_rate": 8.0, "is_open": True}),
        ("fortio", "Starting at max qps with 4 thread(s)", {}),
        (
            "zrk",
            '{"target_rate": 1000, "rate_ratio": 0.9}',
            {"target_rate": 1000.0, "rate_ratio": 0.9, "is_open": True},
        ),
        ("zrk", '{"closed": true, "streams": 2, "target_rate": 0}', {"streams": 2}),
        ("k6", "dropped_iterations...............: 1203   40.1/s", {"is_open": True}),
        ("k6", '"dropped_iterations": {"count": 12, "rate": 0.4}', {"is_open": True}),
        ("k6", "* a: 50.00 iterations/s for 30s (maxVUs: 50-100)", {"is_open": True}),
        ("k6", "iterations.....................: 13829  115.14656/s", {}),
        ("h2load", "$ h2load -c10 --rps=8 https://x", {"is_open": True}),
        ("oha", "$ oha -z 1m --burst-delay 1s \\\n  --burst-rate 5 http://x", {"is_open": True}),
        ("loadtest", "$ npx loadtest -c 30 --rps 350 http://x", {"target_rate": 350.0, "is_open": True}),
        ("loadtest", "requestsPerSecond: 100,", {"target_rate": 100.0, "is_open": True}),
        ("loadtest", '"requestsPerSecond":0,"rps":61', {}),
        ("wrk", "$ wrk -t2 -c100 http://x", {}),
        ("wrk", "    Req/Sec       -nan      -nan   0.00      0.00%", {"is_open": True}),
    ],
)
def test_what_outputs_say_of_their_load(tool: str, text: str, expected: dict[str, object]) -> None:
    marks = marks_of(tool, text)
    assert {**asdict(marks), **expected} == asdict(marks)
    assert bool(marks.is_open) == ("is_open" in expected)


@pytest.mark.parametrize(
    ("read", "expected"), [(1000, []), (995, []), (50, [("errors", "invalid")]), (3000, [("errors", "invalid")])]
)
def test_read_errors_of_wrk_that_each_answer_has_are_no_failures(read: int, expected: list[tuple[str, str]]) -> None:
    output = LoadResult(tool="wrk", requests=1000, errors=Errors(connect=0, read=read, write=0, timeout=0))
    result = result_of_output("a", output)
    assert codes(result) == expected
    assert result.reconnects == (None if expected else read)


def test_redirects_are_no_failures() -> None:
    moved = LoadResult(tool="oha", requests=100, status={"200": 60, "308": 40}, non_2xx=40, latency=Latency(), failed=0)
    assert codes(result_of_output("a", moved)) == []
    lost = moved.model_copy(update={"status": {"200": 60, "404": 40}})
    assert codes(result_of_output("a", lost)) == [("errors", "invalid")]


def test_connections_of_a_held_rate_are_idle_also_where_the_text_of_the_run_is_not_known() -> None:
    held = LoadResult(
        tool="fortio", rps=100.0, requests=3000, duration_s=30.0, connections=8, latency=Latency(mean_s=0.001)
    )
    assert codes(result_of_output("a", held)) == [("littles-law", "invalid")]
    noted = held.model_copy(update={"notes": (Note(code="target-rate", message="100 calls/s were asked for"),)})
    assert codes(result_of_output("a", noted)) == []
    assert codes(result_of_output("a", held.model_copy(update={"tool": "nighthawk"}))) == []


def test_runs_of_one_target_in_one_text_may_be_repetitions_and_are_no_plateau() -> None:
    outputs = [LoadResult(tool="wrk", target="http://a/", rps=rate) for rate in (1000.0, 1001.0, 1002.0)]
    assert codes(*results_of_outputs("a", outputs, "")) == []
    others = [each.model_copy(update={"target": f"http://a/{each.rps}"}) for each in outputs]
    assert codes(*results_of_outputs("a", others, "")) == [("plateau", "suspect")]


def test_a_document_of_parse_is_a_result() -> None:
    result = LoadResult(tool="oha", rps=5.0)
    assert stated_result(result.model_dump_json()) == result
    assert stated_result('{"tool": "a table", "rows": []}') is None
    assert stated_result("text") is None


def test_ranks_are_compared_with_the_spread_of_repetitions() -> None:
    table = "name,rps\na,100\na,102\na,98\nb,101\nb,99\nb,97\nc,50\nc,51\nc,49\n"
    (found,) = findings(*read_table(table, "t.csv").results)
    assert found.check == "rank-noise"
    assert "1 of 2 neighbours in rank" in found.text
    assert "2 results cannot be told from the first" in found.text


def test_checks_that_lack_their_data_are_skipped_with_the_reason() -> None:
    _, skipped = run_checks(
        [PublishedResult(name=name, rps=rps) for name, rps in (("a", 1.0), ("b", 2.0))], AuditContext()
    )
    reasons = {each.check: each.why for each in skipped}
    assert reasons["rank-noise"] == "each server was measured once, so that the noise is unknown (--noise states it)"
    assert reasons["link"] == "the rate of the link is not known (--link)"
    assert {each.results for each in skipped if each.check == "link"} == {2}


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ("server;req/s;mean (ms)\na;1.234,5;2,5\n", [("a", None, 1234.5, 0.0025)]),
        ("server;req/s;mean (ms)\na;1234,5;2,5\n", [("a", None, 1234.5, 0.0025)]),
        ("name,rps,mean\na,12.5k,250us\n", [("a", None, 12500.0, 0.00025)]),
        ("name,rps,mean\na,1,250\n", [("a", None, 1.0, None)]),  # no unit
        ('[{"framework": "a", "rps": 5, "connections": 64}]', [("a", 64, 5.0, None)]),
        ("Framework,64,256\na,10,20\nb,30,\n", [("a", 64, 10.0, None), ("a", 256, 20.0, None), ("b", 64, 30.0, None)]),
    ],
)
def test_tables(table: str, expected: list[tuple[str, int | None, float, float | None]]) -> None:
    results = read_table(table, "t").results
    assert [(each.name, each.connections, each.rps, each.mean_s) for each in results] == expected


@pytest.mark.parametrize(
    ("heading", "cell", "expected"),
    [
        ("Throughput", "903.77 MB", 903.77e6),
        ("Throughput (MiB/s)", "2", 2.0 * 1024**2),
        ("Transfer/sec", "13.07KB", 13070.0),
        ("transfer rate [B/s]", "5", 5.0),
        ("bytes/s", "1,000,000", 1e6),
        ("Throughput", "5", None),  # of requests, perhaps
    ],
)
def test_rates_of_a_table_in_bytes_are_compared_with_the_link(heading: str, cell: str, expected: float | None) -> None:
    (result,) = read_table(f'name,req/s,{heading}\na,10,"{cell}"\n', "t").results
    assert result.bytes_per_s == expected
    linked = {each.check for each in findings(result, link_bps=1.0)}
    assert ("link" in linked) == (expected is not None)


def test_a_published_table_contradicts_itself() -> None:
    """The results of the-benchmarker/web-frameworks of 2026-02-11: 333 frameworks at three numbers of connections."""
    table = AUDITS / "web-frameworks" / "2026-02-11.csv"
    results = read_table(table.read_text(), table.name).results
    found = findings(*results, noise=0.03)
    by_check = Counter(each.check for each in found)
    assert by_check == {"rank-noise": 3, "littles-law": 88}
    for finding in found:
        if finding.check == "littles-law":
            (result,) = [each for each in results if each.label == finding.results[0]]
            assert result.rps is not None
            assert result.connections is not None
            assert result.connections / result.rps > result.percentiles[99.0]
    assert {each.check for each in findings(*results, noise=0.03, is_rate_held=True)} == {"rank-noise"}


@pytest.mark.parametrize(("text", "message"), [("nothing", "nor a table"), ("a,b\n1,2\n", "no column .* is a rate")])
def test_other_text_is_an_error(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_table(text, "t")


def test_json_results_have_their_own_names() -> None:
    document = json.dumps({"results": [{"framework": "a", "requests per second": "1,000"}]})
    assert [(each.name, each.rps) for each in read_table(document, "t").results] == [("a", 1000.0)]


def test_tools_that_may_hold_a_rate_without_printing_it_are_suspect_of_idle_connections() -> None:
    result = PublishedResult(name="a", tool="wrk", rps=1000, connections=100, mean_s=0.01, duration_s=30)
    assert codes(result) == [("littles-law", "invalid")]
    for tool in ("bombardier", "hey", "oha"):
        assert codes(result.model_copy(update={"tool": tool})) == [("littles-law", "suspect")]


def test_bombardiers_rate_is_held_by_its_count() -> None:
    command = "docker run alpine/bombardier -c 50 -d 100s \\\n  --rate 50 http://a/\n"
    assert marks_of("bombardier", command).target_rate == 50
    held = {"name": "a", "tool": "bombardier", "target_rate": 50.0, "rps": 49.4, "requests": 5000, "duration_s": 100.0}
    assert codes(PublishedResult.model_validate(held)) == []
