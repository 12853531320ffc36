"""YAML files validated into models, with errors that name file, line and field.

Files are data: YAML 1.2, no object construction, no duplicate keys. A document keeps the line of every value, also after
other values were merged over it, so that an error names the line that holds the wrong value.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from benchkit.errors import InputError, suggestion

Model = TypeVar("Model", bound=BaseModel)
Location = tuple[str | int, ...]

MAX_BYTES = 1 << 20
"""Largest file that is read; no scenario or inventory comes near one mebibyte."""

MAX_VALUES = 100_000
"""Largest number of values in a document; aliases of aliases can make a huge document of a small file."""


@dataclass(frozen=True)
class Origin:
    """File and line of a value."""

    source: str
    line: int | None

    def __str__(self) -> str:
        """Return `file:line`, as editors take it."""
        return self.source if self.line is None else f"{self.source}:{self.line}"


@dataclass(frozen=True)
class SourceMap:
    """Files and lines of the values of a document, for messages about them."""

    origins: Mapping[Location, Origin]
    path: Location = ()
    """Location of the document in the file that it is a part of; messages name fields from there."""

    def origin(self, location: Location = ()) -> Origin:
        """Return the origin of the value at `location`, or of the nearest value that contains it."""
        for end in range(len(location), -1, -1):
            if location[:end] in self.origins:
                return self.origins[location[:end]]
        return Origin("?", None)

    def at(self, *location: str | int) -> SourceMap:
        """Return the source map of the part below `location`."""
        depth = len(location)
        below = {where[depth:]: origin for where, origin in self.origins.items() if where[:depth] == location}
        return SourceMap(below or {(): self.origin(location)}, (*self.path, *location))

    def fault(self, location: Location, message: str) -> str:
        """Return a one-line message about the value at `location`: `file:line: field: what is wrong`."""
        field = ".".join(str(part) for part in (*self.path, *location))
        return f"{self.origin(location)}: {field + ': ' if field else ''}{message}"


@dataclass(frozen=True)
class Document:
    """Plain data (dicts, lists, scalars) with the origins of its values."""

    data: Any
    source: SourceMap

    def at(self, *location: str | int) -> Document:
        """Return the part of the document below `location`; the data of an absent part is None."""
        data = self.data
        for key in location:
            data = data.get(key) if isinstance(data, dict) else data[int(key)]
            if data is None:
                break
        return Document(data, self.source.at(*location))

    def without(self, *keys: str) -> Document:
        """Return the document without these top-level keys."""
        origins = {where: origin for where, origin in self.source.origins.items() if not where or where[0] not in keys}
        data = {key: value for key, value in self.data.items() if key not in keys}
        return Document(data, SourceMap(origins, self.source.path))

    def overridden(self, other: Document) -> Document:
        """Return the document with values overridden by those of `other`: mappings merge, all else is replaced whole."""
        if not (isinstance(self.data, dict) and isinstance(other.data, dict)):
            return other
        data: dict[str, Any] = dict(self.data)
        origins = dict(self.source.origins)
        for key in other.data:
            override = other.at(key)
            merged = self.at(key).overridden(override) if key in data else override
            data[key] = merged.data
            origins = {where: origin for where, origin in origins.items() if where[:1] != (key,)}
            origins.update({(key, *where): origin for where, origin in merged.source.origins.items()})
        return Document(data, SourceMap(origins, self.source.path))

    def validated(self, model: type[Model]) -> Model:
        """Return the document as a model. Raises InputError naming file, line and field of every fault."""
        try:
            validated = model.model_validate(self.data)
        except ValidationError as error:
            faults = [
                self.fault(_document_location(detail, self.data), _message(detail, model)) for detail in error.errors()
            ]
            raise InputError("\n".join(faults)) from None
        not_finite = [
            self.fault(location, f"found {value}; allowed: finite numbers")
            for location, value in _not_finite(validated.model_dump())
        ]
        if not_finite:
            raise InputError("\n".join(not_finite))
        return validated

    def fault(self, location: Location, message: str) -> str:
        """Return a one-line message about the value at `location`; see `SourceMap.fault`."""
        return self.source.fault(location, message)


def read_document(path: Path) -> Document:
    """Read the YAML file at `path`. Raises InputError if it cannot be read or is not a YAML mapping."""
    try:
        with path.open("rb") as file:
            text = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise InputError("cannot read the file", where=str(path), why=error.strerror) from None
    if len(text) > MAX_BYTES:
        raise InputError(
            f"the file is larger than {MAX_BYTES} bytes", where=str(path), hint="check that this is the right file"
        )
    try:
        return parse_document(text.decode("utf-8"), str(path))
    except UnicodeDecodeError as error:
        raise InputError("not UTF-8 text", where=str(path), why=f"byte {error.start} is invalid") from None


def parse_document(text: str, source: str) -> Document:
    """Parse YAML text into a document; `source` names it in errors. Raises InputError."""
    yaml = YAML(typ="rt", pure=True)
    yaml.allow_duplicate_keys = False
    try:
        root = yaml.load(io.StringIO(text))
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = None if mark is None else mark.line + 1
        raise InputError(f"not valid YAML: {error.problem or error.context}", where=str(Origin(source, line))) from None
    except (YAMLError, ValueError) as error:
        raise InputError(f"not valid YAML: {error}", where=source) from None
    if not isinstance(root, CommentedMap):
        raise InputError("expected a mapping of names to values", where=str(Origin(source, 1)))
    origins: dict[Location, Origin] = {}
    data = _plain(root, source, 1, (), origins)
    return Document(data, SourceMap(origins))


def _plain(node: Any, source: str, line: int, here: Location, origins: dict[Location, Origin]) -> Any:  # noqa: ANN401 - YAML is any
    """Convert ruamel's data to plain Python data and record the origin of each value."""
    if len(origins) > MAX_VALUES:
        raise InputError(
            f"too large: more than {MAX_VALUES} values", where=source, hint="remove aliases that repeat others"
        )
    if isinstance(node, CommentedMap | CommentedSeq) and node.tag.value is not None:
        raise InputError(f"the tag {node.tag.value} is not allowed", where=str(Origin(source, line)))
    origins[here] = Origin(source, line)
    if isinstance(node, CommentedMap):
        plain: dict[str, Any] = {}
        for key, value in node.items():
            at = node.lc.key(key)[0] + 1 if key in (node.lc.data or ()) else line
            if not isinstance(key, str):
                raise InputError(f"the name {key!r} is not text; quote it", where=str(Origin(source, at)))
            plain[key] = _plain(value, source, at, (*here, key), origins)
        return plain
    if isinstance(node, CommentedSeq):
        return [
            _plain(value, source, node.lc.item(i)[0] + 1 if i in (node.lc.data or ()) else line, (*here, i), origins)
            for i, value in enumerate(node)
        ]
    for kind in (bool, int, float, str):  # ruamel's round-trip scalars are subclasses
        if isinstance(node, kind):
            return kind(node)
    if node is None:
        return None
    raise InputError(f"a value of type {type(node).__name__} is not allowed", where=str(Origin(source, line)))


