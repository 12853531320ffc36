"""YAML files validated into models, with errors that name file, line and field.

Files are data: YAML 1.2, no object construction, no duplicate keys. A document keeps the line of every value, also
after a merge with others: an error names the line that holds the wrong value.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails
from ruamel.yaml import YAML
from ruamel.yaml.composer import Composer
from ruamel.yaml.constructor import SafeConstructor
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from benchkit.errors import InputError
from benchkit.validation import Location, fault_messages

Model = TypeVar("Model", bound=BaseModel)

MAX_BYTES = 1 << 20
"""Largest file that is read; no scenario or inventory comes near one mebibyte."""

MAX_VALUES = 50_000
"""Largest number of values in a document; aliases of aliases can make a huge document of a small file."""

MAX_DEPTH = 50
"""Largest number of mappings and lists in one another; no model has more than ten."""

MAX_INTEGER_BITS = 64
"""Largest size of an integer; Python refuses to print integers of more than 4,300 digits."""

_TAG = "tag:yaml.org,2002:"
_SCALARS = frozenset(_TAG + name for name in ("null", "bool", "int", "float", "str"))
_KEY = "[key]"
"""Last part of pydantic's location for a fault in the name of a value, not in the value."""
_MERGE, _DATE = f"{_TAG}merge", f"{_TAG}timestamp"


@dataclass(frozen=True)
class Origin:
    """File and line of a value; the source is an option or the command line where no file has the value."""

    source: str
    line: int | None

    def __str__(self) -> str:
        """Return `file:line`, as editors take it."""
        return self.source if self.line is None else f"{self.source}:{self.line}"


@dataclass(frozen=True)
class Origins:
    """The origin of a value, and the origins of the values in it."""

    origin: Origin
    inner: Mapping[str | int, Origins] = field(default_factory=dict)


@dataclass(frozen=True)
class SourceMap:
    """Files and lines of the values of a document, for messages about them."""

    origins: Origins
    path: Location = ()
    """Location of the document in the file that it is a part of; messages name fields from there."""

    def origin(self, location: Location = ()) -> Origin:
        """Return the origin of the value at `location`, or of the nearest value that contains it."""
        return self.at(*location).origins.origin

    def at(self, *location: str | int) -> SourceMap:
        """Return the source map of the part below `location`."""
        origins: Origins = self.origins
        for key in location:
            origins = origins.inner.get(key) or Origins(origins.origin)
        return SourceMap(origins, (*self.path, *location))

    def fault(self, location: Location, message: str) -> str:
        """Return a one-line message about the value at `location`: `file:line: field: what is wrong`."""
        field = ".".join(str(part) for part in (*self.path, *location))
        return f"{self.origin(location)}: {field + ': ' if field else ''}{message}"

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
    """Plain data (dicts, lists, scalars) with the origins of its values."""

    data: Any
    source: SourceMap

    def at(self, *location: str | int) -> Document:
        """Return the part of the document below `location`; the data of an absent part is None."""
        data = self.data
        for key in location:
            if data is None:
                break
            data = data.get(key) if isinstance(data, dict) else data[int(key)]
        return Document(data, self.source.at(*location))

    def without(self, *keys: str) -> Document:
        """Return the document without these top-level keys."""
        origins = self.source.origins
        inner = {key: value for key, value in origins.inner.items() if key not in keys}
        data = {key: value for key, value in self.data.items() if key not in keys}
        return Document(data, SourceMap(Origins(origins.origin, inner), self.source.path))

    def overridden(self, other: Document) -> Document:
        """Return the document with values overridden by those of `other`: mappings merge, all else is replaced."""
        if not (isinstance(self.data, dict) and isinstance(other.data, dict)):
            return other
        data: dict[str, Any] = dict(self.data)
        inner = dict(self.source.origins.inner)
        for key in other.data:
            override = other.at(key)
            merged = self.at(key).overridden(override) if key in data else override
            data[key], inner[key] = merged.data, merged.source.origins
        return Document(data, SourceMap(Origins(self.source.origins.origin, inner), self.source.path))

    def validated(self, model: type[Model]) -> Model:
        """Return the document as a model. Raises InputError naming file, line and field of every fault."""
        try:
            validated = model.model_validate(self.data)
        except ValidationError as error:
            located = ((_document_location(detail, self.data), detail) for detail in error.errors())
            faults = [self.fault(location, message) for location, message in fault_messages(located, model)]
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
            f"the file is too large: more than {MAX_BYTES:,} bytes",
            where=str(path),
            hint="check that this is the right file",
        )
    try:
        return parse_document(text.decode("utf-8"), str(path))
    except UnicodeDecodeError as error:
        raise InputError("not UTF-8 text", where=str(path), why=f"byte {error.start} is invalid") from None


def parse_document(text: str, source: str) -> Document:
    """Parse YAML text into a document; `source` names it in errors. Raises InputError."""
    yaml = YAML(typ="safe", pure=True)
    yaml.Composer = _BoundedComposer
    try:
        root = yaml.compose(io.StringIO(text))
        if not isinstance(root, MappingNode):
            what = "the file is empty" if root is None else "expected a mapping of names to values"
            raise InputError(what, where=str(Origin(source, 1)))
        data, origins = _Conversion(source, yaml.constructor).convert(root, 1)
    except _BoundError as error:
        raise InputError(error.what, where=str(Origin(source, error.line)), hint=error.hint) from None
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = None if mark is None else mark.line + 1
        raise InputError(f"not valid YAML: {_yaml_fault(error)}", where=str(Origin(source, line))) from None
    except (YAMLError, ValueError) as error:
        raise InputError(f"not valid YAML: {error}", where=source) from None
    return Document(data, SourceMap(origins))


