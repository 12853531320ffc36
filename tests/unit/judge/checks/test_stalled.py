"""Tests of the check stalled."""

from __future__ import annotations

from benchkit.judge.check import ALL
from benchkit.models.trial import SliceRecord
from tests.support.judge.builders import Telemetry, build_slices, build_trial, build_watch, finding_of, skip_reason


def samples_at(*instants: float) -> Telemetry:
    return {("load1", "sut", None, None): dict.fromkeys(instants, 1.0)}


def is_stalled(interval_s: float, *instants: float, slices: tuple[SliceRecord, ...] = ()) -> bool:
    watched = (build_watch("sut", interval_s=interval_s), build_watch("load"))
    without = tuple(set(build_trial().telemetry.metrics) - {"load1"})
    evidence = build_trial(samples_at(*instants), watched=watched, without=without, slices=slices)
    found = finding_of("stalled", evidence)
    assert found is None or (found.severity, found.metrics) == ("suspect", ALL)
    return found is not None


def test_gap_in_the_window() -> None:
    assert not is_stalled(0.5, -0.01, 0.4, 1.8, 3.05)
    assert is_stalled(0.4, -0.01, 0.4, 1.8, 3.05)


def test_gap_that_reaches_beyond_the_window() -> None:
    assert is_stalled(0.5, -0.01, 0.5, 1.0, 3.0)


def test_gap_before_the_window_does_not_count() -> None:
    assert not is_stalled(0.4, -4.0, -0.01, 0.8, 1.6, 2.4, 3.05)


def test_slices_longer_than_the_interval_are_sampled_at_their_edges() -> None:
    slices = build_slices(6, duration_s=0.5)
    assert not is_stalled(0.1, 0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, slices=slices)
    assert is_stalled(0.1, 0.0, 0.5, 2.1, 2.5, 3.0, slices=slices)
    assert not is_stalled(1.0, 0.0, 2.9, slices=slices), "three intervals, which are longer than slices"


def test_host_without_telemetry_is_skipped() -> None:
    assert skip_reason("stalled", build_trial(watched=(build_watch("load"),))) == "no telemetry of sut"


def test_host_with_lost_samples_is_skipped() -> None:
    without = tuple(build_trial().telemetry.metrics)
    assert skip_reason("stalled", build_trial(without=without)) == "no telemetry of load, sut"
