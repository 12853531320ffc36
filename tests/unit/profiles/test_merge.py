from __future__ import annotations

from collections.abc import Callable

import pytest

from benchkit.errors import ParseError
from benchkit.models.profile import Profile
from benchkit.profiles.profile_file import merge_profiles
from benchkit.profiles.shares import shares
from benchkit.profiles.top import top


@pytest.mark.parametrize("name", ["nethttp-go1.26.pb.gz", "nginx-http.perf.txt.gz"])
def test_merging_a_profile_with_itself_doubles_every_value(name: str, recorded: Callable[[str], Profile]) -> None:
    profile = recorded(name)
    double = merge_profiles([profile, profile])
    assert len(double.frames) == len(profile.frames)
    assert len(double.stacks) == len(profile.stacks)
    assert shares(double).categories == pytest.approx(shares(profile).categories)
    once, twice = top(profile, least_share=0), top(double, least_share=0)
    assert [(r.function, 2 * r.flat, 2 * r.cum) for r in once.rows] == [(r.function, r.flat, r.cum) for r in twice.rows]
    assert double.duration_s == (None if profile.duration_s is None else 2 * profile.duration_s)


def test_profiles_with_different_value_types_are_not_merged(recorded: Callable[[str], Profile]) -> None:
    with pytest.raises(ParseError, match="different value types") as refused:
        merge_profiles([recorded("gnet.pb.gz"), recorded("nginx-http.perf.txt.gz")])
    assert "perf: cpu-clock; pprof: cpu" in str(refused.value)
