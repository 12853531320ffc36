"""Tests of checks of the load tool: its ceilings, its hosts, requests for percentiles, and rates."""

from __future__ import annotations

from typing import Any

import pytest

from benchkit.judge.evidence import Evidence
from benchkit.models.load_result import LoadResult
from benchkit.models.metrics import LATENCIES
from tests.support.judge.builders import (
    WINDOW_S,
    Telemetry,
    build_generator,
    build_load,
    build_service,
    build_trial,
    core_counters,
    cpu_time,
    finding_of,
    sent_traffic,
)


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


@pytest.mark.parametrize(("requests", "expected"), [(1000, False), (999, True)])
def test_requested_percentile(requests: int, *, expected: bool) -> None:
    asked = frozenset({"latency_p99_s"})
    found = finding_of("too-few-samples", build_trial(row={"requests": requests}, requested_metrics=asked))
    assert (found is not None) == expected
    assert found is None or (found.severity, found.metrics) == ("invalid", ("latency_p99_s",))


RATE = 10_000.0


def at_rate(
    achieved: float | None = RATE,
    samples: Telemetry | None = None,
    *,
    lag_s: float | None = None,
    **fields: Any,  # noqa: ANN401 - fields of the record
) -> Evidence:
    """Return a trial of open loop that achieved this rate; its p99 latency is 1 ms."""
    row = {"rate_requested": RATE, "rate_achieved": achieved, "send_lag_p99_s": lag_s, "latency_p99_s": 0.001}
    load = build_load(tool="vegeta", rate=RATE)
    return build_trial(samples, row=row, load=load, **fields)


def spare() -> dict[str, Any]:
    """Return a server that used half of its CPU."""
    return {
        "samples": cpu_time(app=0.5) | core_counters("sut", 0, user=0.5),
        "services": (build_service(cpu_s=0.5 * WINDOW_S),),
    }


@pytest.mark.parametrize(("achieved", "expected"), [(9_910.0, False), (9_890.0, True), (12_000.0, False)])
def test_both_sides_of_the_threshold(achieved: float, *, expected: bool) -> None:
    found = finding_of("rate-held", at_rate(achieved))
    assert (found is not None) == expected
    assert found is None or (found.severity, found.metrics) == ("invalid", LATENCIES)


def test_a_load_tool_that_sent_in_time_was_not_at_fault() -> None:
    """Fill the cores of both: the lag shows which of them was the limit."""
    full = cpu_time(app=0.97)
    busy: dict[str, Any] = {
        "services": (build_service(cpu_s=0.97 * WINDOW_S),),
        "generators": (build_generator(cpu_s=0.95 * WINDOW_S),),
    }
    in_time, late = (finding_of("rate-held", at_rate(5_000, full, lag_s=lag_s, **busy)) for lag_s in (1e-5, 9e-4))
    assert in_time is not None
    assert late is not None
    assert in_time.means.startswith("The server was at fault: service app used")
    assert late.means.startswith(
        "The load tool was at fault: a hundredth of the requests was sent at least 900 µs late"
    )


def test_a_full_link_was_at_fault() -> None:
    capped = {host: {"link_bps": 100e6} for host in ("sut", "load")}
    found = finding_of("rate-held", at_rate(5_000, sent_traffic("sut", 95e6), facts=capped))
    assert found is not None
    assert found.means.startswith("The link was at fault: host sut sent 95.0 Mbit/s over eth0")


def test_nobody_is_blamed_without_evidence() -> None:
    found = finding_of("rate-held", at_rate(5_000, **spare()))
    assert found is not None
    assert found.means.startswith("Neither the load tool nor the server is known")


@pytest.mark.parametrize(
    ("lag_s", "design", "severity"),
    [
        (None, "blocks", None),
        (0.000_09, "blocks", None),
        (0.000_11, "blocks", "suspect"),
        (0.000_11, "sequential", "invalid"),
        (0.000_51, "blocks", "invalid"),
    ],
)
def test_late_requests_are_the_load_tools(lag_s: float | None, design: str, severity: str | None) -> None:
    found = finding_of("rate-held", at_rate(lag_s=lag_s, scenario={"design": design}))
    assert (None if found is None else found.severity) == severity
    assert found is None or f"sent at least {(lag_s or 0) * 1e6:.0f} µs late, and the" in found.seen
