"""Tests of the check tool-limit."""

from __future__ import annotations

import pytest

from benchkit.models.load_result import LoadResult
from benchkit.models.metrics import LATENCIES
from tests.support.judge.builders import build_generator, build_trial, finding_of


def test_cap_of_hey() -> None:
    found = finding_of("tool-limit", build_trial(notes={"hey-cap": "hey keeps 1,000,000 results and there were more"}))
    assert found is not None
    assert (found.severity, found.metrics) == ("invalid", LATENCIES)


@pytest.mark.parametrize(("mean", "expected"), [(0.012, False), (None, True)])
def test_latency_below_the_resolution_of_the_tool(mean: float | None, *, expected: bool) -> None:
    siege = {"tool": "siege", "latency_mean_s": mean, "latency_resolution_s": 0.01}
    found = finding_of("tool-limit", build_trial(row=siege))
    assert (found is not None) == expected
    assert found is None or (found.severity, found.metrics) == ("suspect", LATENCIES)


@pytest.mark.parametrize(("users", "expected"), [(64, False), (60, True), (None, False)])
def test_fewer_connections_than_requested(users: int | None, *, expected: bool) -> None:
    siege = build_generator(result=LoadResult(tool="siege", connections=users))
    assert (finding_of("tool-limit", build_trial(generators=(siege,))) is not None) == expected
