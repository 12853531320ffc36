"""JSON Schemas of the files that people write, derived from their models: editors complete and check files with them.

A schema accepts what the models accept. The schema of a scenario also accepts `$name`, the level of a factor, for any
value in services and load. What concerns several fields (a service that does not exist, a port used twice) only
`benchkit validate` finds.
"""

from __future__ import annotations

import copy
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
    scenario, defs = _schemas([Scenario])
    cell, cell_defs = _schemas([Load, *service_options().values()])
    cell_defs = {
        name: _mapped(definition, partial(_either, other=_REFERENCE)) for name, definition in cell_defs.items()
    }
    load = _partial(cell_defs.pop(_name(cell[Load])))
    load["properties"]["tool"] = _either({"enum": [*TOOLS]}, _REFERENCE)
    options = {name: copy.deepcopy(cell_defs[_name(cell[model])]) for name, model in service_options().items()}
    root = copy.deepcopy(defs.pop(_name(scenario[Scenario])))
    root["properties"] |= {
        "load": {**_annotations(root["properties"]["load"]), "$ref": f"{_DEFS}Load"},
        "tools": {
            **_annotations(root["properties"]["tools"]),
            "type": "object",
            "propertyNames": {"enum": [*TOOLS]},
            "additionalProperties": {"$ref": f"{_DEFS}Load"},
        },
        "tuning": {
            **root["properties"]["tuning"],
            "type": ["array", "string"],
            "pattern": _REFERENCE_FORM["pattern"],
        },
    }
    defs["Stack"]["properties"]["services"]["additionalProperties"] = {"$ref": f"{_DEFS}Service"}
    _enumerate_metrics(defs)
    at_scale = {name: field for name, field in root["properties"].items() if name not in FIXED}
    scaled = {
        f"{name} at a scale": _mapped(_partial(definition), _to_partial)
        for name, definition in defs.items()
        if name != "Stack"  # stacks are the same at every scale
    }
    root["properties"]["scales"] = {
        "type": "object",
        "description": "fields that each scale overrides",
        "additionalProperties": False,
        "properties": {scale: {"anyOf": [{"$ref": f"{_DEFS}Scale"}, {"type": "null"}]} for scale in get_args(Scale)},
    }
    required = root.pop("required")
    schema = {
        "$schema": DRAFT,
        **root,
        "title": "benchkit scenario",
        "required": [name for name in required if name in FIXED],
        # With scales, each of them may give a field that the top level lacks.
        "if": {"not": {"required": ["scales"]}},
        "then": {"required": required, "properties": {"load": {"required": ["tool"]}}},
        "$defs": {
            **defs,
            **scaled,
            **cell_defs,
            "Load": load,
            "Scale": {
                "type": "object",
                "additionalProperties": False,
                "properties": {name: _to_partial(_mapped(field, _to_partial)) for name, field in at_scale.items()},
            },
            "Reference": _REFERENCE_FORM,
            "Service": _service(options),
            **{
                f"backend {name}": {
                    **each,
                    "title": name,
                    "properties": {**each["properties"], "backend": {"const": name}},
                }
                for name, each in options.items()
            },
        },
    }
    used = _references(schema, schema["$defs"])
    return {**schema, "$defs": {name: definition for name, definition in schema["$defs"].items() if name in used}}


def model_schema(model: type[BaseModel]) -> tuple[Schema, dict[str, Schema]]:
    """Return the schema of a model and the definitions that it refers to."""
    schemas, defs = _schemas([model])
    return defs[_name(schemas[model])], defs


def resolved(schema: Schema, defs: Mapping[str, Schema]) -> Schema:
    """Return the definition that a schema refers to, or the schema itself."""
    return defs[_name(schema)] if "$ref" in schema else schema


def _file_schema(model: type[BaseModel], title: str) -> Schema:
    root, defs = model_schema(model)
    used = {name: definition for name, definition in defs.items() if definition is not root}
    return {"$schema": DRAFT, **root, "title": title, "$defs": used}


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


