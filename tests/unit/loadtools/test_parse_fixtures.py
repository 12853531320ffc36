"""Recorded outputs of the real tools, compared with their expected results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from benchkit.cli.tools import parse
from benchkit.errors import ParseError
from benchkit.loadtools.formats import FORMATS
from benchkit.loadtools.reader import OutputFormat
from benchkit.loadtools.text import prepare
from tests.support.paths import TESTS

FIXTURES = TESTS / "fixtures" / "load"
OUTPUTS = sorted(FIXTURES.glob("*/*.txt"))

app = typer.Typer()
app.command()(parse)


def _name(path: Path) -> str:
    return f"{path.parent.name}-{path.stem}"


def _expected(path: Path) -> dict[str, Any]:
    expected: dict[str, Any] = json.loads(path.with_suffix(".expected.json").read_text())
    return expected


def _plain(result: dict[str, Any]) -> dict[str, Any]:
    """Return the result with only the codes of its notes, so that their wording may change."""
    return {**result, "notes": [note["code"] for note in result.get("notes", ())]}


@pytest.mark.parametrize("path", OUTPUTS, ids=_name)
def test_an_output_gives_the_expected_result(path: Path) -> None:
    expected = _expected(path)
    output_format = FORMATS[path.parent.name]
    if "error" in expected:
        with pytest.raises(ParseError, match=expected["error"]):
            output_format.parse(path.read_text())
        return
    result = output_format.parse(path.read_text())
    assert _plain(result.model_dump(mode="json", exclude_defaults=True)) == expected


@pytest.mark.parametrize("path", OUTPUTS, ids=_name)
def test_only_the_format_of_its_tool_recognises_and_reads_an_output(path: Path) -> None:
    expected = _expected(path)
    own = FORMATS[path.parent.name]
    recognised = "error" not in expected or expected.get("recognised", False)  # also what is refused by name
    dialects = [
        each for each in FORMATS.values() if own.tool in {each.tool, each.dialect_of} or each.tool == own.dialect_of
    ]
    prepared = prepare(path.read_text())
    assert {note.code for note in prepared.notes} <= {"colours-removed", "prefix-removed"}
    assert [each for each in FORMATS.values() if each.recognise(prepared.text)] == ([own] if recognised else [])
    readers = [] if "error" in expected else dialects
    assert [each for each in FORMATS.values() if _reads(each, prepared.text)] == readers


def _reads(output_format: OutputFormat, text: str) -> bool:
    try:
        output_format.parse(text)
    except ParseError:
        return False
    return True


@pytest.mark.parametrize("path", OUTPUTS, ids=_name)
def test_a_fixture_has_version_and_command(path: Path) -> None:
    made = json.loads(path.with_suffix(".made.json").read_text())
    assert made["version"]
    assert made.get("captured") or made["source"]  # recorded, or written after the tool's documentation
    assert made["command"][0].startswith(path.parent.name) or made["command"][0] == "wrk2"


@pytest.mark.parametrize("path", {path.parent: path for path in OUTPUTS}.values(), ids=_name)
def test_the_command_prints_one_json_document(path: Path) -> None:
    run = CliRunner().invoke(app, [path.parent.name, str(path), "--json"])
    expected = _expected(path)
    if "error" in expected:
        assert isinstance(run.exception, ParseError)
        assert str(run.exception).startswith(str(path))
        return
    document = json.loads(run.stdout)
    inner = {"latency", "errors", "negotiated", "notes"}
    assert {key: document[key] for key in expected if key not in inner} == {
        key: value for key, value in expected.items() if key not in inner
    }
    for key in ("latency", "negotiated"):
        assert (document[key] or {}).items() >= expected.get(key, {}).items()


def test_the_command_reads_stdin_and_shows_a_table() -> None:
    path = FIXTURES / "wrk" / "v410-plain.txt"
    run = CliRunner().invoke(app, ["wrk", "-"], input=path.read_bytes())
    assert run.exit_code == 0
    assert "requests/s" in run.stdout
    assert "18,605" in run.stdout
    assert "connections-not-divided" in run.stderr


def test_the_command_names_the_tool_that_wrote_it() -> None:
    path = FIXTURES / "wrk" / "v410-plain.txt"
    run = CliRunner().invoke(app, ["ab", str(path)])
    assert isinstance(run.exception, ParseError)
    assert run.exception.hint == f"it is output of wrk: benchkit parse wrk {path}"


def test_the_command_names_the_file_that_it_cannot_read(tmp_path: Path) -> None:
    run = CliRunner().invoke(app, ["ab", str(tmp_path / "gone.txt")])
    assert str(run.exception) == f"{tmp_path / 'gone.txt'}: cannot read the file: No such file or directory"
