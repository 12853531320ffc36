from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Annotated, Any, get_args

import pytest
from pydantic import BaseModel, Field, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails, PydanticKnownError
from pydantic_core.core_schema import ErrorType

from benchkit.hosts.inventory import InventoryContent
from benchkit.models.load import Load
from benchkit.models.run import Manifest
from benchkit.models.trial import TrialRecord
from benchkit.plugins.go_modules.vanity import VanityFile
from benchkit.scenario.experiment import Tuning
from benchkit.scenario.model import Scenario
from benchkit.services.registry import BACKENDS
from benchkit.store import journal
from benchkit.validation import ALLOWED, fault_messages, first_fault

READ: tuple[type[BaseModel], ...] = (
    Scenario,
    Load,
    Tuning,
    VanityFile,
    InventoryContent,
    Manifest,
    TrialRecord,
    *journal._KINDS.values(),
    *(backend.options for backend in BACKENDS.values()),
)
"""Models of what benchkit reads from files."""

VALUES: tuple[Any, ...] = (
    None, True, 0, -1, 1, 10**5000, 0.5, -1.5, float("nan"), float("inf"), "", "x", "A b", "/", "$", "1", "\ud800",
    "é" * 200, [], [1], ["x"], [None], [[]], [{}], [1, 2, 3], {}, {"x": 1}, {1: 1}, {"x": {}}, {"x": []}, {"x": {"y": 1}},
)  # fmt: skip
"""Values of every kind that YAML and JSON have, few of which any one field accepts."""

CONTEXT = dict.fromkeys(
    ("gt", "ge", "lt", "le", "multiple_of", "min_length", "max_length", "actual_length", "max_digits", "decimal_places",
     "whole_digits", "tz_expected", "tz_actual", "expected_version"), 1
)  # fmt: skip


def details(model: type[BaseModel]) -> Iterator[ErrorDetails]:
    """Yield the errors of wrong values in each field of a model and of the models in it."""
    for name, field in model.model_fields.items():
        for value in VALUES:
            data = {name: value}
            try:
                model.model_validate(data)
            except ValidationError as error:
                yield from (detail for detail in error.errors() if detail["loc"][:1] == (name,))
        for inner in models_in(field.annotation):
            yield from details(inner)


def models_in(annotation: Any) -> Iterator[type[BaseModel]]:  # noqa: ANN401 - types of any form
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from models_in(argument)


@pytest.mark.parametrize("model", READ, ids=lambda model: model.__name__)
def test_every_error_of_our_models_is_a_sentence_of_our_own(model: type[BaseModel]) -> None:
    faults = list(details(model))
    assert faults
    for detail in faults:
        for _, message in fault_messages([(detail["loc"], detail)], model):
            assert detail["msg"].removeprefix("Value error, ") == message or detail["msg"] not in message, detail
            assert "which the rule" not in message, detail
            assert "valid" not in message.split(";")[-1], message


@pytest.mark.parametrize("kind", [kind for kind in get_args(ErrorType) if kind in ALLOWED])
def test_the_sentence_of_an_error_type_can_be_filled_in(kind: Any) -> None:  # noqa: ANN401 - one of 101 literals
    texts = {"pattern": "^x$", "expected": "'a'", "class_name": "A", "error": "e", "discriminator": "kind", "tag": "t",
             "expected_tags": "'a', 'b'", "field_type": "List"}  # fmt: skip
    own = PydanticKnownError(kind, {**CONTEXT, **texts}) if _has_context(kind) else PydanticKnownError(kind)
    detail = ErrorDetails(type=kind, loc=("field",), msg=own.message(), input=5, ctx=own.context or {})
    ((_, message),) = fault_messages([(("field",), detail)], Load)
    assert own.message() not in message
    assert "; allowed: " in message


def _has_context(kind: Any) -> bool:  # noqa: ANN401
    try:
        PydanticKnownError(kind)
    except TypeError:
        return True
    return False


def test_what_all_members_of_a_union_allow_is_one_message() -> None:
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(bool | int).validate_python("x y")
    found = fault_messages([((), detail) for detail in caught.value.errors()], BaseModel)
    assert found == [((), "found 'x y'; allowed: true or false, or a whole number")]


def test_the_first_fault_of_json_names_its_field() -> None:
    for text, message in [
        ("", "not valid JSON: EOF while parsing a value at line 1 column 0"),
        ('{"tool": "wrk", "connections": 0}', "connections: found 0; allowed: a number above 0"),
        ('{"tool": "wrk", "conections": 1}', "connections: is missing"),
        ('{"tool": "wrk", "connections": 1, "x": 1}', "x: no such field; allowed: tool, connections, "),
    ]:
        with pytest.raises(ValidationError) as caught:
            Load.model_validate_json(text)
        assert first_fault(caught.value, Load).startswith(message)


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        (Enum("Mode", {"ONE": "one", "TWO": "two"}), "x", "found 'x'; allowed: 'one' or 'two'"),
        (Annotated[int, Field(multiple_of=5)], 7, "found 7; allowed: a multiple of 5"),
        (set[int], 3, "found 3; allowed: a list"),
    ],
)
def test_options_of_packages_may_have_types_that_benchkit_has_none_of(kind: Any, value: object, message: str) -> None:  # noqa: ANN401
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(kind).validate_python(value)
    assert first_fault(caught.value) == message