def _document_location(detail: ErrorDetails, data: Any) -> Location:  # noqa: ANN401 - YAML is any
    """Return pydantic's location without the parts that name union members instead of places in the document."""
    place: list[str | int] = []
    for part in detail["loc"]:
        if isinstance(data, Mapping) and (part in data or part == detail["loc"][-1]):
            data = data.get(part) if part in data else None
            place.append(part)
        elif isinstance(data, Sequence) and not isinstance(data, str) and isinstance(part, int) and part < len(data):
            data = data[part]
            place.append(part)
    return tuple(place)


def _not_finite(value: object, here: Location = ()) -> Iterator[tuple[Location, float]]:
    """Yield the numbers that are infinite or NaN, with their locations; YAML reads `1e999` as one, too."""
    if isinstance(value, float) and not math.isfinite(value):
        yield here, value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _not_finite(inner, (*here, key))
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(value):
            yield from _not_finite(inner, (*here, index))


def _message(detail: ErrorDetails, model: type[BaseModel]) -> str:  # noqa: PLR0911 - one for each kind of fault
    """Return a message that says what was found and what is allowed."""
    found = detail["input"]
    context = detail.get("ctx", {})
    match detail["type"]:
        case "extra_forbidden":
            *parents, name = detail["loc"]
            return f"no such field; {suggestion(str(name), _fields_of(model, parents))}"
        case "missing":
            return "is missing"
        case "literal_error" | "enum":
            return f"found {found!r}; allowed: {context['expected']}"
        case "too_short":
            return f"needs at least {context['min_length']}, found {context['actual_length']}"
        case "string_pattern_mismatch":
            return f"found {found!r}; allowed: text of the form {context['pattern']}"
        case "value_error":
            return str(context["error"])
        case _:
            shown = "" if isinstance(found, dict | list) else f"found {found!r}; "
            return shown + detail["msg"][:1].lower() + detail["msg"][1:]


def _fields_of(annotation: Any, location: Sequence[str | int]) -> list[str]:  # noqa: ANN401 - types of any form
    """Return the field names of the model at a location; empty if there is no model."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        if not location:
            return list(annotation.model_fields)
        field = annotation.model_fields.get(str(location[0]))
        return [] if field is None else _fields_of(field.annotation, location[1:])
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _fields_of(arguments[0], location)
    if isinstance(origin, type) and issubclass(origin, Mapping | Sequence):
        return _fields_of(arguments[0 if origin is tuple else -1], location[1:])
    return next((names for argument in arguments if (names := _fields_of(argument, location))), [])
