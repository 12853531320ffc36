"""YAML files as models, with errors that name file, line and field.

Files are data: YAML 1.2, no object construction, no duplicate keys. A document keeps the line of every value, also
after others were laid over it, so that a wrong value is blamed on the line that wrote it.
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
"""No scenario or inventory comes near one mebibyte; what does is not one."""

MAX_VALUES = 100_000
"""As many values as a file of that size can reasonably hold; aliases of aliases make more of a small file."""


@dataclass(frozen=True)
class Origin:
    """Where a value was written."""

    source: str
    line: int | None

    def __str__(self) -> str:
        """`file:line`, as editors take it."""
        return self.source if self.line is None else f"{self.source}:{self.line}"


@dataclass(frozen=True)
class Document:
    """Plain data (dicts, lists, scalars) and where each of its values was written."""

    data: Any
    origins: Mapping[Location, Origin]
    path: Location = ()
    """Where this document stands in the file it is a part of; messages name fields from there."""

    def origin(self, location: Location) -> Origin:
        """Where the value at `location` was written, or the nearest value around it."""
        for end in range(len(location), -1, -1):
            if location[:end] in self.origins:
                return self.origins[location[:end]]
        return Origin("?", None)

    def at(self, *location: str | int) -> Document:
        """The part of the document below `location`; an absent part is empty."""
        data = self.data
        for key in location:
            data = data.get(key) if isinstance(data, dict) else data[int(key)]
            if data is None:
                break
        depth = len(location)
        below = {where[depth:]: origin for where, origin in self.origins.items() if where[:depth] == location}
        return Document(data, below or {(): self.origin(location)}, (*self.path, *location))

    def without(self, *keys: str) -> Document:
        """The document less these top-level keys."""
        return Document(
            {key: value for key, value in self.data.items() if key not in keys},
            {where: origin for where, origin in self.origins.items() if not where or where[0] not in keys},
            self.path,
        )

    def overlaid(self, other: Document) -> Document:
        """This document with `other` laid over it: mappings merge, anything else is replaced whole."""
        if not (isinstance(self.data, dict) and isinstance(other.data, dict)):
            return other
        data: dict[str, Any] = dict(self.data)
        origins = dict(self.origins)
        for key in other.data:
            theirs = other.at(key)
            merged = self.at(key).overlaid(theirs) if key in data else theirs
            data[key] = merged.data
            origins = {where: origin for where, origin in origins.items() if where[:1] != (key,)}
            origins.update({(key, *where): origin for where, origin in merged.origins.items()})
        return Document(data, origins, self.path)

    def validated(self, model: type[Model]) -> Model:
        """The document as a model. Raises InputError naming file, line and field of every fault."""
        try:
            made = model.model_validate(self.data)
        except ValidationError as error:
            faults = [
                self.fault(_document_location(detail, self.data), _sentence(detail, model)) for detail in error.errors()
            ]
            raise InputError("\n".join(faults)) from None
        endless = [
            self.fault(place, f"found {value}; allowed: finite numbers") for place, value in _endless(made.model_dump())
        ]
        if endless:
            raise InputError("\n".join(endless))
        return made

    def fault(self, location: Location, message: str) -> str:
        """One line on one fault: `file:line: field: what is wrong`."""
        field = ".".join(str(part) for part in (*self.path, *location))
        return f"{self.origin(location)}: {field + ': ' if field else ''}{message}"


def read_document(path: Path) -> Document:
    """The YAML file at `path`. Raises InputError where it cannot be read or is no YAML mapping."""
    try:
        with path.open("rb") as file:
            text = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise InputError("cannot read the file", where=str(path), why=error.strerror) from None
    if len(text) > MAX_BYTES:
        raise InputError(f"larger than {MAX_BYTES} bytes", where=str(path), hint="is this the file you meant?")
    try:
        return parse_document(text.decode("utf-8"), str(path))
    except UnicodeDecodeError as error:
        raise InputError("not UTF-8 text", where=str(path), why=f"byte {error.start}") from None


def parse_document(text: str, source: str) -> Document:
    """YAML text as a document; `source` names it in errors."""
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
    return Document(data, origins)


def _plain(node: Any, source: str, line: int, here: Location, origins: dict[Location, Origin]) -> Any:  # noqa: ANN401 - YAML is any
    """Plain Python data from ruamel's, noting where each value stands."""
    if len(origins) > MAX_VALUES:
        raise InputError(f"too large: more than {MAX_VALUES} values", where=source, hint="does it repeat aliases?")
    if isinstance(node, CommentedMap | CommentedSeq) and node.tag.value is not None:
        raise InputError(f"the tag {node.tag.value} has no place here", where=str(Origin(source, line)))
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
    raise InputError(f"a {type(node).__name__} has no place here", where=str(Origin(source, line)))


def _document_location(detail: ErrorDetails, data: Any) -> Location:  # noqa: ANN401 - YAML is any
    """Pydantic's location without the parts that name types (union members) and not places in the document."""
    place: list[str | int] = []
    for part in detail["loc"]:
        if isinstance(data, Mapping) and (part in data or part == detail["loc"][-1]):
            data = data.get(part) if part in data else None
            place.append(part)
        elif isinstance(data, Sequence) and not isinstance(data, str) and isinstance(part, int) and part < len(data):
            data = data[part]
            place.append(part)
    return tuple(place)


def _endless(value: object, here: Location = ()) -> Iterator[tuple[Location, float]]:
    """The numbers in plain data that are infinite or none, with their places; a text as `1e999` is one of them, too."""
    if isinstance(value, float) and not math.isfinite(value):
        yield here, value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _endless(inner, (*here, key))
    elif isinstance(value, list | tuple):
        for place, inner in enumerate(value):
            yield from _endless(inner, (*here, place))


def _sentence(detail: ErrorDetails, model: type[BaseModel]) -> str:  # noqa: PLR0911 - one for each kind of fault
    """What was found and what is allowed, in words."""
    found = detail["input"]
    context = detail.get("ctx", {})
    match detail["type"]:
        case "extra_forbidden":
            *around, name = detail["loc"]
            return f"no such field; {suggestion(str(name), _fields_of(model, around))}"
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
    """The fields that the model at a location has; none where there is no model."""
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
    return next((names for each in arguments if (names := _fields_of(each, location))), [])
