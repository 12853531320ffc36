from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from benchkit.errors import InputError, ParseError
from benchkit.plugins.foreign.imported import ImportedCell, OutputFile, read_cell
from benchkit.plugins.foreign.imported_tables import FORMAT, cells_of_table, is_table
from tests.support.paths import TESTS

AT = datetime(2026, 1, 31, tzinfo=UTC)


def cells(text: str, **load: object) -> tuple[list[ImportedCell], bool]:
    return cells_of_table(OutputFile("table.md", text.encode(), AT), {"version": 1}, load)


def rates(found: list[ImportedCell]) -> dict[str, list[float | None]]:
    return {cell.cell_id: [result.rps for result in cell.results] for cell in found}


def test_each_server_test_and_number_of_connections_is_a_cell() -> None:
    text = (
        "server,test,connections,rps,mean\na (x),get,8,10,1ms\na (x),get,64,20,2ms\nb,get,8,30,1ms\nb,post,8,40,1ms\n"
    )
    found, is_paired = cells(text)
    assert rates(found) == {
        "server=a-x,test=get,connections=8,version=1": [10.0],
        "server=a-x,test=get,connections=64,version=1": [20.0],
        "server=b,test=get,connections=8,version=1": [30.0],
        "server=b,test=post,connections=8,version=1": [40.0],
    }
    assert not is_paired
    assert [cell.load.connections for cell in found] == [8, 64, 8, 8]
    assert "The table calls it 'a (x)'." in found[0].note
    assert found[0].results[0].latency.mean_s == 0.001


def test_repetitions_become_blocks_in_their_order() -> None:
    text = "| server | Run 1 | Run 2 | RPS |\n|-|-|-|-|\n| a | 10 | 12 | 11 |\n| b | 20 | 22 | 21 |\n"
    found, is_paired = cells(text, connections=8)
    assert rates(found) == {"server=a,version=1": [10.0, 12.0], "server=b,version=1": [20.0, 22.0]}
    assert is_paired
    found, is_paired = cells("name,rps,connections\na,1,8\na,2,8\nb,3,8\n")
    assert rates(found) == {"server=a,version=1": [1.0, 2.0], "server=b,version=1": [3.0]}
    assert not is_paired


@pytest.mark.parametrize(
    "name",
    [
        *("autocannon/v8-plain", "bombardier/v2-plain", "fortio/v163-text", "gatling/v39-stats", "jmeter/v56-csv"),
        *("k6/v18-points", "loadtest/v8-rps", "locust/v247-csv", "nighthawk/json", "oha/v1-json", "rewrk/v03-json"),
        *("wrk2/spectrum", "zrk/v01-readme"),
    ],
)
def test_outputs_of_every_tool_become_a_cell_whether_or_not_they_state_a_duration(name: str) -> None:
    content = (TESTS / f"fixtures/load/{name}.txt").read_bytes()
    cell = read_cell("auto", [OutputFile("out.txt", content, AT)], {}, {"connections": 4, "rate": 9})
    assert (cell.load.tool, cell.load.rate) == (name.partition("/")[0], 9)
    assert cell.results[0].rps


def test_two_runs_in_one_file_are_refused_with_what_to_give() -> None:
    twice = (TESTS / "fixtures/load/wrk/v410-plain.txt").read_bytes() * 2
    with pytest.raises(ParseError, match="give each in a file of its own; figures of two runs are never mixed"):
        read_cell("auto", [OutputFile("out.txt", twice, AT)], {}, {})


def test_names_that_give_the_same_level_stay_apart() -> None:
    found, _ = cells("name,rps,connections\nfoo (a),1,8\nfoo [a],2,8\n\u6846\u67b6,3,8\n")
    assert list(rates(found)) == ["server=foo-a,version=1", "server=foo-a:2,version=1", "server=server,version=1"]


def test_copied_percentiles_and_rates_of_zero_are_not_imported() -> None:
    rows = [
        {"framework": f"s{i}", "rps": i, "connections": 8, "mean": f"{i}ms", "p99": f"{i}ms", "p50": "1ms"}
        for i in range(4)
    ]
    found, _ = cells(json.dumps(rows))
    assert [dict(cell.results[0].latency.percentiles) for cell in found] == [{"50": 0.001}] * 3


def test_a_stored_row_is_read_again() -> None:
    row = {"framework": "a", "rps": 16000, "connections": 10, "pipeline": 16, "avg_latency": "10ms", "p99_9": "30ms"}
    found, _ = cells(json.dumps([row | {"status_2xx": 90, "status_4xx": 10, "target_rate": 17000, "duration": "5s"}]))
    (cell,) = found
    assert (cell.load.streams, cell.load.rate, cell.load.tool) == (16, 17000.0, "table")
    document = cell.files[0].content.decode()
    assert FORMAT.recognise(document)
    assert FORMAT.parse(document) == cell.results[0]
    assert (cell.results[0].non_2xx, cell.results[0].failed, cell.results[0].duration_s) == (10, 10, 5.0)
    assert dict(cell.results[0].latency.percentiles) == {"99.9": 0.03}
    for text in ("", "{}", '{"published_result": {}}', '{"published_result": 1'):
        with pytest.raises(ParseError):
            FORMAT.parse(text)


def test_what_is_no_table_or_lacks_connections_is_refused() -> None:
    with pytest.raises(InputError, match="does not state the number of connections"):
        cells("name,rps\na,1\n")
    with pytest.raises(InputError, match="the load is invalid"):
        cells("name,rps\na,1\n", connections=0)
    assert is_table("auto", OutputFile("t.csv", b"name,rps\na,1\n", AT))
    assert not is_table("wrk", OutputFile("t.csv", b"name,rps\na,1\n", AT))
