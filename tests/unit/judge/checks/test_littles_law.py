"""Tests of the check littles-law."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchkit.judge.check import LOAD
from tests.support.judge.builders import build_load, build_slices, build_trial, finding_of, skip_reason


@pytest.mark.parametrize(("factor", "expected"), [(0.81, False), (0.79, True), (1.19, False), (1.21, True)])
def test_deviation_in_both_directions(factor: float, *, expected: bool) -> None:
    found = finding_of("littles-law", build_trial(row={"latency_mean_s": factor * 64 / 50_000}))
    assert (found is not None) == expected
    if found is not None:
        assert (found.severity, found.metrics) == ("invalid", LOAD)
        assert ("hung" in found.means) == (factor < 1)


@pytest.mark.parametrize(("step", "expected"), [(1e-5, True), (1e-3, False)])
def test_tolerance_includes_the_resolution_of_the_tool(step: float, *, expected: bool) -> None:
    """Round to milliseconds, as ab does."""
    assert (
        finding_of("littles-law", build_trial(row={"latency_mean_s": 0.001, "latency_resolution_s": step})) is not None
    ) == expected


@pytest.mark.parametrize(("window_s", "expected"), [(10.0, True), (0.5, False)])
def test_requests_that_the_end_of_a_window_cuts_off_have_no_latency(window_s: float, *, expected: bool) -> None:
    """With 200 ms a request, half a second lacks a fifth of the time in flight."""
    cut = build_trial(row={"rps": 320.0 * 0.65, "latency_mean_s": 0.2})
    cut = replace(cut, record=cut.record.model_copy(update={"slices": build_slices(count=2, duration_s=window_s)}))
    assert (finding_of("littles-law", cut) is not None) == expected


def test_streams_are_in_flight_side_by_side() -> None:
    trial = build_trial(load=build_load(streams=8), row={"latency_mean_s": 8 * 64 / 50_000})
    assert finding_of("littles-law", trial) is None
    few = finding_of("littles-law", build_trial(load=build_load(streams=8), row={"latency_mean_s": 64 / 50_000}))
    assert few is not None
    assert "on 64 connections of 8 streams" in few.seen


def test_corrected_mean_is_skipped() -> None:
    assert skip_reason("littles-law", build_trial(row={"latency_corrected": True}))


def test_short_connections_need_a_latency_that_includes_connecting() -> None:
    short = build_load(keepalive=False)
    assert skip_reason("littles-law", build_trial(load=short))
    covered = {"latency_covers": "connect+request"}
    assert finding_of("littles-law", build_trial(load=short, row=covered)) is None


def test_target_rate_is_not_checked() -> None:
    assert finding_of("littles-law", build_trial(load=build_load(rate=10.0), row={"rps": 10.0})) is None
