from __future__ import annotations

import json

import pytest

from benchkit.errors import InputError, ParseError
from benchkit.plugins.foreign.published_columns import column_of
from benchkit.plugins.foreign.published_numbers import (
    decimal_of,
    parse_digits,
    plain,
    read_number,
    read_rate,
    read_time,
)
from benchkit.plugins.foreign.table_results import read_table

NARROW = "\u202f"


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("6 404", 6404.0),
        (f"14{NARROW}946", 14946.0),
        ("1\u00a0234\u00a0567", 1234567.0),
        ("1'234.5", 1234.5),
        ("6,404", 6404.0),
        ("1.234.567", 1234567.0),
        ("1.234,5", 1234.5),
        ("1,234.5", 1234.5),
        ("2,5", 2.5),
        ("12.5k", 12500.0),
        ("1.2 M", 1.2e6),
        ("2.4万", 24000.0),
        ("8.5w", 85000.0),
        ("**97,400** 🥇", 97400.0),
        ("12&nbsp;345", 12345.0),
        ("~8.6k", 8600.0),
        ("12,345 (±2 %)", 12345.0),
        ("12345 ± 120", 12345.0),
        ("1.9e-05", 1.9e-05),
        ("1,2,3", None),
        ("12.34.5", None),
        ("-1.0", None),
        ("100%", None),
        ("v1.2", None),
        ("10 20", None),
    ],
)
def test_numbers(cell: str, expected: float | None) -> None:
    assert read_number(plain(cell)) == expected


def test_a_separator_that_can_be_either_is_read_as_the_rest_of_the_table() -> None:
    assert decimal_of(["1.234", "2,5", "0,31"]) == ","
    assert decimal_of(["1.234", "2.5"]) == "."
    assert decimal_of(["1.234"]) == "."
    assert read_table("|server|Anfragen/s|\n|---|---|\n|a|12.345|\n|b|987|\n", "t").results[0].rps == 12345.0
    assert read_table("|server|req/s|\n|---|---|\n|a|12.345|\n|b|9.871|\n", "t").results[0].rps == 12.345
    assert parse_digits("1.234", ",") == 1234.0
    assert parse_digits("1.234", ".") == 1.234
    assert parse_digits("1,234", ".") == 1234.0


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("Requests/sec: 23987.6205", 23987.6205),
        ("6 404 req/s", 6404.0),
        ("about 12.5k requests per second on c=64", 12500.0),
        ("QPS\uff1a2.4万", 24000.0),
        ("1200 → 1500 req/s", 1500.0),
        ("1200 req/s, then 1500 req/s", None),
        ("6404", None),
        ("6404 requests", None),
    ],
)
def test_rates_beside_other_text(cell: str, expected: float | None) -> None:
    assert read_rate(plain(cell)) == expected


@pytest.mark.parametrize(
    ("cell", "scale", "expected"),
    [
        ("250 µs", None, 250e-6),
        ("1.2 ms (±3 %)", None, 1.2e-3),
        ("2m30s", None, 150.0),
        ("5", 1e-3, 5e-3),
        ("5", None, None),
        ("17 毫秒", None, 17e-3),
        ("1,07 s", None, 1.07),
        ("8.16ms", 1.0, 8.16e-3),
        ("5 apples", 1.0, None),
    ],
)
def test_times(cell: str, scale: float | None, expected: float | None) -> None:
    read = read_time(plain(cell), scale)
    assert read == (None if expected is None else pytest.approx(expected))


