"""YAML files validated into models, with errors that name file, line and field.

Files are data: YAML 1.2 without objects. A document keeps the origin of each value, a file and line or an option, also
after a merge with others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
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
"""Last part of pydantic's location for a fault in the name of a value instead of the value."""
_ABSENT = object()


@dataclass(frozen=True)
class Origin:
    """File and line of a value; the source of a value that no file has is an option or the command line."""

    source: str
    line: int | None

    def __str__(self) -> str:
        """Return `file:line`, as editors take it."""
        return self.source if self.line is None else f"{self.source}:{self.line}"


Origins = dict[tuple[str, ...], Origin]
"""Origins of values by their locations; a value without an origin has that of the nearest value around it."""


@dataclass(frozen=True)
class SourceMap:
    """Origins of the values of a document, for messages about these values."""

    origins: Origins
    path: Location = ()
    """Location of the document in a larger one; messages name fields from there."""

    def origin(self, location: Location = ()) -> Origin:
        """Return the origin of the value at `location`; for a merged mapping, that of the first source."""
        whole = tuple(map(str, (*self.path, *location)))
        return next(self.origins[whole[:n]] for n in range(len(whole), -1, -1) if whole[:n] in self.origins)

    def at(self, *location: str | int) -> SourceMap:
        """Return the source map of the part below `location`."""
        return replace(self, path=(*self.path, *location))

    def fault(self, location: Location, message: str) -> str:
        """Return a one-line message about the value at `location`: `file:line: field: what is wrong`."""
        field = ".".join(str(part) for part in (*self.path, *location))
        return f"{self.origin(location)}: {field + ': ' if field else ''}{message}"

    def require(self, faults: Iterable[tuple[Location, str]]) -> None:
        """Raise InputError with a line for each fault (location and message); do nothing without faults."""
        if messages := dict.fromkeys(self.fault(location, message) for location, message in faults):
            raise InputError("\n".join(messages))

    def file(self, name: str, *location: str | int) -> Path:
        """Return the absolute path of `name`, which is relative to the file with the value at `location`."""
        return (Path(self.origin(location).source).parent / name).absolute()

    @contextmanager
    def located(self, *location: str | int) -> Iterator[None]:
        """Add file, line and field of the value at `location` to an InputError of the context."""
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
        """Return the document with values overridden by those of `other`: mappings merge, other values are replaced."""
        origins = dict(self.source.origins)

        def merged(data: Any, override: Any, location: Location) -> Any:  # noqa: ANN401 - YAML is any
            if isinstance(data, dict) and isinstance(override, dict):
                new = {key: merged(data.get(key), value, (*location, key)) for key, value in override.items()}
                return {**data, **new}
            here, there = (tuple(map(str, (*each.source.path, *location))) for each in (self, other))
            for inner in [each for each in origins if each[: len(here)] == here]:
                del origins[inner]
            origins[here] = other.source.origin(location)
            for inner, origin in other.source.origins.items():
                if inner[: len(there)] == there:
                    origins[*here, *inner[len(there) :]] = origin
            return override

        data = merged(self.data, other.data, ())
        return Document(data, replace(self.source, origins=origins))

    def validated(self, model: type[Model]) -> Model:
        """Return the document as a model. Raises InputError naming file, line and field of every fault."""
        try:
            return model.model_validate(self.data)
        except ValidationError as error:
            located = [(_document_location(detail, self.data), detail) for detail in error.errors()]
        self.source.require(fault_messages(located, model))
        raise AssertionError("pydantic found a fault that has no message")

    def fault(self, location: Location, message: str) -> str:
        """Return the message of `SourceMap.fault`."""
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
    yaml = YAML(typ="safe", pure=True)
    try:
        node = yaml.compose(text)
        data = None if node is None else yaml.constructor.construct_document(node)
        origins = {location: Origin(source, line) for location, line in _lines(node, (), 1)}
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = str(Origin(source, None if mark is None else mark.line + 1))
        problem = str(error.problem or error.context)
        short = problem.partition(" with value")[0]  # the value of a duplicate key may be long
        raise InputError(f"not valid YAML: {short}", where=where) from None
    except (YAMLError, ValueError, RecursionError) as error:  # RecursionError: a value that contains itself
        raise InputError(f"not valid YAML: {error}", where=source) from None
    if not isinstance(data, dict):
        what = "the file is empty" if data is None else "expected a mapping of names to values"
        raise InputError(what, where=str(Origin(source, 1)))
    return Document(data, SourceMap(origins))


def plain_document(data: Mapping[str, Any], source: str) -> Document:
    """Return data without lines as a document."""
    return Document(dict(data), SourceMap({(): Origin(source, None)}))


def _value_at(data: Any, location: Location) -> Any:  # noqa: ANN401 - YAML is any
    for part in location:
        if isinstance(data, Mapping):
            data = data.get(part, _ABSENT)
        elif isinstance(data, list | tuple) and isinstance(part, int) and part < len(data):
            data = data[part]
        else:
            return _ABSENT
    return data


def _lines(node: Node, location: tuple[str, ...], line: int) -> Iterator[tuple[tuple[str, ...], int]]:
    """Yield the lines of all values below a node; values merged with `<<` keep their own lines."""
    yield location, line
    if isinstance(node, MappingNode):
        for key, value in node.value:
            yield from _lines(value, (*location, str(key.value)), key.start_mark.line + 1)
    elif isinstance(node, SequenceNode):
        for i, value in enumerate(node.value):
            yield from _lines(value, (*location, str(i)), value.start_mark.line + 1)


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
