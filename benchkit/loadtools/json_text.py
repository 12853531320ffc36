"""JSON documents within the text of a tool, found by their marks."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, TypeVar

from pydantic import AliasPath, BaseModel, ConfigDict, Field, JsonValue, ValidationError

from benchkit.errors import ParseError
from benchkit.loadtools.text import QUOTED, several_runs
from benchkit.validation import first_fault

_OPENING = re.compile(rf"^([{QUOTED}]*)[{{\[]", re.MULTILINE)
_DOCUMENT = re.compile(r"^[^\n{\"]{0,120}\{", re.MULTILINE)
"""Beginning of a document of JSON, also behind the prefix of a log."""


class JsonOutput(BaseModel):
    """A part of a tool's JSON: what its parser uses; numbers are numbers, and other fields are ignored."""

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True, populate_by_name=True)


class LaxJsonOutput(JsonOutput):
    """A part of a tool's JSON whose counts and figures may be text, as protobuf writes them."""

    model_config = ConfigDict(strict=False)


def within(*path: str, default: Any = ...) -> Any:  # noqa: ANN401 - of any field
    """Return a field whose value is read from nested objects, by the path of their names."""
    return Field(default, validation_alias=AliasPath(*path))


Document = TypeVar("Document", bound=BaseModel)


def read_document(text: str, model: type[Document], tool: str) -> Document:
    """Return the JSON in `text`, from the first line with a brace to the last brace, or the one document within it.

    Raises ParseError where it is no document of the tool, is truncated, or has several of them.
    """
    start = _DOCUMENT.search(text)
    document = text[start.end() - 1 : text.rfind("}") + 1] if start else text
    try:
        return model.model_validate_json(document)
    except ValidationError as error:
        found = list(_documents_within(document, model))
        if len(found) > 1:
            raise several_runs(tool, "a document of JSON") from None
        if found:
            return found[0]
        raise ParseError(
            f"this JSON is not a complete output of {tool}",
            why=first_fault(error, model),
            hint="is it truncated, or does it have several runs?",
        ) from None


def _documents_within(document: str, model: type[Document]) -> Iterator[Document]:
    """Yield the documents of the tool within larger ones: harnesses wrap them, and add figures of their own."""
    try:
        values: list[JsonValue] = [json.loads(document)]
    except ValueError:
        return
    while values:
        value = values.pop()
        for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            try:
                yield model.model_validate_json(json.dumps(inner))
            except ValidationError:
                values.append(inner)


def find_document(text: str, mark: re.Pattern[str], tool: str) -> str | None:
    """Return the document that has `mark`; None where none has it. Raises ParseError for several of them."""
    marked = [each for each in _documents(text) if mark.search(each)]
    if len(marked) > 1:
        raise several_runs(tool, "a document of JSON")
    return marked[0] if marked else None


def _documents(text: str) -> list[str]:
    """Return the parts that may be documents: each begins at a line with `{` or `[` of the least indentation."""
    openings = list(_OPENING.finditer(text))
    left = min((len(each[1]) for each in openings), default=0)
    starts = [each.end() - 1 for each in openings if len(each[1]) == left]
    parts = [text[start:end] for start, end in zip(starts, [*starts[1:], len(text)], strict=False)]
    return [part[: max(part.rfind("}"), part.rfind("]")) + 1] for part in parts]
