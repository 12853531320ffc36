"""JSON Schemas of the files that people write, derived from their models: editors complete and check files with them.

A schema accepts what the models accept. The schema of a scenario also accepts `$name`, the level of a factor, for any
value in services and load. Missing fields within a part, and what concerns several fields (a service that does not
exist, a port used twice), only `benchkit validate` finds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, get_args

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from benchkit.hosts.inventory import InventoryContent
from benchkit.loadtools.registry import TOOLS
from benchkit.models import Scale
from benchkit.models.load import Load
from benchkit.models.metrics import CLAIM_METRICS, COMPONENT_FORM, METRICS
from benchkit.scenario.experiment import Tuning
from benchkit.scenario.model import Scenario
from benchkit.scenario.read import FIXED
from benchkit.services.registry import service_options

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
    properties["tuning"] |= {"type": ["array", "string"], "pattern": _REFERENCE_FORM["pattern"]}
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


def _file_schema(model: type[BaseModel], title: str) -> Schema:
    root, defs = model_schema(model)
    return {"$schema": DRAFT, **root, "title": title, "$defs": _used(root, defs)}


SCHEMAS: Mapping[str, Callable[[], Schema]] = {
    "scenario": scenario_schema,
    "inventory": partial(_file_schema, InventoryContent, "benchkit inventory"),
    "tuning-file": partial(_file_schema, Tuning, "benchkit tuning file"),
}
"""Schemas by the kind of file that they describe."""


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
