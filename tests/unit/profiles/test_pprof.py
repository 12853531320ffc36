from __future__ import annotations

import gzip
import re
from collections.abc import Callable
from typing import Any

import pytest

from benchkit.errors import ParseError
from benchkit.models.profile import Frame, Profile, ValueType
from benchkit.profiles.pprof import parse_pprof, profile_message
from benchkit.profiles.profile_file import read_profile
from tests.support.paths import TESTS

FIXTURES = TESTS / "fixtures" / "profiles"


def message(**changes: int) -> Any:  # noqa: ANN401 - the class is made at run time
    """Return a small profile: main calls work, into which step is inlined; 3 samples there, 1 in main."""
    made = profile_message()()
    texts = [
        "",
        "samples",
        "count",
        "cpu",
        "nanoseconds",
        "main.main",
        "main.work",
        "main.step",
        "main.go",
        "/bin/program",
    ]
    made.string_table.extend(text.encode() for text in texts)
    made.sample_type.add(type=1, unit=2)
    made.sample_type.add(type=3, unit=4)
    made.mapping.add(id=1, filename=9)
    for number, text in ((1, 5), (2, 6), (3, 7)):
        made.function.add(id=number, name=text, filename=8)
    made.location.add(id=1, mapping_id=1).line.add(function_id=1)
    inlined = made.location.add(id=2, mapping_id=1)
    inlined.line.add(function_id=3)
    inlined.line.add(function_id=2)
    made.sample.add(location_id=[2, 1], value=[3, 30_000_000])
    made.sample.add(location_id=[1], value=[1, 10_000_000])
    for name, value in changes.items():
        setattr(made, name, value)
    return made


def parsed(made: Any) -> Profile:  # noqa: ANN401 - likewise
    return parse_pprof(made.SerializeToString())


def stacks_of(profile: Profile) -> list[list[str]]:
    return [[profile.frames[place].label for place in stack] for stack in profile.stacks]


def test_samples_have_their_stacks_innermost_first_with_inlined_frames() -> None:
    profile = parsed(message())
    assert stacks_of(profile) == [["main.step", "main.work", "main.main"], ["main.main"]]
    assert profile.frames[profile.stacks[0][0]] == Frame("main.step", "/bin/program", "main.go")
    assert (profile.value_type, profile.weights) == (ValueType("cpu", "nanoseconds"), (30_000_000, 10_000_000))
    assert (profile.started_at, profile.duration_s, profile.profiler) == (None, None, "pprof")


def test_the_default_value_is_the_one_that_the_profile_names() -> None:
    assert parsed(message(default_sample_type=1)).weights == (3, 1)
    assert parsed(message(default_sample_type=5)).weights == (30_000_000, 10_000_000)


def test_plain_and_gzipped_profiles_are_the_same() -> None:
    data = message().SerializeToString()
    assert read_profile(data) == read_profile(gzip.compress(data)) == parse_pprof(data)


def test_a_location_without_functions_is_named_after_its_file() -> None:
    made = message()
    made.location.add(id=3, mapping_id=1)
    made.location.add(id=4)
    made.sample.add(location_id=[3, 4], value=[1, 1])
    assert stacks_of(parsed(made))[-1] == ["[program]", "<unknown>"]


def damaged(change: Callable[[Any], Any]) -> bytes:
    made = message()
    change(made)
    data: bytes = made.SerializeToString()
    return data


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda made: made.sample.add(location_id=[7], value=[1, 1]), "location 7"),
        (lambda made: made.sample.add(location_id=[1], value=[1]), "1 values, not 2"),
        (lambda made: made.location.add(id=2), "found 2"),
        (lambda made: made.location.add(), "found 0"),
        (lambda made: made.location[0].line.add(function_id=9), "function 9"),
        (lambda made: made.function.add(id=4, name=99), "string 99 of 10"),
        (lambda made: made.function.add(id=4, name=-1), "string -1 of 10"),
        (lambda made: made.ClearField("sample_type"), "no sample types"),
    ],
)
def test_an_inconsistent_profile_is_refused(change: Callable[[Any], Any], why: str) -> None:
    with pytest.raises(ParseError, match=re.escape(why)):
        parse_pprof(damaged(change))


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"", "empty"),
        (b" \n", "empty"),
        (b"Thread Stats   Avg      Stdev     Max   +/- Stdev\n", "not a pprof profile"),
        (b"\x1f\x8b\x08", "the gzip file is truncated"),
        (b"\x1f\x8bnothing like it", "the gzip file is damaged"),
        (gzip.compress(b"{}", mtime=0), "not a pprof profile"),
        (b"PERFILE2\x00\x00", "not the output of perf script but a perf.data file"),
        (b"\x7fELF\x02\x01\x01", "not a pprof profile"),
    ],
)
def test_other_files_are_refused(data: bytes, what: str) -> None:
    with pytest.raises(ParseError, match=what):
        read_profile(data)
