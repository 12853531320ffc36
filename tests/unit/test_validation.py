from __future__ import annotations

import pytest
from pydantic import BaseModel, TypeAdapter, ValidationError

from benchkit.models.load import Load
from benchkit.validation import fault_messages, first_fault


def test_what_all_members_of_a_union_allow_is_one_message() -> None:
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(bool | int).validate_python("x y")
    found = fault_messages([((), detail) for detail in caught.value.errors()], BaseModel)
    assert found == [((), "found 'x y'; allowed: true or false, or a valid integer")]


def test_the_first_fault_of_json_names_its_field() -> None:
    for text, message in [
        ("", "not valid JSON: EOF while parsing a value at line 1 column 0"),
        ('{"tool": "wrk", "connections": 0}', "connections: found 0; allowed: greater than 0"),
        ('{"tool": "wrk", "conections": 1}', "connections: is missing"),
        ('{"tool": "wrk", "connections": 1, "x": 1}', "x: no such field; allowed: tool, connections, "),
    ]:
        with pytest.raises(ValidationError) as caught:
            Load.model_validate_json(text)
        assert first_fault(caught.value, Load).startswith(message)