def _references(schema: Schema, defs: Mapping[str, Schema]) -> set[str]:
    """Return the names of the definitions that a schema refers to, and those that these refer to."""
    used: set[str] = set()
    remaining: list[Any] = [{key: value for key, value in schema.items() if key != "$defs"}]
    while remaining:
        node = remaining.pop()
        if isinstance(node, list):
            remaining += node
        elif isinstance(node, dict):
            remaining += node.values()
            if isinstance(node.get("$ref"), str) and (name := _name(node)) not in used:
                used.add(name)
                remaining.append(defs[name])
    return used


def _name(reference: Schema) -> str:
    return str(reference["$ref"]).removeprefix(_DEFS)


def _service(options: Mapping[str, Schema]) -> Schema:
    """Return the schema of a service, whose backend decides on its options."""

    def case(condition: Schema, then: Schema) -> Schema:
        return {"if": {"required": ["backend"], "properties": {"backend": condition}}, "then": then}

    names = sorted({name for schema in options.values() for name in schema["properties"]})
    return {
        "type": "object",
        "required": ["backend"],
        "properties": {"backend": _either({"enum": [*options]}, _REFERENCE)},
        "allOf": [
            *(case({"const": name}, {"$ref": f"{_DEFS}backend {name}"}) for name in options),
            case(_REFERENCE_FORM, {"propertyNames": {"enum": names}}),
        ],
    }


def _enumerate_metrics(defs: Mapping[str, Schema]) -> None:
    """Set the allowed metrics, which the models leave to a validator that names the nearest one."""
    for name in ("Claim", "AskedRatio"):
        named = {"enum": [*METRICS, *CLAIM_METRICS]}
        defs[name]["properties"]["metric"]["anyOf"] = [named, {"pattern": f"^{COMPONENT_FORM}$"}]
    defs["StopCondition"]["properties"]["metrics"]["items"] = {"enum": [*METRICS]}


def _partial(definition: Schema) -> Schema:
    """Return a mapping of which every part may be absent, because another mapping has it."""
    return {key: value for key, value in definition.items() if key not in {"required", "minProperties"}}


def _to_partial(schema: Schema) -> Schema:
    """Refer to the definitions for scales; lists are replaced whole, so that their items stay complete."""
    schema = _partial(schema) if schema.get("type") == "object" else schema
    if "$ref" in schema and _name(schema) != "Load":
        return {**schema, "$ref": f"{schema['$ref']} at a scale"}
    return schema


def _either(schema: Schema, other: Schema) -> Schema:
    notes = _annotations(schema)
    rest = {key: value for key, value in schema.items() if key not in notes}
    members = rest["anyOf"] if set(rest) == {"anyOf"} else [rest]
    return {**notes, "anyOf": [*members, other]}


def _annotations(schema: Schema) -> Schema:
    return {key: value for key, value in schema.items() if key in {"title", "description", "default", "examples"}}


def _plain(node: Any) -> Any:  # noqa: ANN401 - any part of a schema
    """Return a part of a schema without generated titles, in terms of draft 7, with all names of mappings checked."""
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


def _mapped(schema: Schema, change: Callable[[Schema], Schema]) -> Schema:
    """Return a definition, or the properties of one, with every schema of a value in it changed."""
    if "$ref" in schema or "const" in schema:
        return dict(schema)
    mapped = dict(schema)
    for key, value in schema.items():
        if key in {"items", "additionalProperties"} and isinstance(value, dict):
            mapped[key] = value if change is _to_partial and key == "items" else change(_mapped(value, change))
        elif key == "properties":
            mapped[key] = {name: change(_mapped(each, change)) for name, each in value.items()}
        elif key == "anyOf":
            mapped[key] = [_mapped(each, change) for each in value]
    return mapped
