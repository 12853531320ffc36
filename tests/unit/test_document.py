from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from pydantic import Field

from benchkit.document import parse_document, read_document
from benchkit.errors import InputError
from benchkit.models.base import Frozen, Name


class Engine(Frozen):
    kind: str
    power: int = Field(gt=0)


class Car(Frozen):
    name: str
    seats: Mapping[Name, int] = Field(default_factory=dict)
    engines: tuple[Engine, ...] = ()


def test_values_keep_their_line() -> None:
    document = parse_document("name: a\nengines:\n  - kind: diesel\n    power: 3\n", "car.yaml")
    assert str(document.source.origin(("engines", 0, "power"))) == "car.yaml:4"
    assert str(document.source.origin(("engines", 0, "missing"))) == "car.yaml:3"
    assert document.validated(Car).engines[0].power == 3


def test_an_absent_part_has_no_data_and_absent_parts_of_its_own() -> None:
    document = parse_document("name: a\nengines:\n  - kind: diesel\n", "car.yaml")
    assert document.at("engines", 0, "kind").data == "diesel"
    for absent in (document.at("seats", 0, "name"), document.at("seats", 0).at("name")):
        assert absent.data is None
        assert str(absent.source.origin(())) == "car.yaml:1"


def test_faults_name_file_line_field_and_allowed_values() -> None:
    document = parse_document(
        "name: a\nengines:\n  - kind: diesel\n    power: -1\n  - knid: x\n    power: 1\n", "car.yaml"
    )
    with pytest.raises(InputError) as caught:
        document.validated(Car)
    assert str(caught.value).splitlines() == [
        "car.yaml:4: engines.0.power: found -1; allowed: greater than 0",
        "car.yaml:5: engines.1.kind: is missing",
        "car.yaml:5: engines.1.knid: no such field; did you mean 'kind'? allowed: kind, power",
    ]


def test_a_wrong_name_is_a_fault_at_its_line() -> None:
    document = parse_document("name: a\nseats:\n  Front: 2\n", "car.yaml")
    with pytest.raises(InputError, match=r"^car.yaml:3: seats.Front: found 'Front'; allowed: text of the form"):
        document.validated(Car)


def test_overriding_merges_mappings_and_replaces_the_rest() -> None:
    base = parse_document("a: {x: 1, y: 2}\nlist: [1, 2]\n", "base")
    over = parse_document("\n\na: {y: 3}\nlist: [9]\n", "over")
    merged = base.overridden(over)
    assert merged.data == {"a": {"x": 1, "y": 3}, "list": [9]}
    assert str(merged.source.origin(("a", "x"))) == "base:1"
    assert str(merged.source.origin(("a", "y"))) == "over:3"
    assert str(merged.source.origin(("list", 0))) == "over:4"


def test_on_and_off_are_text() -> None:
    assert parse_document("reuseport: [on, off, true]", "-").data == {"reuseport": ["on", "off", True]}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\na: 2\n", 'f:2: not valid YAML: found duplicate key "a"'),
        ("a: [1\n", "f:2: not valid YAML"),
        ("- a\n", "f:1: expected a mapping"),
        ("", "f:1: the file is empty"),
        ("a: !!python/object/apply:os.system [id]\n", "f:1: not valid YAML: could not determine a constructor"),
    ],
)
def test_other_than_plain_data_is_refused(text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_document(text, "f")
    assert str(caught.value).startswith(message)


def test_merged_mappings_are_overridden_and_keep_their_lines() -> None:
    document = parse_document("base: &base {x: 1, y: 2}\nother:\n  <<: *base\n  y: 3\n", "f")
    assert document.data["other"] == {"x": 1, "y": 3}
    assert str(document.source.origin(("other", "x"))) == "f:1"
    assert str(document.source.origin(("other", "y"))) == "f:4"


def test_errors_name_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot read the file: No such file"):
        read_document(tmp_path / "none.yaml")
    (tmp_path / "latin.yaml").write_bytes(b"a: \xe9\n")
    with pytest.raises(InputError, match="not UTF-8"):
        read_document(tmp_path / "latin.yaml")
