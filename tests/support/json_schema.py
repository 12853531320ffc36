"""Validation by JSON Schema, with the reference library."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def validator(schema: Mapping[str, Any]) -> Any:  # noqa: ANN401 - jsonschema has no types
    """Return the validator of a schema (Draft 7), which is checked itself."""
    import jsonschema  # noqa: PLC0415 - with all formats its import takes a second, in each process that collects tests

    jsonschema.Draft7Validator.check_schema(schema)
    return jsonschema.Draft7Validator(schema)
