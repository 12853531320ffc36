"""Tests of the check accept-overflow."""

from __future__ import annotations

import pytest

from benchkit.judge.check import LOAD
from tests.support.judge.builders import Telemetry, build_load, build_trial, finding_of


def counter_increase(metric: str, by: float) -> Telemetry:
    return {(metric, "sut", None, None): {-0.01: 7.0, 3.05: 7.0 + by}}


@pytest.mark.parametrize(
    "metric",
    [
        *("listen_overflows_total", "listen_drops_total", "req_queue_full_drops_total"),
        "req_queue_full_cookies_total",
    ],
)
def test_one_dropped_connection_of_64_is_invalid(metric: str) -> None:
    found = finding_of("accept-overflow", build_trial(counter_increase(metric, 1)))
    assert found is not None
    assert (found.severity, found.metrics) == ("invalid", LOAD)


@pytest.mark.parametrize(("dropped", "severity"), [(0, None), (100, "suspect"), (101, "invalid")])
def test_severity_follows_the_share_of_dropped_connections(dropped: int, severity: str | None) -> None:
    short = build_load(keepalive=False)
    found = finding_of("accept-overflow", build_trial(counter_increase("listen_drops_total", dropped), load=short))
    assert (found.severity if found else None) == severity


@pytest.mark.parametrize(("depth", "expected"), [(510, False), (511, True)])
def test_full_accept_queue_is_suspect(depth: int, *, expected: bool) -> None:
    found = finding_of("accept-overflow", build_trial({("accept_queue", "sut", "app", "0.0.0.0:8080"): {1.0: depth}}))
    assert (found is not None) == expected
    assert found is None or found.severity == "suspect"