@pytest.mark.parametrize(
    ("head", "field", "scale"),
    [
        ("Requests/sec", "rps", None),
        ("**Throughput (req/s)** ⬆", "rps", None),
        ("RPS (higher is better)", "rps", None),
        ("Avg RPS", "rps", None),
        ("吞吐量", "rps", None),
        ("平均每秒请求数", "rps", None),
        ("Max RPS", None, None),
        ("Minimum RPS", None, None),
        ("Error %", "failure_share", 0.01),
        ("err_pct", "failure_share", 0.01),
        ("错误率", "failure_share", None),
        ("Success rate (%)", "success_share", 0.01),
        ("Errs", "failures", None),
        ("平均レスポンス", "mean_s", None),
        ("Req/s stdev", None, None),
        ("achieved_rate", "rps", None),
        ("target_rate", "target_rate", None),
        ("rate_ratio", "rate_ratio", None),
        ("avg_latency", "mean_s", None),
        ("Latency avg (ms)", "mean_s", 1e-3),
        ("平均延迟(ms)", "mean_s", 1e-3),
        ("Mean response time [µs]", "mean_s", 1e-6),
        ("latency_us p50", "p50", 1e-6),
        ("p99_latency", "p99", None),
        ("p99_9_latency", "p99.9", None),
        ("99th percentile (ms)", "p99", 1e-3),
        ("percentile99999 (s)", "p99.999", 1.0),
        ("Latency P99.9, ms", "p99.9", 1e-3),
        ("95%", "p95", None),
        ("Max latency", "max_s", None),
        ("Latency stdev", None, None),
        ("并发数", "connections", None),
        ("Virtual Users", "connections", None),
        ("pipeline", "streams", None),
        ("status_4xx", "status_4xx", None),
        ("reconnects", "reconnects", None),
        ("socket_read_errors", "errors_part_read", None),
        ("duration", "duration_s", None),
        ("cpu", None, None),
        ("memory", None, None),
        ("language", None, None),
    ],
)
def test_headings(head: str, field: str | None, scale: float | None) -> None:
    column = column_of(head, [])
    assert (column and column.field, column and column.scale) == (field, scale)


def rates(text: str) -> list[tuple[str, str | None, int | None, float | None]]:
    return [(each.name, each.test, each.repetition, each.rps) for each in read_table(text, "t").results]


def test_a_table_without_outer_bars_between_other_text() -> None:
    text = "# Results\n\nMeasured with wrk.\n\nserver | **req/s** | p99\n:-- | --: | --:\nnginx | 6 404 | 1.0 ms\ncaddy | 5 120 | 2.0 ms\n\nThe end | of it.\n"
    (nginx, caddy) = read_table(text, "README.md").results
    assert (nginx.name, nginx.rps, nginx.percentiles) == ("nginx", 6404.0, {99.0: 0.001})
    assert (caddy.name, caddy.rps) == ("caddy", 5120.0)


def test_drawn_tables_and_several_tables_of_one_text() -> None:
    drawn = "┌────────┬───────┐\n│ server │ req/s │\n├────────┼───────┤\n│ nginx  │ 6,404 │\n└────────┴───────┘\n"
    assert rates(drawn) == [("nginx", None, None, 6404.0)]
    assert rates("Server | req/s\n----------------\nnginx  | 6,404\n") == [("nginx", None, None, 6404.0)]
    bordered = "+---+-----+\n| a | rps |\n+---+-----+\n| b | 5   |\n+---+-----+\n"
    assert rates(bordered) == [("b", None, None, 5.0)]
    text = "## GET\n|s|rps|\n|-|-|\n|a|1|\n\n## POST\n|s|rps|\n|-|-|\n|a|2|\n\n## Sizes\n|s|MB|\n|-|-|\n|a|3|\n"
    assert rates(text) == [("a", "GET", None, 1.0), ("a", "POST", None, 2.0)]


def test_repetitions_as_columns_and_as_rows() -> None:
    columns = "| server | Run 1 | Run 2 | Avg RPS |\n|-|-|-|-|\n| a | 10 | 12 | 11 |\n| b | 20 | 22 | 21 |\n"
    assert rates(columns) == [("a", None, 1, 10.0), ("a", None, 2, 12.0), ("b", None, 1, 20.0), ("b", None, 2, 22.0)]
    rows = "| # | old | new |\n|-|-|-|\n| 1 | 10 req/s | 12 req/s |\n| 2 | 11 req/s | 13 req/s |\n"
    assert rates(rows) == [
        ("old", None, 1, 10.0),
        ("new", None, 1, 12.0),
        ("old", None, 2, 11.0),
        ("new", None, 2, 13.0),
    ]
    conditions = "| load | old | new |\n|-|-|-|\n| GET | 10 req/s | 12 req/s |\n| POST | 11 req/s | 13 req/s |\n"
    assert rates(conditions)[:2] == [("old", "GET", None, 10.0), ("new", "GET", None, 12.0)]
    united = "server,Run 1 (requests/s),Run 2 (requests/s)\na,10,12\n"
    assert rates(united) == [("a", None, 1, 10.0), ("a", None, 2, 12.0)]
    times = "| server | Run 1 | Run 2 |\n|-|-|-|\n| a | 10 | 12 |\n"
    with pytest.raises(InputError, match="no column of the table is a rate"):
        read_table(times, "t")