class _BoundError(Exception):
    """A document that exceeds a limit, at a line."""

    def __init__(self, what: str, line: int, hint: str) -> None:
        super().__init__(what)
        self.what, self.line, self.hint = what, line, hint


def _require_bounds(values: int, depth: int, line: int) -> None:
    if values > MAX_VALUES:
        what = f"too large: more than {MAX_VALUES:,} values"
        raise _BoundError(what, line, "shorten its lists, and remove aliases that repeat others")
    if depth > MAX_DEPTH:
        what = f"nested too deeply: more than {MAX_DEPTH} levels of mappings and lists"
        raise _BoundError(what, line, "check the brackets and the indentation")


class _BoundedComposer(Composer):
    """ruamel's composer, with limits on depth and number of values."""

    def __init__(self, loader: Any = None) -> None:  # noqa: ANN401 - ruamel's own type is Any
        super().__init__(loader=loader)
        self._depth = self._values = 0

    def compose_node(self, parent: Any, index: Any) -> Any:  # noqa: ANN401
        """Compose the next node. Raises _BoundError beyond a limit."""
        line = self.parser.peek_event().start_mark.line + 1
        is_key = parent is not None and index is None
        self._values += not is_key
        self._depth += 1
        _require_bounds(self._values, self._depth, line)
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node


@dataclass
class _Conversion:
    source: str
    constructor: SafeConstructor
    values: int = 0
    depth: int = 0

    def convert(self, node: Node, line: int) -> tuple[Any, Origins]:
        """Return the data of a node and its origins; `line` is where the value, or the alias of it, stands.

        Raises InputError for anything but plain data, _BoundError beyond a limit: an alias repeats all values of its
        anchor.
        """
        self.values += 1
        self.depth += 1
        _require_bounds(self.values, self.depth, line)
        converted = self._convert(node, line)
        self.depth -= 1
        return converted

    def _convert(self, node: Node, line: int) -> tuple[Any, Origins]:
        origin = Origin(self.source, line)
        if isinstance(node, MappingNode) and node.tag == f"{_TAG}map":
            values, inner = self._mapping(node)
            return values, Origins(origin, inner)
        if isinstance(node, SequenceNode) and node.tag == f"{_TAG}seq":
            items = [self.convert(item, item.start_mark.line + 1) for item in node.value]
            return [item for item, _ in items], Origins(origin, {i: origins for i, (_, origins) in enumerate(items)})
        if isinstance(node, ScalarNode) and node.tag in _SCALARS:
            return self._scalar(node, origin), Origins(origin)
        if node.tag == _DATE:
            raise InputError(f"found the date {node.value}; quote it to make it text", where=str(origin))
        raise InputError(f"the tag {str(node.tag).replace(_TAG, '!!')} is not allowed", where=str(origin))

    def _scalar(self, node: ScalarNode, origin: Origin) -> Any:  # noqa: ANN401
        """Return text, a number, a truth value or None. Raises InputError for integers beyond `MAX_INTEGER_BITS`."""
        try:
            value = self.constructor.construct_object(node, deep=True)
        except ValueError:  # Python reads no integer of more than 4,300 digits
            if node.tag != f"{_TAG}int":
                raise
            value = 1 << MAX_INTEGER_BITS
        if isinstance(value, int) and value.bit_length() > MAX_INTEGER_BITS:
            raise InputError(f"the integer has more than {MAX_INTEGER_BITS} bits", where=str(origin))
        return value

    def _mapping(self, node: MappingNode) -> tuple[dict[str, Any], dict[str | int, Origins]]:
        """Return the values of a mapping by name; its own override those of the mappings that `<<` merges into it."""
        own: dict[str, Any] = {}
        inner: dict[str | int, Origins] = {}
        merged: list[Node] = []
        for key, value in node.value:
            line = key.start_mark.line + 1
            if key.tag == _MERGE:
                merged += value.value if isinstance(value, SequenceNode) else [value]
                continue
            name = self._name(key, line)
            if name in own:
                raise InputError(f"the name {name!r} stands here twice", where=str(Origin(self.source, line)))
            own[name], inner[name] = self.convert(value, line)
        for base in merged:
            line = base.start_mark.line + 1
            data, origins = self.convert(base, line)
            if not isinstance(data, dict):
                raise InputError("`<<` merges mappings only", where=str(Origin(self.source, line)))
            own = {**data, **own}
            inner = {**origins.inner, **inner}
        return own, inner

    def _name(self, key: Node, line: int) -> str:
        name = self.constructor.construct_object(key, deep=True) if key.tag in _SCALARS else None
        if not isinstance(name, str):
            shown = key.value if isinstance(key, ScalarNode) else "given here"
            raise InputError(f"the name {shown} is not text; quote it", where=str(Origin(self.source, line)))
        return name


def _yaml_fault(error: MarkedYAMLError) -> str:
    """Return what is wrong with YAML text, and how to mend the two faults that people make most."""
    problem = str(error.problem or error.context)
    if problem.startswith("found character") and "cannot start any token" in problem:
        character = problem.split("'")[1]
        if character in ("\t", "\\t"):
            return "found a tab where YAML allows spaces only; use spaces"
        return f"no value may begin with {character}; quote the text"
    return problem


def _document_location(detail: ErrorDetails, data: Any) -> Location:  # noqa: ANN401 - YAML is any
    """Return pydantic's location without the parts that name union members instead of places in the document."""
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
