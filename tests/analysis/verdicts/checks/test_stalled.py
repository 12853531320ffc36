"""Tests of the check stalled."""

from __future__ import annotations

from benchkit.analysis.verdicts.check import ALL
from tests.analysis.verdicts.builders import (
    Telemetry,
    build_trial,
    build_watch,
    finding_of,
    skip_reason,
)


def samples_at(*instants: float) -> Telemetry:
    return {("load1", "sut", None, None): dict.fromkeys(instants, 1.0)}


def is_stalled(interval_s: float, *instants: float) -> bool:
    watched = (build_watch("sut", interval_s=interval_s), build_watch("load"))
    without = tuple(set(build_trial().telemetry.metrics) - {"load1"})
    found = finding_of("stalled", build_trial(samples_at(*instants), watched=watched, without=without))
    assert found is None or (found.severity, found.metrics) == ("invalid", ALL)
    return found is not None


def test_gap_in_the_window() -> None:
    assert not is_stalled(0.5, -0.01, 0.4, 1.8, 3.05)
    assert is_stalled(0.4, -0.01, 0.4, 1.8, 3.05)


def test_gap_that_reaches_beyond_the_window() -> None:
    assert is_stalled(0.5, -0.01, 0.5, 1.0, 3.0)


def test_gap_before_the_window_does_not_count() -> None:
    assert not is_stalled(0.4, -4.0, -0.01, 0.8, 1.6, 2.4, 3.05)


def test_host_without_telemetry_is_skipped() -> None:
    assert skip_reason("stalled", build_trial(watched=(build_watch("load"),))) == "no telemetry of sut"


def test_host_with_lost_samples_is_skipped() -> None:
    without = tuple(build_trial().telemetry.metrics)
    assert skip_reason("stalled", build_trial(without=without)) == "no telemetry of load, sut"