def test_figures_as_rows_and_servers_as_columns() -> None:
    turned = (
        "| 指标 | stdx | Tang | 差异 |\n|-|-|-|-|\n| **吞吐量 RPS** | **122,157** | 121,148 | ↓ 0.8% |\n"
        "| 总请求数 | 36.6M | 36.3M | -0.8% |\n| 平均延迟 | 5.1ms | 5.26ms | ↑ 3% |\n"
    )
    stdx, tang = read_table(turned, "t").results
    assert (stdx.name, stdx.rps, stdx.requests) == ("stdx", 122157.0, 36_600_000)
    assert stdx.mean_s == pytest.approx(0.0051)
    assert (tang.name, tang.rps) == ("Tang", 121148.0)
    one = "Results:\n\n| Param | Value |\n|-|-|\n| Framework | {} |\n| Requests/sec | {} |\n| Latency (Avg.) | 1.11s |\n\n"
    assert rates(one.format("kemal", 213) + one.format("sinatra", 69)) == [
        ("kemal", None, None, 213.0),
        ("sinatra", None, None, 69.0),
    ]


def test_names_under_an_empty_heading_and_the_load_in_the_text_above() -> None:
    assert rates("| | Version | Requests/sec |\n|-|-|-|\n| hyper | 1.4.0 | 54,852.57 |\n")[0][0] == "hyper"
    table = "\n\n| s | rps |\n|-|-|\n| a | 10 |\n"
    loads = {
        "Command: `bombardier -c 250 -n 1000 http://localhost:8080`": (250, False),
        "hey -c 8 http://x, then hey -c 64 http://x": (None, False),
        "Run by `wrk2 -c 100 -R 500 http://x`": (100, True),
        "Measured with k6.": (None, True),
        "Nothing is said of the load.": (None, False),
    }
    for text, expected in loads.items():
        (result,) = read_table(text + table, "t").results
        assert (result.connections, result.is_open) == expected, text


def test_several_columns_of_rates_are_servers_or_tests() -> None:
    servers = "| connections | nginx (req/s) | Go, req/s |\n|-|-|-|\n| 8 | 10 | 12 |\n| 64 | 20 | 22 |\n"
    results = read_table(servers, "t").results
    assert [(each.name, each.connections, each.rps) for each in results] == [
        ("nginx", 8, 10.0),
        ("Go", 8, 12.0),
        ("nginx", 64, 20.0),
        ("Go", 64, 22.0),
    ]
    tests = "| framework | GET req/s | POST req/s |\n|-|-|-|\n| gin | 10 | 5 |\n| echo | 12 | 6 |\n"
    assert rates(tests)[:2] == [("gin", "GET", None, 10.0), ("gin", "POST", None, 5.0)]
    assert rates("server,requests,duration\na,1000,4 s\n") == [("a", None, None, 250.0)]


def test_json_by_test_by_server_and_nested() -> None:
    row = {
        "framework": "actix",
        "rps": 9982,
        "avg_latency": "73.9us",
        "p99_9_latency": "363.0us",
        "pipeline": 16,
        "duration": "5s",
    }
    row |= {"connections": 1024, "status_2xx": 40, "status_4xx": 9, "target_rate": 10000, "rate_ratio": 0.9982}
    by_framework = {"framework": "actix", "results": {"latency-1024": row, "json-h2-1024": row | {"rps": 5}}}
    first, second = read_table(json.dumps(by_framework), "actix.json").results
    assert (first.name, first.test, first.rps, first.target_rate) == ("actix", "latency-1024", 9982.0, 10000.0)
    assert first.mean_s == pytest.approx(73.9e-6)
    assert first.percentiles == {99.9: pytest.approx(363e-6)}
    assert (first.streams, first.requests, first.failures, first.duration_step_s) == (16, 49, 9, 1.0)
    assert (first.is_multiplexed, second.is_multiplexed) == (False, True)
    by_profile = {"json-1024": [row], "upload-32": [row, row | {"framework": "axum"}]}
    assert [x[:2] for x in rates(json.dumps(by_profile))] == [
        ("actix", "json-1024"),
        ("actix", "upload-32"),
        ("axum", "upload-32"),
    ]
    by_test = {"meta": {"connections": 64}, "results": {"json": {"gin": {"rps": 1}}, "fortunes": {"gin": {"rps": 2}}}}
    named = [(each.name, each.test, each.connections) for each in read_table(json.dumps(by_test), "t").results]
    assert named == [("gin", "json", 64), ("gin", "fortunes", 64)]
    lines = '{"server": "a", "rps": 1}\n{"server": "b", "rps": 2}\n'
    assert [(each.name, each.rps) for each in read_table(lines, "t").results] == [("a", 1), ("b", 2)]
    by_server = {"express": {"rps": 1, "latency": {"p99": "2 ms"}}, "fastify": {"rps": 2, "latency": {"p99": "1 ms"}}}
    results = read_table(json.dumps(by_server), "t").results
    assert [(each.name, each.rps, each.percentiles[99.0]) for each in results] == [
        ("express", 1, 0.002),
        ("fastify", 2, 0.001),
    ]


