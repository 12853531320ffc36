"""Recognition of tools, prefixes of logs, and texts with several runs."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from benchkit.cli.tools import parse
from benchkit.errors import InputError, ParseError
from benchkit.loadtools.formats import AUTO, FORMATS, read_run
from benchkit.loadtools.text import prepare
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

app = typer.Typer()
app.command()(parse)


def _text(tool: str) -> str:
    return (FIXTURES / tool / f"{NAMES[tool]}.txt").read_text()


def _read(tool: str, text: str) -> LoadResult:
    return read_run(tool, text, where="out.txt", command="benchkit parse {tool} out.txt").result


@pytest.mark.parametrize("tool", NAMES)
def test_auto_chooses_the_tool_by_its_marks(tool: str) -> None:
    assert _read(AUTO, _text(tool)) == _read(tool, _text(tool))


def test_text_without_marks_is_refused_with_what_to_name() -> None:
    with pytest.raises(ParseError, match="no load tool is recognised") as caught:
        _read(AUTO, "| server | requests/s |\n|---|---|\n| a | 1 |\n")
    assert "benchkit parse TOOL out.txt" in str(caught.value)
    with pytest.raises(ParseError, match="the output is empty"):
        _read(AUTO, " \n")


def test_an_unknown_tool_is_refused_with_all_names() -> None:
    with pytest.raises(InputError, match="no load tool is called 'wkr'") as caught:
        _read("wkr", _text("wrk"))
    assert all(name in str(caught.value) for name in (AUTO, *FORMATS))


def test_outputs_of_two_tools_in_one_text_are_refused_unless_one_is_named() -> None:
    text = _text("wrk") + _text("ab")
    with pytest.raises(ParseError, match="outputs of wrk and ab"):
        _read(AUTO, text)
    assert _read("wrk", text).requests == _read("wrk", _text("wrk")).requests
    assert _read("ab", text).requests == _read("ab", _text("ab")).requests


@pytest.mark.parametrize("tool", NAMES)
def test_two_runs_in_one_text_are_refused(tool: str) -> None:
    one = _text(tool)
    other = re.sub(r"[1-9]", "7", one)
    with pytest.raises(ParseError, match=r"two runs|several runs"):
        _read(tool, f"== first ==\n{one}\n\n== second ==\n{other}")


def test_a_second_run_of_wrk_is_seen_behind_the_output_of_a_script() -> None:
    with pytest.raises(ParseError, match="two runs of wrk"):
        _read(AUTO, _text("wrk") + _text("wrk"))


@pytest.mark.parametrize(
    "prefix",
    [
        "web_1  | ",
        "2024-03-01T10:00:00.123456789Z ",
        "2024-03-01T10:00:00.12Z stdout F ",
        "[10:00:00] ",
    ],
)
@pytest.mark.parametrize("name", ["wrk/v410-plain", "k6/v18-plain", "ab/v23-keepalive"])
def test_timestamps_and_prefixes_of_compose_are_removed(prefix: str, name: str) -> None:
    plain = (FIXTURES / f"{name}.txt").read_text()
    text, notes = prepare("".join(f"{prefix}{line}\n" for line in plain.splitlines()))
    assert text.rstrip() == plain.rstrip()
    assert {note.code for note in notes} == {"prefix-removed"}
    assert prepare(plain).notes == ()


def test_colours_are_removed_and_lines_end_alike() -> None:
    text, notes = prepare("\x1b[32mRequests/sec:\x1b[0m 12.50\r\nTransfer/sec: 1.00KB\r\n")
    assert text == "Requests/sec: 12.50\nTransfer/sec: 1.00KB\n"
    assert [note.code for note in notes] == ["colours-removed"]


def test_the_command_prints_findings_below_the_figures(tmp_path: Path) -> None:
    file = tmp_path / "wrk.txt"
    file.write_text(_text("wrk").replace("Requests/sec:", "Non-2xx or 3xx responses: 20\nRequests/sec:"))
    ran = CliRunner().invoke(app, [AUTO, str(file)])
    assert "suspect, errors: 20 requests failed, 0.0978 %" in ran.stdout
    document = json.loads(CliRunner().invoke(app, [AUTO, str(file), "--json"]).stdout)
    assert document["findings"][0]["code"] == "errors"
