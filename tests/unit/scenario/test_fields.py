from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from benchkit.document import parse_document
from benchkit.errors import InputError
from benchkit.scenario.schema import FilePart, as_text, find_part, parts

PARTS = parts()


@pytest.mark.parametrize("part", PARTS.values(), ids=lambda part: part.name)
def test_every_field_says_what_it_is_and_has_an_example(part: FilePart) -> None:
    assert part.summary
    for field in part.fields:
        assert field.description, field.name
        assert field.type != "any value", field.name
        assert field.example not in (None, "", [], {}), field.name


@pytest.mark.parametrize("part", PARTS.values(), ids=lambda part: part.name)
def test_every_example_is_allowed_and_printed_as_yaml(part: FilePart) -> None:
    text = "\n".join(f"value {number}: {as_text(field.example)}" for number, field in enumerate(part.fields))
    assert list(parse_document(text, "example").data.values()) == [field.example for field in part.fields]
    for name in part.model.model_fields:
        (example,) = [each.example for each in part.fields if each.name == name]
        assert_allowed(part.model, name, example)


def assert_allowed(model: type[BaseModel], name: str, value: Any) -> None:  # noqa: ANN401 - values of any field
    """Check the value of one field, whatever the others lack."""
    try:
        model.model_validate({name: value})
    except ValueError as error:
        wrong = [each for each in getattr(error, "errors", list)() if each["loc"][:1] == (name,)]
        assert not wrong, wrong


def test_parts_are_derived_from_models_and_backends() -> None:
    assert {"scenario", "load", "services", "nethttp", "nginx", "tuning", "inventory", "claims", "differs"} <= set(
        PARTS
    )
    names = {field.name for field in PARTS["inventory"].fields}
    assert {"hosts.<name>.identity", "hosts.<name>.known_hosts", "hosts.<name>.port", "hosts.<name>.link_bps"} <= names
    fields = {field.name: field for field in PARTS["load"].fields}
    assert fields["connections"].required
    assert (fields["threads"].type, fields["threads"].default) == ("a whole number above 0", 1)
    assert {field.name: field.example for field in PARTS["nginx"].fields}["backend"] == "nginx"
    designs = next(field for field in PARTS["scenario"].fields if field.name == "design")
    assert designs.type == "blocks | sequential | sliced"


def test_an_unknown_part_names_the_nearest_one() -> None:
    with pytest.raises(InputError, match="no part 'ngnix': did you mean 'nginx'"):
        find_part("ngnix")


@pytest.mark.parametrize(
    ("value", "text"),
    [("a", "a"), ("1.5", '"1.5"'), ("a: b", '"a: b"'), ("true", '"true"'), ({"a": [1, None]}, "{a: [1, null]}")],
)
def test_values_are_shown_as_yaml(value: object, text: str) -> None:
    assert as_text(value) == text
    assert parse_document(f"value: {text}", "-").data == {"value": value}
