"""The document compared with speedscope's published format (src/lib/file-format-spec.ts)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from benchkit.models.profile import Profile
from benchkit.plugins.flame.cli import speedscope

UNITS = {"none", "nanoseconds", "microseconds", "milliseconds", "seconds", "bytes"}


def check(document: dict[str, Any]) -> None:
    assert document["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    assert set(document) == {"$schema", "name", "exporter", "activeProfileIndex", "shared", "profiles"}
    assert 0 <= document["activeProfileIndex"] < len(document["profiles"])
    frames = document["shared"]["frames"]
    for frame in frames:
        assert set(frame) <= {"name", "file"}
        assert all(isinstance(text, str) and text for text in frame.values())
    for profile in document["profiles"]:
        assert set(profile) == {"type", "name", "unit", "startValue", "endValue", "samples", "weights"}
        assert profile["type"] == "sampled"
        assert profile["unit"] in UNITS
        assert len(profile["samples"]) == len(profile["weights"])
        assert profile["startValue"] + sum(profile["weights"]) == profile["endValue"]
        assert all(0 <= place < len(frames) for stack in profile["samples"] for place in stack)


@pytest.mark.parametrize(
    "name",
    [
        "nethttp-go1.26.pb.gz",
        "mixed-heap.pb.gz",
        "mixed-goroutine.pb.gz",
        "node.perf.txt.gz",
        "native-fields.perf.txt.gz",
    ],
)
def test_the_document_conforms_to_the_format(name: str, recorded: Callable[[str], Profile]) -> None:
    profile = recorded(name)
    document = json.loads(json.dumps(speedscope(profile, name)))
    check(document)
    assert len(document["profiles"]) == len(profile.value_types)
    active = document["profiles"][document["activeProfileIndex"]]
    assert active["endValue"] == sum(profile.values[profile.default_value])
    assert active["name"] == f"{name}: {profile.value_types[profile.default_value].kind}"


def test_stacks_start_with_the_outermost_frame(recorded: Callable[[str], Profile]) -> None:
    profile = recorded("gnet.pb.gz")
    document = speedscope(profile, "gnet")
    names = [frame["name"] for frame in document["shared"]["frames"]]
    longest = max(document["profiles"][1]["samples"], key=len)
    assert names[longest[0]] == "golang.org/x/sync/errgroup.(*Group).Go.func1"
    assert document["profiles"][1]["unit"] == "nanoseconds"
    assert document["profiles"][0]["unit"] == "none"
