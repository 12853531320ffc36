"""Recorded outputs of load tools, and what their parsers say."""

from __future__ import annotations

from benchkit.loadtools.formats import FORMATS
from benchkit.models.load_result import LoadResult
from tests.support.paths import TESTS

OUTPUTS = TESTS / "fixtures" / "load"
"""Folder with a folder for each tool."""


def recorded(name: str) -> str:
    """Return a recorded output by its tool and name: `wrk/v410-plain`."""
    return (OUTPUTS / f"{name}.txt").read_text()


def parsed(tool: str, text: str) -> LoadResult:
    """Return what the parser of a tool reads in a text. Raises ParseError."""
    return FORMATS[tool].parse(text)


def codes(result: LoadResult) -> set[str]:
    """Return the codes of the notes on a result."""
    return {note.code for note in result.notes}
