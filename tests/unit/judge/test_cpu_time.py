"""Tests of the core speed within a time span."""

from __future__ import annotations

import pytest

from benchkit.judge.cpu_time import MIN_LOOP_SAMPLES, loop_s, server_cores, server_loop_s
from benchkit.judge.evidence import Evidence
from tests.support.judge.builders import WINDOW_S, Telemetry, build_generator, build_service, build_trial


def trial_with_loop_times(*looks: tuple[str, int, float, float]) -> Evidence:
    """Return a trial on core 0 of sut and core 1 of load, with samples of host, core, time and loop time."""
    samples: Telemetry = {}
    for host, core, when, took_s in looks:
        samples.setdefault(("cpu_loop_s", host, None, str(core)), {})[when] = took_s
    return build_trial(samples)


def test_server_cores_are_those_of_the_services() -> None:
    both = build_trial(
        services=(build_service(), build_service(name="db", host="vcs")),
        generators=(build_generator(), build_generator(host="load2")),
    )
    assert server_cores(both) == {("sut", 0), ("vcs", 0)}


def test_mean_over_the_samples_in_the_span() -> None:
    """Sample full speed twice and half speed once: the mean is 5/6."""
    looks = trial_with_loop_times(
        *(("sut", 0, when, took) for when, took in ((-0.1, 9.0), (0.0, 1.0), (0.5, 1.0), (WINDOW_S, 2.0), (3.1, 9.0)))
    )
    assert server_loop_s(looks) == pytest.approx(6 / 5)
    assert loop_s(looks, [("sut", 0)], (0.0, WINDOW_S), min_samples=4) is None
    assert loop_s(looks, [("sut", 0)], (0.0, 0.5)) is None
    assert loop_s(looks, [("load", 1)], (0.0, WINDOW_S)) is None


def test_samples_of_several_cores_are_combined() -> None:
    turns = [
        ("sut", core, 0.1 * number, took)
        for number, (core, took) in enumerate([(0, 1.0), (1, 1.0), (2, 0.5), (3, 0.5)])
    ]
    assert len(turns) >= MIN_LOOP_SAMPLES
    cores = [("sut", core) for core in range(4)]
    assert loop_s(trial_with_loop_times(*turns), cores, (0.0, WINDOW_S)) == pytest.approx(1 / 1.5)


def test_zero_loop_time_is_ignored() -> None:
    looks = [("sut", 0, 0.1 * number, took) for number, took in enumerate([1.0, 0.0, 1.0, 1.0])]
    assert server_loop_s(trial_with_loop_times(*looks)) == pytest.approx(1.0)


def test_core_speed_is_absent_without_samples() -> None:
    assert server_loop_s(build_trial()) is None