def related(p50: float, duration_ms: float) -> str:
    values = {"percentile50": p50, "duration_ms": duration_ms, "total_requests_per_s": 1000.0, "average_latency": -1.0}
    values |= {"total_bytes_received": 0.0, "http_errors": 3, "request_timeouts": 2, "total_requests": 15000}
    metrics = [{"level": 64, "label": label, "value": value, "framework_id": 7} for label, value in values.items()]
    return json.dumps({"metrics": metrics, "frameworks": [{"id": 7, "label": "agoo-c", "language": "c"}]})


@pytest.mark.parametrize(("p50", "duration_ms"), [(0.0179, 15000.0), (17900.0, 15000000.0)])
def test_related_lists_in_seconds_and_in_microseconds(p50: float, duration_ms: float) -> None:
    (result,) = read_table(related(p50, duration_ms), "data.min.json").results
    assert (result.name, result.connections, result.rps, result.requests) == ("agoo-c (c)", 64, 1000.0, 15000)
    assert result.percentiles == {50.0: pytest.approx(0.0179)}
    assert (result.mean_s, result.bytes_per_s, result.failures, result.duration_s) == (None, None, 5, 15.0)


@pytest.mark.parametrize("text", ["", "nothing", "[]", "{}", '{"a": 1}', "| a | b |\n|---|---|\n", "a|b\n-|-\n1|2\n"])
def test_nothing_read_is_an_error(text: str) -> None:
    with pytest.raises(InputError):
        read_table(text, "t")


def test_headings_that_are_connections() -> None:
    text = (
        "| CPU limit | 1 connection | 1 000 connections |\n|---|---|---|\n| 100m | 1 814 req/s | 1 221 req/s |\n"
        "| 1 000m | 8 688 req/s | **16 051 req/s — OOMKilled** |\n"
    )
    results = read_table(text, "here").results
    assert [(each.name, each.connections, each.rps) for each in results] == [
        ("100m", 1, 1814.0),
        ("100m", 1000, 1221.0),
        ("1 000m", 1, 8688.0),
        ("1 000m", 1000, 16051.0),
    ]


def test_shares_sizes_and_constant_words_are_no_names() -> None:
    text = "| Test | Conn | RPS | CPU | Mem | Δ RPS |\n|--|--|--|--|--|--|\n| h3 | 64 | 1,429 | 5.2% | 288MiB | NEW |\n| static | 64 | 1,159 | 0.0% | 290MiB | NEW |\n"
    assert [(each.name, each.test) for each in read_table(text, "here").results] == [("h3", None), ("static", None)]


@pytest.mark.parametrize(
    ("head", "cell", "expected"),
    [
        ("kRPS", "120", 120e3),
        ("RPS (K)", "120", 120e3),
        ("Throughput (k req/s)", "1.5", 1500.0),
        ("Throughput (k req/s)", "1.5M", 1.5e6),
        ("Requests/sec (millions)", "1.2", 1.2e6),
        ("Thousands of requests per second", "120", 120e3),
        ("QPS (万)", "2.4", 24e3),
        ("Target rate (req/s)", "120", 120.0),
        ("Requests/s", "120", 120.0),
    ],
)
def test_a_heading_may_name_the_scale_of_its_rates(head: str, cell: str, expected: float) -> None:
    column = column_of(head, [])
    assert column is not None
    assert column.read(cell, ".") == pytest.approx(expected)


