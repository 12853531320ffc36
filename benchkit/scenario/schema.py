"""The fields of the files that people write, and the JSON Schema of scenarios, derived from their models.

Editors complete and check scenarios with the schema, which accepts what the models accept, and `$name`, the level of a
factor, for any value in services and load. Missing fields within a part, and what concerns several fields (a service
that does not exist, a port used twice), only `benchkit validate` finds.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic.json_schema import models_json_schema
from pydantic_core import to_jsonable_python

from benchkit.errors import InputError, suggestion
from benchkit.hosts.inventory import InventoryContent
from benchkit.loadtools.registry import TOOLS
from benchkit.models import Scale
from benchkit.models.load import Load
from benchkit.models.metrics import CLAIM_METRICS, COMPONENT_FORM, METRICS
from benchkit.scenario.experiment import Tuning
from benchkit.scenario.model import Scenario
from benchkit.scenario.read import FIXED
from benchkit.services.backend import ServiceOptions
from benchkit.services.registry import BACKENDS, service_options

Schema = dict[str, Any]
"""A JSON Schema, as JSON has it."""

DRAFT = "http://json-schema.org/draft-07/schema#"
"""The newest draft that the editors' language server for YAML supports in full."""

_DEFS = "#/$defs/"
_REFERENCE: Schema = {"$ref": f"{_DEFS}Reference"}
_REFERENCE_FORM: Schema = {
    "type": "string",
    "pattern": r"^\$([A-Za-z_][A-Za-z0-9_-]*|\$.*)$",
    "description": "the level of a factor ($name), or text that begins with a dollar sign ($$text)",
}


def scenario_schema() -> Schema:
    """Return the schema of scenario files."""
    root, defs = model_schema(Scenario)
    cell_schemas, cell_defs = _schemas([Load, *service_options().values()])
    cell_defs = {name: _with_references(definition) for name, definition in cell_defs.items()}
    load = cell_defs.pop(_name(cell_schemas[Load]))
    load["properties"]["tool"] = {"anyOf": [{"enum": [*TOOLS]}, _REFERENCE]}
    options = {name: cell_defs[_name(cell_schemas[model])] for name, model in service_options().items()}
    # A value that a mapping lacks may come from another scale, or from the load that `tools` overrides.
    partial_defs = {
        name: {key: value for key, value in each.items() if key not in {"required", "minProperties"}}
        for name, each in {**defs, **cell_defs, "Load": load}.items()
        if name not in {"Scenario", "Claim", "Stack"}
    }
    stack, claim = defs["Stack"], defs["Claim"]
    stack["properties"]["services"]["additionalProperties"] = {"$ref": f"{_DEFS}Service"}
    metric = {"anyOf": [{"enum": [*METRICS, *CLAIM_METRICS]}, {"pattern": f"^{COMPONENT_FORM}$"}]}
    for definition in (claim, partial_defs["AskedRatio"]):  # the models leave metrics to a check that names the nearest
        definition["properties"]["metric"] |= metric
    partial_defs["StopCondition"]["properties"]["metrics"]["items"] = {"enum": [*METRICS]}
    properties = root["properties"]
    properties["load"] = {**_annotations(properties["load"]), "$ref": f"{_DEFS}Load"}
    properties["tools"] |= {"propertyNames": {"enum": [*TOOLS]}, "additionalProperties": {"$ref": f"{_DEFS}Load"}}
    at_scale = {
        "type": "object",
        "additionalProperties": False,
        "properties": {name: field for name, field in properties.items() if name not in FIXED},
    }
    scales = {
        "type": "object",
        "description": "fields that each scale overrides",
        "additionalProperties": False,
        "properties": {scale: {"anyOf": [{"$ref": f"{_DEFS}Scale"}, {"type": "null"}]} for scale in get_args(Scale)},
    }
    required = root["required"]
    schema = {
        "$schema": DRAFT,
        **root,
        "title": "benchkit scenario",
        "properties": {**properties, "scales": scales},
        "required": [name for name in required if name in FIXED],
        # With scales, each of them may give a field that the top level lacks.
        "if": {"not": {"required": ["scales"]}},
        "then": {"required": required, "properties": {"load": {"required": ["tool"]}}},
    }
    definitions = {
        **partial_defs,
        "Stack": stack,
        "Claim": claim,
        "Scale": at_scale,
        "Reference": _REFERENCE_FORM,
        "Service": _service(options),
        **{
            f"backend {name}": {**each, "title": name, "properties": {**each["properties"], "backend": {"const": name}}}
            for name, each in options.items()
        },
    }
    return {**schema, "$defs": _used(schema, definitions)}


