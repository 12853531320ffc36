"""The fields of scenarios, inventories and tuning files, with type, default, allowed values and an example.

All of it comes from the models; parts are what a user asks for by name (`load`, `services`, `nginx`, `inventory`, …).
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import to_jsonable_python

from benchkit.errors import InputError, suggestion
from benchkit.hosts.inventory import InventoryContent
from benchkit.models.load import Load
from benchkit.scenario.experiment import Tuning
from benchkit.scenario.model import Scenario
from benchkit.scenario.schema import Schema, model_schema, resolved
from benchkit.services.backend import ServiceOptions
from benchkit.services.registry import BACKENDS, service_options

_PLAIN = re.compile(r"[A-Za-z/_][A-Za-z0-9/_-]*")
"""Text that YAML needs no quotes for."""

_TYPES = {
    "boolean": "true | false",
    "integer": "a whole number",
    "number": "a number",
    "string": "text",
    "null": "null",
}
"""Types of JSON Schema in words."""


@dataclass(frozen=True)
class FieldDescription:
    """One field of a part."""

    name: str
    """Path of the field in its part: `ratio.of`, `hosts.<name>.address`."""
    type: str
    """Allowed values in words: `a whole number above 0, or null`."""
    required: bool
    default: object
    """None also for a required field."""
    example: object
    description: str


@dataclass(frozen=True)
class FilePart:
    """The fields of one part of a file."""

    name: str
    summary: str
    model: type[BaseModel]

    @property
    def fields(self) -> tuple[FieldDescription, ...]:
        """All fields, of mappings in mappings too, unless these are parts of their own."""
        backend = self.name if self.name in service_options() else None
        return tuple(_fields(self.model, "", split=self.model is Scenario, backend=backend))


def parts() -> Mapping[str, FilePart]:
    """Return all parts by name: the scenario, its fields that have fields, the backends, and the other files."""
    of_scenario = {
        name: model
        for name, field in Scenario.model_fields.items()
        if name != "stacks" and (model := _model_in(field.annotation)) is not None
    }
    models: dict[str, type[BaseModel]] = {
        "scenario": Scenario,
        **of_scenario,
        "load": Load,
        "services": ServiceOptions,
        **service_options(),
        "tuning-file": Tuning,
        "inventory": InventoryContent,
    }
    return {name: FilePart(name, _summary(name, model), model) for name, model in models.items()}


def find_part(name: str) -> FilePart:
    """Return the part of that name. Raises InputError naming all parts."""
    known = parts()
    if name not in known:
        raise InputError(f"no part {name!r}", why=suggestion(name, known))
    return known[name]


def _summary(name: str, model: type[BaseModel]) -> str:
    if name in BACKENDS:
        return inspect.getdoc(type(BACKENDS[name])) or ""
    return (inspect.getdoc(model) or "").split("\n\n", maxsplit=1)[0].replace("\n", " ")


def _fields(
    model: type[BaseModel], prefix: str, *, split: bool, backend: str | None = None
) -> Iterator[FieldDescription]:
    """Yield the fields of a model, of `backend` if given; with `split`, models within it are parts of their own."""
    schema, defs = model_schema(model)
    for name, field in model.model_fields.items():
        inner = None if split else _model_in(field.annotation)
        written = field.alias or name
        node = schema["properties"][written]
        default = None if field.is_required() else to_jsonable_python(field.get_default(call_default_factory=True))
        yield FieldDescription(
            name=prefix + written,
            type=_type_text(node, defs),
            required=field.is_required(),
            default=default,
            example=backend if name == "backend" and backend else _example(field, node, default),
            description=(field.description or "").strip(),
        )
        if inner is not None:
            key = ".<name>" if _is_mapping(field.annotation) else ""
            yield from _fields(inner, f"{prefix}{name}{key}.", split=False)


def _example(field: FieldInfo, node: Schema, default: object) -> object:
    """Return the example of a field: the first that it states, else another allowed value, else its default."""
    if field.examples:
        return field.examples[0]
    choices = [choice for choice in _choices(node) if choice != default]
    return choices[-1] if choices else default


def _choices(node: Schema) -> list[object]:
    if "anyOf" in node:
        members = [_choices(member) for member in node["anyOf"] if member.get("type") != "null"]
        return [choice for choices in members for choice in choices] if all(members) else []
    if node.get("type") == "boolean":
        return [True, False] if "const" not in node else [node["const"]]
    return [node["const"]] if "const" in node else list(node.get("enum", ()))


def _type_text(node: Schema, defs: Mapping[str, Schema]) -> str:
    node = resolved(node, defs)
    if "anyOf" in node:
        return ", or ".join(dict.fromkeys(_type_text(member, defs) for member in node["anyOf"]))
    if "const" in node or "enum" in node:
        return " | ".join(map(as_text, node.get("enum", [node.get("const")])))
    match node.get("type"):
        case "array":
            return _list_text(node.get("items", {}), defs)
        case "object":
            return _mapping_text(node, defs)
        case "string" if "pattern" in node:
            return f"text of the form {node['pattern']}"
        case kind:
            return _TYPES.get(str(kind), "any value") + _bounds(node)


def _list_text(items: Schema | list[Schema], defs: Mapping[str, Schema]) -> str:
    if isinstance(items, list):
        return f"a list of {len(items)}, each {_type_text(items[0], defs)}"
    return f"a list, each {_type_text(items, defs)}"


def _mapping_text(node: Schema, defs: Mapping[str, Schema]) -> str:
    if "properties" in node:
        return f"a mapping with the fields {', '.join(node['properties'])}"
    values = node.get("additionalProperties")
    return f"a mapping of names to {_type_text(values, defs)}" if isinstance(values, dict) and values else "a mapping"


def _bounds(node: Schema) -> str:
    words = {"exclusiveMinimum": "above", "minimum": "from", "exclusiveMaximum": "below", "maximum": "up to"}
    return "".join(f" {word} {node[key]:g}" for key, word in words.items() if key in node)


def as_text(value: object) -> str:
    """Return a value as YAML in one line; JSON is YAML, and text needs quotes only where it could be something else."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {as_text(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(as_text, value)) + "]"
    is_plain = isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in {"true", "false", "null"}
    return str(value) if is_plain else json.dumps(value)


def _model_in(annotation: Any) -> type[BaseModel] | None:  # noqa: ANN401 - types of any form
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((model for each in get_args(annotation) if (model := _model_in(each)) is not None), None)


def _is_mapping(annotation: Any) -> bool:  # noqa: ANN401
    if get_origin(annotation) is Annotated:
        return _is_mapping(get_args(annotation)[0])
    origin = get_origin(annotation)
    return isinstance(origin, type) and issubclass(origin, Mapping)