def test_a_rate_per_core_is_none_and_one_without_a_server_may_have_been_held() -> None:
    text = "|server|req/s per core|k req/s|\n|-|-|-|\n|a|300|1.2|\n|b|150|0.6|\n"
    assert rates(text) == [("a", None, None, 1200.0), ("b", None, None, 600.0)]
    results = read_table("|Rate (req/s)|p99|conns|\n|-|-|-|\n|1000|3ms|100|\n|5000|9ms|100|\n", "t").results
    assert [(each.rps, each.is_open) for each in results] == [(1000.0, True), (5000.0, True)]


def test_a_mean_of_rates_is_no_latency() -> None:
    assert column_of("Mean requests per second", []) == column_of("Requests per second [#/sec] (mean)", [])
    assert (column := column_of("Avg req/s", [])) is not None
    assert column.field == "rps"


def test_json_by_server_and_connections() -> None:
    text = json.dumps(
        {"date": "2026-01-01", "frameworks": {name: {"64": {"rps": 9.5}, "256": {"rps": 11.5}} for name in "ab"}}
    )
    assert [(each.name, each.test) for each in read_table(text, "here").results] == [
        ("a", "64"),
        ("a", "256"),
        ("b", "64"),
        ("b", "256"),
    ]


def test_rows_and_columns_that_sum_up_repetitions_are_no_repetitions() -> None:
    rows = "| Run | a | b |\n|-|-|-|\n| 1 | 100 req/s | 120 req/s |\n| 2 | 101 req/s | 121 req/s |\n| avg | 100.5 req/s | 120.5 req/s |\n"
    assert [each.rps for each in read_table(rows, "t.md").results] == [100, 120, 101, 121]
    servers = "| Server | RPS |\n|-|-|\n| a | 100 |\n| b | 120 |\n| **Average** | 110 |\n"
    assert [each.name for each in read_table(servers, "t.md").results] == ["a", "b"]
    of_wrk = (
        "| Stats | Avg | Stdev | Max |\n|-|-|-|-|\n| Latency | 1.2ms | 0.3ms | 9ms |\n| Req/Sec | 2.5k | 1k | 2.7k |\n"
    )
    assert [(each.name, each.rps) for each in read_table(of_wrk, "t.md").results] == [("Avg", 2500)]
    below = "Server | Run 1 | Run 2 | Average\n--|--|--|--\na | 100 | 102 | 101\n\n(requests per second)\n"
    assert [(each.rps, each.repetition) for each in read_table(below, "t.md").results] == [(100, 1), (102, 2)]


def test_a_figure_in_brackets_behind_a_rate_is_named_as_not_read() -> None:
    cells = "| Server | Result |\n|-|-|\n| a | 12,345 req/s (99 %) |\n| b | 9,876 req/s (80 %) |\n"
    table = read_table(cells, "t.md")
    assert [each.rps for each in table.results] == [12345, 9876]
    assert table.unused == ["Result (in brackets)"]


@pytest.mark.parametrize("text", ["1,2,45678,99\n3,4,5678,88\n", "20170712,28,OK,200\n20170713,29,OK,200\n"])
def test_a_file_without_headings_is_no_table(text: str) -> None:
    with pytest.raises(InputError, match="no column of the table is a rate"):
        read_table(text, "t.csv")


@pytest.mark.parametrize("head", ["每秒请求", "请求数/秒", "请求速率", "TPS"])
def test_rates_and_ranks_in_chinese_tables(head: str) -> None:
    (row,) = read_table(
        f"框架 | {head} | 并发用户 | TP99(ms) | 90分位\n-|-|-|-|-\ngin | 4.5万 | 100 | 12 | 8ms\n", "t.md"
    ).results
    assert (row.name, row.rps, row.connections, row.percentiles) == ("gin", 45000, 100, {99: 0.012, 90: 0.008})


def test_a_lone_quotation_mark_before_a_long_text_is_refused() -> None:
    with pytest.raises(ParseError, match="this CSV cannot be read"):
        read_table('name,req/s\n"a,100\n' + "b,200\n" * 30_000, "t.csv")


def test_a_label_stands_for_the_rows_below_it() -> None:
    groups = "| Query | Server | req/s |\n|-|-|-|\n| 1 | `{ posts }` |\n|| [A] | `30` |\n|| [B][1] | `20+` |\n| 2 | `{ users }` |\n|| [A] | `10` |\n"
    results = read_table(groups, "t.md").results
    assert [(each.name, each.test, each.rps) for each in results] == [("A", "1", 30), ("B", "1", 20), ("A", "2", 10)]


