"""JSON documents within the text of a tool, found by their marks."""

from __future__ import annotations

import re

from pydantic import ConfigDict

from benchkit.loadtools.text import JsonOutput, several_runs

_OPENING = re.compile(r"^([ \t]*)[{\[]", re.MULTILINE)


class LaxJsonOutput(JsonOutput):
    """A part of a tool's JSON whose counts and figures may be text, as protobuf writes them."""

    model_config = ConfigDict(strict=False)


def find_document(text: str, mark: re.Pattern[str], tool: str) -> str | None:
    """Return the document that has `mark`; None where none has it. Raises ParseError for several of them."""
    marked = [each for each in _documents(text) if mark.search(each)]
    if len(marked) > 1:
        raise several_runs(tool, "a document of JSON")
    return marked[0] if marked else None


def _documents(text: str) -> list[str]:
    """Return what may be a document: each begins at a line with `{` or `[`, as far left as any does."""
    openings = list(_OPENING.finditer(text))
    left = min((len(each[1]) for each in openings), default=0)
    starts = [each.end() - 1 for each in openings if len(each[1]) == left]
    parts = [text[start:end] for start, end in zip(starts, [*starts[1:], len(text)], strict=False)]
    return [part[: max(part.rfind("}"), part.rfind("]")) + 1] for part in parts]
