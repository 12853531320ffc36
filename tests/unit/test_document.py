from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from pydantic import Field

from benchkit.document import MAX_BYTES, parse_document, read_document
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
        "car.yaml:4: engines.0.power: found -1; allowed: a number above 0",
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
        ("a: 1\na: 2\n", "f:2: the name 'a' stands here twice"),
        ("a: 1\nb:\n\tc: 1\n", "f:3: not valid YAML: found a tab where YAML allows spaces only; use spaces"),
        ("a: @b\n", "f:1: not valid YAML: no value may begin with @; quote the text"),
        ("a: &a [*a]\n", "f:1: nested too deeply: more than 50 levels"),
        ("a: {<<: 1}\n", "f:1: `<<` merges mappings only"),
        ("a: [1\n", "f:2: not valid YAML"),
        ("- a\n", "f:1: expected a mapping"),
        ("", "f:1: the file is empty"),
        ("1: a\n", "f:1: the name 1 is not text; quote it"),
        ("a: 2024-01-01\n", "f:1: found the date 2024-01-01; quote it to make it text"),
        ("a: !!python/object/apply:os.system [id]\n", "f:1: the tag"),
        ("a: !!python/name:os.system x\n", "f:1: the tag !!python/name:os.system is not allowed"),
    ],
)
def test_other_than_plain_data_is_refused(text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_document(text, "f")
    assert str(caught.value).startswith(message)


def test_the_number_of_values_is_limited() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 9)]
    with pytest.raises(InputError, match="too large"):
        parse_document("\n".join(lines), "bomb")


@pytest.mark.parametrize("text", ["a: " + "[" * 300 + "]" * 300, "".join(f"{' ' * i}a:\n" for i in range(300))])
def test_the_depth_is_limited(text: str) -> None:
    with pytest.raises(InputError, match="nested too deeply: more than 50 levels of mappings and lists\n  → check"):
        parse_document(text, "deep")


def test_a_long_comment_takes_no_longer_than_other_text() -> None:
    def seconds(text: str) -> float:
        started = time.process_time()
        parse_document(text, "f")
        return time.process_time() - started

    length = 500_000
    assert seconds(f"# {'x' * length}\na: b\n") < 10 * seconds(f"a: {'x' * length}\n")


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
    (tmp_path / "large.yaml").write_bytes(b"#" * (MAX_BYTES + 1))
    with pytest.raises(InputError, match="too large: more than 1,048,576 bytes"):
        read_document(tmp_path / "large.yaml")


@pytest.mark.parametrize("text", ["1e999", ".inf", "-.inf", ".nan", '"1e999"', '"nan"'])
def test_numbers_must_be_finite(text: str) -> None:
    class Window(Frozen):
        seconds: float

    with pytest.raises(InputError, match=r"w:1: seconds: found (-?inf|nan); allowed: finite numbers"):
        parse_document(f"seconds: {text}", "w").validated(Window)