MARKUP = {
    "HTML": "<h3>At 64 connections</h3>\n<table><thead><tr><th>Server</th><th>Requests/sec</th><th>p99</th></tr></thead>\n"
    "<tr><td><b>a</b></td><td>125&nbsp;000</td>\n<td>2.1ms</td></tr><tr><td>b</td><td>98,000</td><td>1.9 ms</td></tr></table>",
    "AsciiDoc": '.At 64 connections\n[options="header",cols="1,>1,>1"]\n|===\n| Server | Requests/s | p99 (ms)\n\n'
    "| a | 125000 | 2.1\n| b | 98000 | 1.9\n|===",
    "AsciiDoc by lines": "# At 64 connections\n\n|===\n|Server |Requests/s |p99\n\n|a\n|125000\n|2.1 ms\n\n|b\n|98000\n|1.9 ms\n|===\n",
    "list-table": ".. list-table:: At 64 connections\n   :header-rows: 1\n\n   * - Server\n     - Req/s\n     - p99 (ms)\n"
    "   * - a\n     - 125,000\n     - 2.1\n   * - b\n     - 98,000\n     - 1.9\n",
    "simple table": "# At 64 connections\n\n====== ======= ========\nServer Req/s   p99 (ms)\n====== ======= ========\na      125,000 2.1\n"
    "b      98,000  1.9\nc      \\-      \\-\n====== ======= ========\n",
    "columns": "# At 64 connections\n\nserver      req/s   p99(ms)\na          125000       2.1\nb           98000       1.9\n",
}


@pytest.mark.parametrize("text", MARKUP.values(), ids=MARKUP)
def test_tables_of_other_markup(text: str) -> None:
    results = read_table(text, "t").results
    assert [(each.name, each.rps, each.connections) for each in results] == [("a", 125_000, 64), ("b", 98_000, 64)]
    assert [each.percentiles[99] for each in results] == pytest.approx([0.0021, 0.0019])


def test_html_cells_over_several_rows_and_columns() -> None:
    text = (
        '<table><tr><th rowspan="2">Server</th><th colspan=2>req/s</th></tr><tr><th>c=64</th><th>c=256</th></tr>'
        "<tr><td>a</td><td>90</td><td>95</td></tr></table>"
        "<h2>By size</h2><table><tr><th>Test</th><th>Server</th><th>req/s</th></tr>"
        '<tr><td rowspan="2">1 KB</td><td>a</td><td>9</td></tr><tr><td>b</td><td>5</td></tr></table>'
    )
    assert [(each.name, each.test, each.connections, each.rps) for each in read_table(text, "t").results] == [
        ("a", "table 1", 64, 90),
        ("a", "table 1", 256, 95),
        ("a", "1 KB", None, 9),
        ("b", "1 KB", None, 5),
    ]


def test_lines_of_a_program_are_no_columns() -> None:
    text = "limit_req_zone  $remote   zone=a:10m   rate=1r/s;\nlimit_req_zone  $server   zone=b:10m   rate=10r/s;\n"
    with pytest.raises(InputError, match="nor a table"):
        read_table(text, "nginx.conf")


@pytest.mark.parametrize(
    ("head", "field"),
    [
        ("Запросов в секунду", "rps"),
        ("Среднее время запроса", "mean_s"),
        ("Медиана времени ответа", "p50"),
        ("99-й перцентиль", "p99"),
        ("95e percentile", "p95"),
        ("Requêtes par seconde", "rps"),
        ("Solicitudes por segundo", "rps"),
        ("Richieste al secondo", "rps"),
        ("Tiempo medio de respuesta (ms)", "mean_s"),
        ("リクエスト数/秒", "rps"),
        ("平均レイテンシ", "mean_s"),
        ("同時接続数", "connections"),
        ("Échecs", "failures"),
        ("errori", "failures"),
        ("socket_errors", "errors_part_socket"),
        ("non2xx_responses", "errors_part_http"),
        ("Worst latency", "max_s"),
        ("Tail (p99.9)", "p99.9"),
        ("95th %ile", "p95"),
        ("p(95) (ms)", "p95"),
        ("http_req_duration p(99.9)", None),
        ("99%タイル", "p99"),
        ("평균 응답시간 (ms)", "mean_s"),
        ("Throughput (Mbps)", None),
        ("Throughput (msg/s)", None),
    ],
)
def test_headings_of_other_languages_and_tools(head: str, field: str | None) -> None:
    column = column_of(head, [])
    assert (column and column.field) == field