def model_schema(model: type[BaseModel]) -> tuple[Schema, dict[str, Schema]]:
    """Return the schema of a model and the definitions that it refers to."""
    schemas, defs = _schemas([model])
    return defs[_name(schemas[model])], defs


def resolved(schema: Schema, defs: Mapping[str, Schema]) -> Schema:
    """Return the definition that a schema refers to, or the schema itself."""
    return defs[_name(schema)] if "$ref" in schema else schema


def _schemas(models: Iterable[type[BaseModel]]) -> tuple[dict[type[BaseModel], Schema], dict[str, Schema]]:
    wanted = tuple(dict.fromkeys(models))
    references, document = models_json_schema(
        [(model, "validation") for model in wanted], ref_template=f"{_DEFS}{{model}}"
    )
    defs: dict[str, Schema] = _plain(document["$defs"])
    return {model: references[model, "validation"] for model in wanted}, defs


def _used(schema: Schema, defs: Mapping[str, Schema]) -> dict[str, Schema]:
    used: dict[str, Schema] = {}
    remaining: list[Any] = [schema]
    while remaining:
        node = remaining.pop()
        if isinstance(node, list):
            remaining += node
        elif isinstance(node, dict):
            remaining += node.values()
            if isinstance(node.get("$ref"), str) and (name := _name(node)) not in used:
                used[name] = defs[name]
                remaining.append(defs[name])
    return dict(sorted(used.items()))


def _name(reference: Schema) -> str:
    return str(reference["$ref"]).removeprefix(_DEFS)


def _service(options: Mapping[str, Schema]) -> Schema:

    def case(condition: Schema, then: Schema) -> Schema:
        return {"if": {"required": ["backend"], "properties": {"backend": condition}}, "then": then}

    names = sorted({name for schema in options.values() for name in schema["properties"]})
    return {
        "type": "object",
        "required": ["backend"],
        "properties": {"backend": {"anyOf": [{"enum": [*options]}, _REFERENCE]}},
        "allOf": [
            *(case({"const": name}, {"$ref": f"{_DEFS}backend {name}"}) for name in options),
            case(_REFERENCE_FORM, {"propertyNames": {"enum": names}}),
        ],
    }


def _annotations(schema: Schema) -> Schema:
    return {key: value for key, value in schema.items() if key in {"title", "description", "default", "examples"}}


def _plain(node: Any) -> Any:  # noqa: ANN401 - any part of a schema
    if isinstance(node, list):
        return [_plain(item) for item in node]
    if not isinstance(node, dict):
        return node
    plain = {key: _plain(value) for key, value in node.items() if not (key == "title" and isinstance(value, str))}
    if isinstance(plain.get("prefixItems"), list):
        plain["items"] = plain.pop("prefixItems")
    if isinstance(plain.get("patternProperties"), dict):
        ((pattern, value),) = plain.pop("patternProperties").items()
        plain |= {"propertyNames": {"pattern": pattern}, "additionalProperties": value}
    return plain


def _with_references(schema: Schema) -> Schema:
    if "$ref" in schema or "const" in schema:
        return dict(schema)
    changed = dict(schema)
    for key, value in schema.items():
        if key in {"items", "additionalProperties"} and isinstance(value, dict):
            changed[key] = _or_reference(value)
        elif key == "properties":
            changed[key] = {name: _or_reference(each) for name, each in value.items()}
        elif key == "anyOf":
            changed[key] = [_with_references(each) for each in value]
    return changed


def _or_reference(schema: Schema) -> Schema:
    schema = _with_references(schema)
    notes = _annotations(schema)
    rest = {key: value for key, value in schema.items() if key not in notes}
    members = rest["anyOf"] if set(rest) == {"anyOf"} else [rest]
    return {**notes, "anyOf": [*members, _REFERENCE]}


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
