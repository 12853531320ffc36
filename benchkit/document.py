"""YAML files validated into models, with errors that name file, line and field.

Files are data: YAML 1.2 without objects. A document remembers which file or option each value came from, also after a
merge with others; the line of a value is looked up when a message names it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, SequenceNode

from benchkit.errors import InputError
from benchkit.validation import Location, fault_messages

Model = TypeVar("Model", bound=BaseModel)

_KEY = "[key]"
"""Last part of pydantic's location for a fault in the name of a value rather than in the value."""
_ABSENT = object()


@dataclass(frozen=True)
class Origin:
    """File and line of a value; the source is an option or the command line where no file has the value."""

    source: str
    line: int | None

    def __str__(self) -> str:
        """Return `file:line`, as editors take it."""
        return self.source if self.line is None else f"{self.source}:{self.line}"


@dataclass(frozen=True)
class Layer:
    """Values of one source, as a part of a document."""

    source: str
    data: Any
    text: str | None = None
    """YAML text of the source; None: its values have no lines."""
    start: Location = ()
    """Location of the values in the text."""
    mount: Location = ()
    """Location of the values in the document."""

    def value(self, location: Location) -> Any:  # noqa: ANN401 - YAML is any
        """Return the value at a location of the document, or `_ABSENT`."""
        inner = location[len(self.mount) :]
        return _value_at(self.data, inner) if location[: len(self.mount)] == self.mount else _ABSENT

    def origin(self, location: Location) -> Origin:
        """Return the origin of a value of this source by its location in the document."""
        inner = location[len(self.mount) :]
        return Origin(self.source, None if self.text is None else _line_of(self.text, (*self.start, *inner)))


@dataclass(frozen=True)
class SourceMap:
    """The sources of the values of a document, for messages about them."""

    layers: tuple[Layer, ...]
    """The sources; a later one overrides an earlier one."""
    path: Location = ()
    """Location of the document in the one that it is a part of; messages name fields from there."""

    def origin(self, location: Location = ()) -> Origin:
        """Return the origin of the value at `location`, or of the nearest value that contains it.

        A mapping that several sources have comes from the first of them, as the others add to it.
        """
        whole = (*self.path, *location)
        for length in range(len(whole), -1, -1):
            found = None
            for layer in reversed(self.layers):
                value = layer.value(whole[:length])
                if value is _ABSENT:
                    continue
                if found is not None and not isinstance(value, Mapping):
                    break
                found = layer
                if not isinstance(value, Mapping):
                    break
            if found is not None:
                return found.origin(whole[:length])
        return Origin(self.layers[0].source, None)

    def at(self, *location: str | int) -> SourceMap:
        """Return the source map of the part below `location`."""
        return replace(self, path=(*self.path, *location))

    def fault(self, location: Location, message: str) -> str:
        """Return a one-line message about the value at `location`: `file:line: field: what is wrong`."""
        field = ".".join(str(part) for part in (*self.path, *location))
        return f"{self.origin(location)}: {field + ': ' if field else ''}{message}"

    def require(self, faults: Iterable[tuple[Location, str]]) -> None:
        """Raise InputError with a line for each fault, a location and a message; do nothing without any."""
        if messages := dict.fromkeys(self.fault(location, message) for location, message in faults):
            raise InputError("\n".join(messages))

    def file(self, name: str, *location: str | int) -> Path:
        """Return the absolute path of what the value at `location` names, relative to the file that has the value."""
        return (Path(self.origin(location).source).parent / name).absolute()

    @contextmanager
    def located(self, *location: str | int) -> Iterator[None]:
        """Raise an InputError of the context as one that names file, line and field of the value at `location`."""
        try:
            yield
        except InputError as error:
            raise InputError(self.fault(location, error.summary)) from None


