"""Messages about the faults that pydantic finds in data, each with the allowed values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Annotated, Any, get_args, get_origin

from pydantic import AfterValidator, BaseModel, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from benchkit.errors import suggestion

Location = tuple[str | int, ...]
"""Names and list positions that lead to a value."""


def matching(pattern: re.Pattern[str], allowed: str) -> AfterValidator:
    """Return a validator of texts that match a whole pattern; `allowed` describes these texts in its message."""

    def validate(text: str) -> str:
        if not pattern.fullmatch(text):
            raise ValueError(f"found {text!r}; allowed: {allowed}")
        return text

    return AfterValidator(validate)


_MAPPING, _LIST = "a mapping of names to values", "a list"
ALLOWED: Mapping[str, str] = {
    "none_required": "null",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "string_type": "text",
    "dict_type": _MAPPING,
    "mapping_type": _MAPPING,
    "model_type": _MAPPING,
    "list_type": _LIST,
    "tuple_type": _LIST,
    "string_pattern_mismatch": "text of the form {pattern}",
    "too_short": "at least {min_length} of them",
    "too_long": "at most {max_length} of them",
}
"""Allowed values by type of pydantic's error, in the words of YAML; for other types pydantic's message is used."""

_SHOWN = 100
"""Most characters of a wrong value in a message."""


def fault_messages(
    faults: Iterable[tuple[Location, ErrorDetails]], model: type[BaseModel]
) -> list[tuple[Location, str]]:
    """Return one message for each location and kind of fault, with the value there and all allowed values.

    pydantic reports a value that fits no member of a union once for each member.
    """
    messages: dict[tuple[Location, str], list[str]] = {}
    for location, detail in faults:
        what, allowed = _parts(detail, model)
        entry = messages.setdefault((location, what), [])
        if allowed is not None and allowed not in entry:
            entry.append(allowed)
    return [
        (location, f"{what}; allowed: {', or '.join(allowed)}" if allowed else what)
        for (location, what), allowed in messages.items()
    ]


def first_fault(error: ValidationError, model: type[BaseModel] = BaseModel) -> str:
    """Return the first fault of data without lines, such as JSON: `field: what was found; what is allowed`.

    With the `model` that rejected the data, the message on an unknown field lists the known fields.
    """
    details = error.errors(include_url=False)
    location, message = fault_messages([(detail["loc"], detail) for detail in details], model)[0]
    field = ".".join(map(str, location))
    return f"{field}: {message}" if field else message


def is_valid_name(value: str, kind: Any) -> bool:  # noqa: ANN401 - an annotated type
    """Return True if a text is a name of this type, such as `RunId`, and thus safe in a path."""
    try:
        _adapter(kind).validate_python(value)
    except ValidationError:
        return False
    return True


@cache
def _adapter(kind: Any) -> TypeAdapter[str]:  # noqa: ANN401 - an annotated type
    return TypeAdapter(kind)


def _parts(detail: ErrorDetails, model: type[BaseModel]) -> tuple[str, str | None]:
    context = detail.get("ctx", {})
    match detail["type"]:
        case "missing":
            return "is missing", None
        case "extra_forbidden":
            *parents, name = detail["loc"]
            fields = _fields_of(model, parents)
            return f"no such field; {suggestion(str(name), fields)}" if fields else "no such field", None
        case "value_error" | "assertion_error":
            return str(context["error"]), None
        case "json_invalid":
            return f"not valid JSON: {context['error']}", None
    said = re.fullmatch(r"Input should be (.*?)(?:, unable to parse .*)?", detail["msg"])
    allowed = ALLOWED[detail["type"]].format_map(context) if detail["type"] in ALLOWED else said and said[1]
    found = f"found {_shown(detail['input'])}"
    return (found, allowed) if allowed else (f"{found}: {detail['msg']}", None)


def _shown(value: object) -> str:
    """Return a value as YAML and JSON write it, but only the kind of a list or a mapping."""
    if isinstance(value, Mapping):
        return "a mapping" if value else "{}"
    if isinstance(value, list | tuple):
        return "a list" if value else "[]"
    if value is None:
        return "null"
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _fields_of(annotation: Any, location: Sequence[str | int]) -> list[str]:  # noqa: ANN401 - types of any form
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        if not location:
            return [field.alias or name for name, field in annotation.model_fields.items()]
        field = annotation.model_fields.get(str(location[0]))
        return [] if field is None else _fields_of(field.annotation, location[1:])
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _fields_of(arguments[0], location)
    if isinstance(origin, type) and issubclass(origin, Mapping | Sequence):
        return _fields_of(arguments[0 if origin is tuple else -1], location[1:])
    return next((names for argument in arguments if (names := _fields_of(argument, location))), [])
