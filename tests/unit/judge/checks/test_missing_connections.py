"""Tests of the check missing-connections."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from benchkit.judge.check import ALL
from tests.support.judge.builders import Telemetry, build_load, build_trial, finding_of, skip_reason


def connection_counts(*counts: float) -> Telemetry:
    return connections_at(dict(zip((0.5, 1.0, 1.5), counts, strict=True)))


def connections_at(counts: Mapping[float, float]) -> Telemetry:
    return {("connections_established", "sut", "app", "8080"): dict(counts)}


@pytest.mark.parametrize(("counts", "expected"), [((64, 61, 64), False), ((64, 60, 64), True)])
def test_fewest_connections_of_all_samples(counts: tuple[float, ...], *, expected: bool) -> None:
    found = finding_of("missing-connections", build_trial(connection_counts(*counts)))
    assert (found is not None) == expected
    assert found is None or (found.severity, found.metrics) == ("invalid", ALL)


COUNTED = build_load(duration_s=None, request_count=100_000)


@pytest.mark.parametrize(("t_s", "expected"), [(2.6, True), (2.8, False), (3.02, False)])
def test_end_of_a_window_of_counted_requests_is_ignored(t_s: float, *, expected: bool) -> None:
    found = finding_of("missing-connections", build_trial(connections_at({0.5: 64, 1.5: 64, t_s: 30}), load=COUNTED))
    assert (found is not None) == expected


def test_one_sample_is_enough_for_counted_requests() -> None:
    assert finding_of("missing-connections", build_trial(connections_at({0.5: 64, 3.02: 0}), load=COUNTED)) is None
    assert skip_reason("missing-connections", build_trial(connections_at({3.02: 0}), load=COUNTED))


def test_sample_after_the_window_does_not_count() -> None:
    seen = connections_at({1.5: 64, 3.02: 0})
    assert skip_reason("missing-connections", build_trial(seen)) == "the connections were counted in 1 of 3 samples"
    assert finding_of("missing-connections", build_trial(connections_at({1.5: 60, 3.02: 0}))) is not None


def test_short_connections_are_not_checked() -> None:
    assert (
        finding_of("missing-connections", build_trial(connection_counts(1, 2, 3), load=build_load(keepalive=False)))
        is None
    )


def test_connections_of_another_port_do_not_count() -> None:
    without = build_trial(without=("connections_established",))
    assert skip_reason("missing-connections", without)
    assert skip_reason("missing-connections", build_trial(target="http://10.0.0.1:9000/"))