@dataclass(frozen=True)
class Document:
    """Plain data (dicts, lists, scalars) with the sources of its values."""

    data: Any
    source: SourceMap

    def at(self, *location: str | int) -> Document:
        """Return the part of the document below `location`; the data of an absent part is None."""
        value = _value_at(self.data, location)
        return Document(None if value is _ABSENT else value, self.source.at(*location))

    def overridden(self, other: Document) -> Document:
        """Return the document with values overridden by those of `other`: mappings merge, all else is replaced."""
        here, there = self.source.path, other.source.path
        layers = (
            replace(
                layer,
                data=_value_at(layer.data, there[len(layer.mount) :]),
                start=(*layer.start, *there[len(layer.mount) :]),
                mount=here,
            )
            for layer in other.source.layers
            if there[: len(layer.mount)] == layer.mount
        )
        known = (layer for layer in layers if layer.data is not _ABSENT)
        return Document(_merged(self.data, other.data), SourceMap((*self.source.layers, *known), here))

    def validated(self, model: type[Model]) -> Model:
        """Return the document as a model. Raises InputError naming file, line and field of every fault."""
        try:
            return model.model_validate(self.data)
        except ValidationError as error:
            located = [(_document_location(detail, self.data), detail) for detail in error.errors()]
        self.source.require(fault_messages(located, model))
        raise AssertionError("pydantic found a fault that has no message")

    def fault(self, location: Location, message: str) -> str:
        """Return a one-line message about the value at `location`; see `SourceMap.fault`."""
        return self.source.fault(location, message)


def read_document(path: Path) -> Document:
    """Read the YAML file at `path`. Raises InputError if it cannot be read or is not a YAML mapping."""
    try:
        return parse_document(path.read_text(encoding="utf-8"), str(path))
    except OSError as error:
        raise InputError("cannot read the file", where=str(path), why=error.strerror) from None
    except UnicodeDecodeError as error:
        raise InputError("not UTF-8 text", where=str(path), why=f"byte {error.start} is invalid") from None


def parse_document(text: str, source: str) -> Document:
    """Parse YAML text into a document; `source` names it in errors. Raises InputError."""
    try:
        data = YAML(typ="safe", pure=True).load(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = str(Origin(source, None if mark is None else mark.line + 1))
        problem = str(error.problem or error.context).partition(" with value")[
            0
        ]  # a duplicate key's, which may be long
        raise InputError(f"not valid YAML: {problem}", where=where) from None
    except (YAMLError, ValueError) as error:
        raise InputError(f"not valid YAML: {error}", where=source) from None
    if not isinstance(data, dict):
        what = "the file is empty" if data is None else "expected a mapping of names to values"
        raise InputError(what, where=str(Origin(source, 1)))
    return Document(data, SourceMap((Layer(source, data, text),)))


def plain_document(data: Mapping[str, Any], source: str) -> Document:
    """Return data without lines as a document."""
    return Document(dict(data), SourceMap((Layer(source, data),)))


def _value_at(data: Any, location: Location) -> Any:  # noqa: ANN401 - YAML is any
    for part in location:
        if isinstance(data, Mapping):
            data = data.get(part, _ABSENT)
        elif isinstance(data, list | tuple) and isinstance(part, int) and part < len(data):
            data = data[part]
        else:
            return _ABSENT
    return data


def _merged(data: Any, other: Any) -> Any:  # noqa: ANN401 - YAML is any
    if not (isinstance(data, dict) and isinstance(other, dict)):
        return other
    return {**data, **{key: _merged(data[key], value) if key in data else value for key, value in other.items()}}


@lru_cache(maxsize=8)
def _composed(text: str) -> Node | None:
    root: Node | None = YAML(typ="safe", pure=True).compose(text)
    return root


def _line_of(text: str, location: Location) -> int:
    node, line = _composed(text), 1
    for part in location:
        if isinstance(node, MappingNode):
            found = next(((key, value) for key, value in node.value if key.value == part), None)
        elif isinstance(node, SequenceNode) and isinstance(part, int) and part < len(node.value):
            found = node.value[part], node.value[part]
        else:
            found = None
        if found is None:
            break
        line, node = found[0].start_mark.line + 1, found[1]
    return line


def _document_location(detail: ErrorDetails, data: Any) -> Location:  # noqa: ANN401 - YAML is any
    place: list[str | int] = []
    for part in detail["loc"]:
        if part == _KEY and not (isinstance(data, Mapping) and part in data):
            continue
        if isinstance(data, Mapping) and (part in data or part == detail["loc"][-1]):
            data = data.get(part) if part in data else None
            place.append(part)
        elif isinstance(data, Sequence) and not isinstance(data, str) and isinstance(part, int) and part < len(data):
            data = data[part]
            place.append(part)
    return tuple(place)
