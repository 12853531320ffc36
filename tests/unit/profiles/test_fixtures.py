"""Recorded profiles: small, each with the commands that made it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchkit.profiles.profile_file import read_profile
from tests.support.paths import TESTS

FIXTURES = TESTS / "fixtures" / "profiles"
RECORDED = sorted(FIXTURES.glob("*.gz"))


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.name)
def test_a_recorded_profile_is_small_and_states_how_it_was_recorded(path: Path) -> None:
    assert path.stat().st_size <= 50_000
    made = json.loads(
        (FIXTURES / f"{path.name.removesuffix('.gz').removesuffix('.pb').removesuffix('.txt')}.made.json").read_text()
    )
    assert set(made["versions"]) == {"go", "kernel", "perf", "node", "nginx"}
    assert any(command.startswith(("perf script", "TMP/")) for command in made["commands"])


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.name)
def test_a_recorded_profile_has_the_samples_of_its_kind(path: Path) -> None:
    profile = read_profile(path.read_bytes())
    assert profile.profiler == ("pprof" if ".pb." in path.name else "perf")
    assert len(profile.values) == len(profile.value_types)
    assert {len(column) for column in profile.values} == {len(profile.samples)}
    assert set(profile.samples) == set(range(len(profile.stacks)))
    assert {place for stack in profile.stacks for place in stack} <= set(range(len(profile.frames)))
    if profile.profiler == "pprof" and profile.value_types[-1].kind == "cpu":
        assert profile.duration_s is not None
        assert profile.started_at is not None
        samples, nanoseconds = profile.values
        assert [number * 10_000_000 for number in samples] == list(nanoseconds)  # 100 per second