def test_of_several_columns_of_a_figure_one_is_read_and_the_others_are_named() -> None:
    wrk = "| Server | Total Requests/s | Req/s Avg | p99 |\n|-|-|-|-|\n| a | 105832.7 | 110.97k | 2 ms |\n"
    table = read_table(wrk, "t.md")
    assert [each.rps for each in table.results] == [105832.7]
    assert table.unused == ["Req/s Avg"]
    explicit = "| Server | Throughput | Requests/s | p50 | p95 |\n|-|-|-|-|-|\n| a | 800 | 12000 | 5 | <9 ms |\n"
    table = read_table(explicit, "t.md")
    assert [each.rps for each in table.results] == [12000]
    assert table.unused == ["Throughput", "p50", "p95"]  # without a unit, and no number
    rows = read_table("| s | req/s |\n|-|-|\n| a | 100 |\n| b | 150-200 |\n| c | n/a |\n", "t.md")
    assert (len(rows.results), rows.unused) == (1, ["req/s of b: 150-200"])
    with pytest.raises(InputError, match="no cell of 'QPS' is a rate: one is '150-200'"):
        read_table("| s | QPS |\n|-|-|\n| a | 150-200 |\n", "t.md")


def test_an_average_number_of_requests_is_a_rate_and_a_rate_beside_the_achieved_one_a_target() -> None:
    averages = '[{"name": "a", "requests": "54500.8", "latency": "17.87", "throughput": "9.72"}]'
    assert [each.rps for each in read_table(averages, "t.json").results] == [54500.8]
    (held,) = read_table(
        "framework,rps,p50_ms,p99,err_pct,achieved_rps\na,1000,900.1,9900,3.1,412.2\n", "t.csv"
    ).results
    assert (held.rps, held.target_rate, held.percentiles) == (412.2, 1000.0, {50: 0.9001, 99: 9.9})
    assert held.failure_share == pytest.approx(0.031)
    cells = "| s | req/s | Success rate | Timeouts |\n|-|-|-|-|\n| a | 9 | 99% | 7 timeouts |\n| b | 9 | 1 | 0 |\n"
    first, second = read_table(cells, "t.md").results
    assert first.failure_share == pytest.approx(0.01)
    assert (first.failures, second.failure_share, second.failures) == (7, None, 0)


def test_a_remark_a_time_and_a_footnote_are_no_names() -> None:
    remark = "| 并发数 | QPS | P99 | 状态 |\n|-|-|-|-|\n| 50 VU | 235 | 40ms | ✅ 通过 |\n| 200 VU | 944 | 50ms | ✅ 扩展 |\n"
    results = read_table(remark, "t.md").results
    assert [(each.name, each.connections, each.is_open) for each in results] == [
        ("row 1", 50, True),
        ("row 2", 200, True),
    ]
    assert read_table('{"time": "38.44ms", "req_per_sec": "5"}', "t.json").results[0].name == "row 1"
    notes = "| Framework/Library | req/s |\n|-|-|\n| a[^1] | 130,000¹ |\n| BbCc<sup>2</sup> | 5† |\n"
    assert rates(notes) == [("a", None, None, 130_000), ("BbCc", None, None, 5)]
    assert rates("| Test | PhpA | ExtB |\n|-|-|-|\n| x | 5 RPS | 6 RPS |\n")[0][0] == "PhpA"


def test_rows_of_one_server_under_other_conditions_are_no_repetitions() -> None:
    stages = "| | server | req/s |\n|-|-|-|\n| hello | a | 9 |\n| hello | b | 8 |\n| json | a | 5 |\n| json | b | 4 |\n"
    assert [each[:2] for each in rates(stages)] == [("a", "hello"), ("b", "hello"), ("a", "json"), ("b", "json")]
    levels = "date,framework,test,level,run,rps\n1,a,json,16,1,9\n2,a,json,16,2,9\n3,a,json,64,1,8\n"
    assert [each[:2] for each in rates(levels)] == [("a", "json, level 16")] * 2 + [("a", "json, level 64")]
    same = "## Old\n|Route|s|rps|\n|-|-|-|\n|/|a|1|\n|/|b|2|\n\n## New\n|Route|s|rps|\n|-|-|-|\n|/|a|3|\n|/|b|4|\n"
    assert [each[1] for each in rates(same)] == ["Old, /", "Old, /", "New, /", "New, /"]


