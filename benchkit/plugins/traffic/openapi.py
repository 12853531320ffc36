"""The operations of an OpenAPI description (version 3) as requests with example values."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote, urlsplit

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from benchkit.errors import InputError
from benchkit.models.traffic import Traffic, TrafficRequest
from benchkit.plugins.traffic.requests import SAFE

METHODS = ("get", "head", "options", "post", "put", "patch", "delete")
MAX_DEPTH = 8
"""Depth to which a schema without an example is followed; references may form circles."""

STATED = ("example", "default", "const")
"""Keywords of a schema with a value."""

_BY_TYPE: Mapping[str, Any] = {"integer": 1, "number": 1, "boolean": True, "string": "a"}
"""Values of schemas that state no example, default or list of values."""


def read_description(data: bytes) -> Mapping[str, Any] | None:
    """Return an OpenAPI description, in JSON or YAML; None for anything else."""
    if b"openapi" not in data[:4096]:
        return None
    try:
        document = YAML(typ="safe").load(io.BytesIO(data))
    except (YAMLError, ValueError, RecursionError):
        return None
    is_description = (
        isinstance(document, Mapping) and "openapi" in document and isinstance(document.get("paths"), Mapping)
    )
    return document if is_description else None


def traffic_of_description(document: Mapping[str, Any], source: str, *, safe_only: bool = True) -> Traffic:
    """Return one request for each operation, all equally often. Raises InputError where there is none."""
    description = _Description(document)
    operations = list(description.operations())
    kept = [each for each in operations if each.method in SAFE or not safe_only]
    if not kept:
        raise InputError("no operation is left", where=source, hint="--all-methods sends those that change data, too")
    notes = ["an API description states no shares: each operation is sent equally often, with example values"]
    if missing := len(operations) - len(kept):
        notes.append(f"{missing} operations that may change the server are left out")
    return Traffic(source=f"{source} (OpenAPI)", lines=len(kept), requests=tuple(kept), notes=tuple(notes))


class _Description:
    def __init__(self, document: Mapping[str, Any]) -> None:
        self._document = document
        servers = document.get("servers") or [{}]
        url = servers[0].get("url", "") if isinstance(servers[0], Mapping) else ""
        self._base = urlsplit(str(url)).path.rstrip("/")

    def operations(self) -> Iterator[TrafficRequest]:
        for template, item in self._document["paths"].items():
            of_path = self._resolved(item)
            for method in METHODS:
                if isinstance(operation := of_path.get(method), Mapping):
                    yield self._request(str(template), method.upper(), of_path, operation)

    def _request(
        self, template: str, method: str, of_path: Mapping[str, Any], operation: Mapping[str, Any]
    ) -> TrafficRequest:
        both = [*of_path.get("parameters", ()), *operation.get("parameters", ())]
        parameters = {(each.get("in"), each.get("name")): each for each in map(self._resolved, both)}
        path, query, headers = f"{self._base}{template}", [], {}
        for (place, name), parameter in parameters.items():
            if place != "path" and not parameter.get("required"):
                continue
            value = self._example(parameter, parameter.get("schema"))
            text = value if isinstance(value, str) else json.dumps(value)
            if place == "path":
                path = path.replace(f"{{{name}}}", quote(text, safe=""))
            elif place == "query":
                query.append(f"{quote(str(name))}={quote(text, safe='')}")
            elif place == "header":
                headers[str(name)] = text
        body = self._resolved(operation.get("requestBody")).get("content", {})
        content = self._resolved(body.get("application/json"))
        if content:
            headers["Content-Type"] = "application/json"
        return TrafficRequest(
            kind=f"{method} {self._base}{template}",
            method=method,
            path=path + (f"?{'&'.join(query)}" if query else ""),
            headers=headers,
            body=json.dumps(self._example(content, content.get("schema"))) if content else None,
            weight=1,
        )

    def _resolved(self, part: object) -> Mapping[str, Any]:
        """Return a part of the document, or what its reference within the document names."""
        for _ in range(MAX_DEPTH):
            if not isinstance(part, Mapping):
                return {}
            reference = part.get("$ref")
            if not isinstance(reference, str):
                return part
            part = self._document
            for name in reference.removeprefix("#/").split("/"):
                part = part.get(name.replace("~1", "/").replace("~0", "~")) if isinstance(part, Mapping) else None
        return {}

    def _example(self, holder: Mapping[str, Any], schema: object) -> Any:  # noqa: ANN401 - JSON
        """Return the example of a parameter or content, else one that its schema has or allows."""
        if "example" in holder:
            return holder["example"]
        if isinstance(examples := holder.get("examples"), Mapping) and examples:
            return self._resolved(next(iter(examples.values()))).get("value")
        return self._value(schema, 0)

    def _value(self, schema: object, depth: int) -> Any:  # noqa: ANN401 - JSON
        """Return a value of a schema: the stated one, else one made of its parts' values."""
        resolved = self._resolved(schema)
        if stated := [resolved[name] for name in STATED if name in resolved]:
            return stated[0]
        if listed := [each for name in ("enum", "examples") for each in resolved.get(name, ())]:
            return listed[0]
        if depth < MAX_DEPTH:
            for name in ("oneOf", "anyOf"):
                if name in resolved:
                    return self._value(resolved[name][0], depth + 1)
            parts = [each for part in resolved.get("allOf", ()) for each in self._properties(part, depth)]
            if members := [*parts, *self._properties(resolved, depth)]:
                return dict(members)
            if "items" in resolved:
                return [self._value(resolved["items"], depth + 1)]
        return resolved.get("minimum", _BY_TYPE.get(str(resolved.get("type")), "a"))

    def _properties(self, schema: object, depth: int) -> Iterator[tuple[str, Any]]:
        for name, each in self._resolved(schema).get("properties", {}).items():
            yield str(name), self._value(each, depth + 1)
