from __future__ import annotations

from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from benchkit.errors import ParseError
from benchkit.profiles.profile_file import read_profile
from benchkit.profiles.shares import shares
from benchkit.profiles.top import top


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_damaged_input_is_refused_or_parsed(data: st.DataObject, unpacked: Callable[[str], bytes]) -> None:
    content = bytearray(unpacked("native-fields.perf.txt.gz")[:3000])
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content) - 1))
        content[at : at + data.draw(st.integers(0, 40))] = data.draw(st.binary(max_size=8))
    try:
        profile = read_profile(bytes(content))
    except ParseError:
        return
    top(profile, least_share=0)
    shares(profile)