def test_a_table_whose_first_heading_is_missing() -> None:
    text = (
        "|Average(seconds) |Requests/sec |\n| --- | --- |\n| Flask |\t0.0275 |\t1809.8\n| Robyn |\t0.0091 |\t5457.2\n"
    )
    assert [(each.name, each.rps, each.mean_s) for each in read_table(text, "t.md").results] == [
        ("Flask", 1809.8, 0.0275),
        ("Robyn", 5457.2, 0.0091),
    ]


def test_connections_as_columns_of_several_figures() -> None:
    text = "| Metric | 64 | 256 |\n|-|-|-|\n| req/s | 51,200 | 60,100 |\n| p99 | 3.3 ms | 9.1 ms |\n"
    assert [(each.connections, each.rps, each.percentiles) for each in read_table(text, "t").results] == [
        (64, 51_200, {99: 0.0033}),
        (256, 60_100, {99: 0.0091}),
    ]
    mixed = "| Server | C = 1 | C = 8 |\n|-|-|-|\n| Rust | 14 507 | 86 699 |\n| p50 (ms) | 0.07 | 0.41 |\n"
    with pytest.raises(InputError):  # its rows are rates and times
        read_table(mixed, "t")


def test_units_and_connections_in_the_text_above() -> None:
    table = "\n\n| Server | RPS | p99 |\n|-|-|-|\n| a | 672 | 0.25 |\n"
    (result,) = read_table("Latency values are in seconds.\n\n12 threads, 400 connections, 30s" + table, "t").results
    assert (result.percentiles, result.connections) == ({99: 0.25}, 400)
    assert result.resolution_s == pytest.approx(0.01)
    (result,) = read_table("**`/a` at 200 connections**" + table, "t").results
    assert (result.percentiles, result.connections) == ({}, 200)
    stated = "Measured in req/s:\n\n| Server | Average | Ping | Body | Size |\n|-|-|-|-|-|\n| a | 5 | 6 | 4 | 2 KB |\n"
    assert rates(stated) == [("a", "Ping", None, 6.0), ("a", "Body", None, 4.0)]
    named = read_table("| Server | RPS |\n|-|-|\n| a [GET] (c64) | 672 |\n| a [GET] (c128) | 600 |\n", "t").results
    assert [each.connections for each in named] == [64, 128]
    (single,) = read_table("### Run 7\n\n| Metric | Value |\n|-|-|\n| Requests/s | 5 |\n", "t").results
    assert single.name == "Run 7"


def test_about_as_much_to_three_decimals_is_thousands() -> None:
    assert [each[3] for each in rates("| s | req/s |\n|-|-|\n| a | ~5.200 |\n| b | ~4.850 |\n")] == [5200, 4850]


def test_json_with_options_beside_its_results() -> None:
    text = '[{"opts": {"rate": 9000, "connections": 200}, "result": {"requestsPerSec": 8989.84, "latencyAvg": "2.4ms", "rpsAvg": "2.3k"}}]'
    (result,) = read_table(text, "t").results
    assert (result.rps, result.target_rate, result.connections, result.mean_s) == (8989.84, 9000, 200, 0.0024)


def test_results_of_techempower() -> None:
    run = {"latencyAvg": "2.0ms", "latencyMax": "40ms", "totalRequests": 3_800_000, "5xx": 12}
    document = {
        "concurrencyLevels": [16, 512],
        "pipelineConcurrencyLevels": [256],
        "queryIntervals": [1, 20],
        "duration": "15",
        "rawData": {
            "json": {"gin": [{}, run]},
            "plaintext": {"gin": [run]},
            "query": {"gin": [run, run]},
            "slocCounts": {"gin": 9},
        },
    }
    results = read_table(json.dumps(document), "results.json").results
    assert [(each.name, each.test, each.connections, each.mean_s) for each in results] == [
        ("gin", "json", 512, 0.002),
        ("gin", "plaintext", 256, None),  # timed by batches of pipelined requests
        ("gin", "query 1", 512, 0.002),
        ("gin", "query 20", 512, 0.002),
    ]
    assert (results[0].requests, results[0].duration_s, results[0].failures) == (3_800_000, 15, 12)
    assert results[0].rps == pytest.approx(3_800_000 / 15)
