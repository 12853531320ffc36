"""Recognition of tools, refusals by name, and texts with several runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from benchkit.cli.tools import parse
from benchkit.errors import InputError, ParseError
from benchkit.loadtools.formats import AUTO, FORMATS, UNSUPPORTED, read_output, read_runs
from benchkit.models.load_result import LoadResult
from tests.support.paths import TESTS

FIXTURES = TESTS / "fixtures" / "load"
NAMES = {
    "wrk": "v410-plain",
    "ab": "v23-keepalive",
    "hey": "v014-plain",
    "siege": "v417-text",
    "vegeta": "v12-text",
    "h2load": "v152-count",
    "oha": "v1-deadline",
    "k6": "v18-plain",
    "bombardier": "v2-plain",
    "autocannon": "v8-plain",
    "openloop": "v1-full-speed",
}

UNSUPPORTED_TEXTS = {
    "go-wrk": "Running 10s test @ http://192.168.1.1\n  80 goroutine(s) running concurrently\n"
    "142470 requests in 4.949028953s, 19.57MB read\nRequests/sec:\t\t28787.47\nTransfer/sec:\t\t3.95MB\n",
    "weighttp": "finished in 7 sec, 67 millisec and 50 microsec, 14149 req/s, 3063 kbyte/s\n"
    "requests: 100000 total, 100000 started, 100000 done, 100000 succeeded, 0 failed, 0 errored\n",
    "httpgo": "Benchmarking https://a.example with 128 connections\n\nReqs/sec   95.24   12.34   120.56\n1xx - 0, 2xx - 980\n",
    "ghz": "Summary:\n  Count:\t200\n  Total:\t181.57 ms\n\nLatency distribution:\n  10 % in 30.05 ms\n\n"
    "Status code distribution:\n  [OK]   200 responses\n",
    "drill": "Time taken for tests      5.2 seconds\nTotal requests            1000\nRequests per second       192.49 [#/sec]\n",
}

app = typer.Typer()
app.command()(parse)


def _text(tool: str) -> str:
    return (FIXTURES / tool / f"{NAMES[tool]}.txt").read_text()


def _read(tool: str, text: str, run: int | None = None) -> LoadResult:
    return read_output(tool, text, where="out.txt", command="benchkit parse {tool} out.txt", run=run)


@pytest.mark.parametrize("tool", NAMES)
def test_auto_chooses_the_tool_by_its_marks(tool: str) -> None:
    assert _read(AUTO, _text(tool)) == _read(tool, _text(tool))


@pytest.mark.parametrize("tool", UNSUPPORTED_TEXTS)
@pytest.mark.parametrize("named", [AUTO, "wrk", "hey", "h2load", "ab"])
def test_output_of_an_unsupported_tool_is_refused_by_its_name(tool: str, named: str) -> None:
    assert tool in UNSUPPORTED
    with pytest.raises(ParseError, match=f"this is output of {tool}, which benchkit does not read"):
        _read(named, UNSUPPORTED_TEXTS[tool])


def test_text_without_marks_is_refused_with_what_to_name() -> None:
    with pytest.raises(ParseError, match="no load tool is recognised") as caught:
        _read(AUTO, "| server | requests/s |\n|---|---|\n| a | 1 |\n")
    assert "benchkit parse TOOL out.txt" in str(caught.value)
    with pytest.raises(ParseError, match="the output is empty"):
        _read(AUTO, " \n")
    assert read_runs("nginx 1200\n", where="out.txt") == []
    table_of_wrk = "| Stats | Avg | Max |\n|--|--|--|\n| Latency | 1.2ms | 20ms |\n| Req/Sec | 25.0k | 27k |\n"
    assert read_runs(table_of_wrk, where="out.txt") == []


def test_an_unknown_tool_is_refused_with_all_names() -> None:
    with pytest.raises(InputError, match="no load tool is called 'wkr'") as caught:
        _read("wkr", _text("wrk"))
    assert all(name in str(caught.value) for name in (AUTO, *FORMATS))


def test_outputs_of_two_tools_in_one_text_are_refused_unless_one_is_named() -> None:
    text = _text("wrk") + _text("ab")
    with pytest.raises(ParseError, match="outputs of wrk and ab"):
        _read(AUTO, text)
    assert read_runs(text, where="out.txt") == [_read(tool, _text(tool)) for tool in ("wrk", "ab")]
    assert _read("wrk", text).requests == _read("wrk", _text("wrk")).requests
    assert _read("ab", text).requests == _read("ab", _text("ab")).requests


@pytest.mark.parametrize(
    ("tool", "name"), [("ab", "v23-e"), ("hey", "v014-csv"), ("jmeter", "v56-csv"), ("locust", "v247-csv")]
)
def test_lines_above_a_table_are_removed(tool: str, name: str) -> None:
    text = (FIXTURES / tool / f"{name}.txt").read_text()
    plain = _read(tool, text)
    for named in (AUTO, tool):
        found = _read(named, f"started on a, b and c\n$ {tool} http://127.0.0.1/\n\n{text}")
        assert found.model_copy(update={"notes": plain.notes}) == plain
        assert found.notes[-1].message == "3 lines above the table were removed"
    with pytest.raises(ParseError):
        _read(tool, f"one\n{text.partition(chr(10))[2]}")


@pytest.mark.parametrize("tool", NAMES)
def test_two_runs_are_listed_and_read_one_by_one(tool: str) -> None:
    one = _text(tool)
    other = one.replace("127.0.0.1", "127.0.0.2")
    text = f"== first ==\n{one}\n\n== second ==\n{other}"
    for named in (AUTO, tool):
        with pytest.raises(ParseError, match=f"two runs of {tool} in one text") as caught:
            _read(named, text)
        assert "--run 1" in str(caught.value)
    assert [_read(AUTO, text, run) for run in (1, 2)] == [_read(tool, one), _read(tool, other)]
    assert read_runs(text, where="out.txt") == [_read(tool, one), _read(tool, other)]
    with pytest.raises(InputError, match=r"has no run 3: it has two runs"):
        _read(tool, text, 3)


def test_the_command_reads_one_run_of_a_log(tmp_path: Path) -> None:
    file = tmp_path / "log.txt"
    runs = _text("wrk") + re.sub(r"Requests/sec: .*", "Requests/sec:   1234.50", _text("wrk"))
    file.write_text("".join(f"web_1  | {line}\n" for line in runs.splitlines()))
    ran = CliRunner().invoke(app, [AUTO, str(file), "--run", "2"])
    assert ran.exit_code == 0
    assert "1,234" in ran.stdout
    assert "prefix-removed" in ran.stderr
