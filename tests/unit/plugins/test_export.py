"""Exports of histograms and profiles, in the formats that HdrHistogram and speedscope publish."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hdrh.histogram import HdrHistogram  # type: ignore[import-untyped] # the library has no types

from benchkit.models.profile import Profile
from benchkit.plugins.export import hgrm, speedscope


def buckets(values: np.ndarray[tuple[int], np.dtype[np.int64]], trial: str = "t") -> pd.DataFrame:
    """Return rows of `latency` for these microseconds, as an HdrHistogram of three digits counts them."""
    histogram = HdrHistogram(1, 3_600_000_000, 3)
    for value in values.tolist():
        histogram.record_value(value)
    rows = [
        {
            "trial_id": trial,
            "series": "raw",
            "low_s": histogram.get_lowest_equivalent_value(item.value_iterated_to) / 1e6,
            "high_s": histogram.get_highest_equivalent_value(item.value_iterated_to) / 1e6,
            "count": item.count_added_in_this_iter_step,
        }
        for item in histogram.get_recorded_iterator()
    ]
    return pd.DataFrame(rows)


def test_hgrm_has_hdrhistograms_steps_and_values() -> None:
    values = np.random.default_rng(1).integers(100, 50_000, 10_000)
    lines = hgrm(pd.concat([buckets(values[:4_000]), buckets(values[4_000:], "u")])).splitlines()
    assert lines[0].split() == ["Value", "Percentile", "TotalCount", "1/(1-Percentile)"]
    table = [[float(field) for field in line.split()] for line in lines[2:] if not line.startswith("#")]
    ordered = np.sort(values)
    for value, share, count, *_ in table:
        assert value == pytest.approx(ordered[max(math.ceil(share * 10_000) - 1, 0)], rel=2e-3)
        assert count >= share * 10_000
    assert table[-1] == pytest.approx([values.max(), 1, 10_000], rel=1e-3)
    summary = " ".join(line for line in lines if line.startswith("#"))
    mean, deviation, longest, total = (float(number) for number in re.findall(r"= +([\d.]+)", summary)[:4])
    expected = [values.mean(), values.std(), values.max(), 10_000]
    assert [mean, deviation, longest, total] == pytest.approx(expected, rel=1e-3)


def test_hgrm_of_one_value() -> None:
    lines = hgrm(buckets(np.array([1500]))).splitlines()
    assert lines[2].split()[0] == "1500.000"
    assert lines[4].startswith("#[Mean")


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
    (sampled,) = document["profiles"]
    assert sampled["endValue"] == sum(profile.weights)
    assert sampled["name"] == f"{name}: {profile.value_type.kind}"


def test_stacks_start_with_the_outermost_frame(recorded: Callable[[str], Profile]) -> None:
    profile = recorded("gnet.pb.gz")
    document = speedscope(profile, "gnet")
    names = [frame["name"] for frame in document["shared"]["frames"]]
    longest = max(document["profiles"][0]["samples"], key=len)
    assert names[longest[0]] == "golang.org/x/sync/errgroup.(*Group).Go.func1"
    assert document["profiles"][0]["unit"] == "nanoseconds"
