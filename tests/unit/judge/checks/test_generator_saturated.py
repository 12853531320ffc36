"""Tests of the check generator-saturated."""

from __future__ import annotations

import pytest

from benchkit.judge.check import CPU, LOAD
from tests.support.judge.builders import (
    WINDOW_S,
    Telemetry,
    build_generator,
    build_trial,
    build_watch,
    core_counters,
    finding_of,
    skip_reason,
)


@pytest.mark.parametrize(("share", "expected"), [(0.89, False), (0.91, True)])
def test_process_at_the_limit(share: float, *, expected: bool) -> None:
    found = finding_of("generator-saturated", build_trial(generators=(build_generator(cpu_s=share * WINDOW_S),)))
    assert (found is not None) == expected
    assert found is None or (found.severity, found.metrics) == ("invalid", LOAD)


def test_threshold_of_one_turns_the_check_off() -> None:
    full = build_trial(generators=(build_generator(cpu_s=WINDOW_S),))
    assert finding_of("generator-saturated", full, generator_cpu=1) is None


def test_cpu_per_request_stays_valid() -> None:
    found = finding_of("generator-saturated", build_trial(generators=(build_generator(cpu_s=WINDOW_S),)))
    assert found is not None
    assert not set(CPU) & set(found.metrics)


def test_times_of_connecting_and_processing_are_the_tools_too() -> None:
    found = finding_of("generator-saturated", build_trial(generators=(build_generator(cpu_s=WINDOW_S),)))
    assert found is not None
    assert {"connect_mean_s", "processing_mean_s", "first_byte_mean_s"} <= set(found.metrics)


def test_single_thread_fills_one_of_two_cores() -> None:
    """Limit a wrk of one thread on two cores to one."""
    one = build_generator(cpu_s=0.95 * WINDOW_S, cpus=(1, 2))
    two = build_generator(cpu_s=0.95 * WINDOW_S, cpus=(1, 2), threads=2)
    more = core_counters("load", 2)
    assert finding_of("generator-saturated", build_trial(more, generators=(one,))) is not None
    assert finding_of("generator-saturated", build_trial(more, generators=(two,))) is None


def test_busiest_thread_counts_where_threads_own_connections() -> None:
    threads: Telemetry = {
        ("thread_cpu_s_total", "load", "generator-1", "71"): {0.1: 0.0, 1.9: 1.75},
        ("thread_cpu_s_total", "load", "generator-1", "72"): {0.1: 0.0, 1.9: 0.2},
    }
    two = build_generator(cpu_s=1.95, cpus=(1, 2), threads=2)
    assert (
        finding_of("generator-saturated", build_trial({**core_counters("load", 2), **threads}, generators=(two,)))
        is not None
    )
    go = build_generator(cpu_s=1.95, cpus=(1, 2), threads=None, argv=("hey",))
    assert (
        finding_of("generator-saturated", build_trial({**core_counters("load", 2), **threads}, generators=(go,)))
        is None
    )


@pytest.mark.parametrize(("user", "expected"), [(0.84, False), (0.86, True)])
def test_load_host_filled_by_other_processes(user: float, *, expected: bool) -> None:
    found = finding_of("generator-saturated", build_trial(core_counters("load", 1, user=user, softirq=0.05)))
    assert (found is not None) == expected
    assert found is None or found.severity == "suspect"


def test_load_host_filled_by_the_packets_of_the_load_is_saturated() -> None:
    found = finding_of("generator-saturated", build_trial(core_counters("load", 1, user=0.6, softirq=0.35)))
    assert found is not None
    assert found.severity == "invalid"


@pytest.mark.parametrize(("quota", "expected"), [(0.7, False), (0.6, True)])
def test_quota_of_the_load_host(quota: float, *, expected: bool) -> None:
    watched = (build_watch("sut"), build_watch("load", cpu_quota=quota))
    assert (finding_of("generator-saturated", build_trial(watched=watched)) is not None) == expected


def test_host_without_telemetry_is_reported_unless_the_process_is_saturated() -> None:
    without = tuple(f"cpu_{kind}_s_total" for kind in ("idle", "iowait", "steal"))
    assert skip_reason("generator-saturated", build_trial(without=without)) == "no telemetry for the cores of load"
    full = build_generator(cpu_s=0.95 * WINDOW_S)
    assert finding_of("generator-saturated", build_trial(without=without, generators=(full,))) is not None
