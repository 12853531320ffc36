from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchkit.errors import ParseError
from benchkit.models.profile import Profile
from benchkit.profiles.profile_file import read_profile
from benchkit.profiles.shares import shares
from benchkit.profiles.top import top
from tests.support.paths import TESTS

FIXTURES = TESTS / "fixtures" / "profiles"

needs_go = pytest.mark.skipif(shutil.which("go") is None, reason="there is no go command")


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_a_damaged_profile_of_pprof_is_refused_or_parsed(data: st.DataObject, unpacked: Callable[[str], bytes]) -> None:
    content = bytearray(unpacked(data.draw(st.sampled_from(["gnet.pb.gz", "mixed-heap.pb.gz"]))))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content) - 1))
        content[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    try:
        profile = read_profile(bytes(content))
    except ParseError:
        return
    for value in range(len(profile.value_types)):
        table = top(profile, value=value, least_share=0)
        assert sum(row.flat for row in table.rows) == sum(
            weight for stack, weight in zip(profile.stacks, profile.weights(value), strict=True) if stack
        )
    shares(profile)


@needs_go
@pytest.mark.parametrize("name", ["nethttp-go1.26-busy.pb.gz", "mixed-cpu.pb.gz", "mixed-heap.pb.gz"])
def test_sample_types_and_their_sums_equal_those_of_pprof(name: str, recorded: Callable[[str], Profile]) -> None:
    argv = ["go", "tool", "pprof", "-raw", str(FIXTURES / name)]
    raw = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    lines = raw.split("\nSamples:\n")[1].split("\nLocations\n")[0].splitlines()
    theirs = [
        tuple(map(int, row[1].split())) for line in lines if (row := re.fullmatch(r" *([-0-9 ]+): [0-9 ]*", line))
    ]
    profile = recorded(name)
    assert [sum(column) for column in profile.values] == [sum(column) for column in zip(*theirs, strict=True)]
    types = [kind.removesuffix("[dflt]") for kind in lines[0].split()]
    assert types == [f"{kind.kind}/{kind.unit}" for kind in profile.value_types]
