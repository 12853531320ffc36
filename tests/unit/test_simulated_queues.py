"""The simulation that servers of the benchmarks are compared with, against closed formulas."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.waiting_servers.simulation import Route, Station, closed_loop, open_loop, poisson

SERVICE_S = 0.005


def queue(slots: int, service_s: float = SERVICE_S) -> Route:
    station = Station(slots)
    return lambda _: [(station, service_s)]


@pytest.mark.parametrize("slots", [1, 8])
def test_constant_arrivals_that_are_fewer_than_slots_carry_never_wait(slots: int) -> None:
    """Check D/D/k below its capacity."""
    rate = 0.99 * slots / SERVICE_S
    answers = open_loop(queue(slots), np.arange(10_000) / rate)
    assert answers.times_s == pytest.approx(np.full(9_000, SERVICE_S))
    assert answers.rate == pytest.approx(rate)


def test_constant_arrivals_that_are_more_than_slots_carry_wait_longer_and_longer() -> None:
    """Check D/D/k above its capacity: request n waits for n times what the interval is too short."""
    interval_s, requests = 0.8 * SERVICE_S, 1_000
    answers = open_loop(queue(1), np.arange(requests) * interval_s)
    assert answers.times_s[-1] == pytest.approx(SERVICE_S + (requests - 1) * (SERVICE_S - interval_s))
    assert answers.rate == pytest.approx(1 / SERVICE_S)


@pytest.mark.parametrize("load", [0.3, 0.5, 0.8])
def test_random_arrivals_wait_as_long_as_pollaczek_and_khinchine_say(load: float) -> None:
    """Check the mean time in M/D/1: S + load S / (2 (1 - load)) (Kleinrock, Queueing Systems I, 5.6)."""
    answers = open_loop(queue(1), poisson(load / SERVICE_S, 200_000))
    expected_s = SERVICE_S * (1 + load / (2 * (1 - load)))
    assert answers.times_s.mean() == pytest.approx(expected_s, rel=0.02)


@pytest.mark.parametrize("connections", [1, 4, 8, 9, 64])
def test_a_closed_loop_has_the_rate_of_the_slots_that_it_fills(connections: int) -> None:
    """Check X = min(N, k) / S, and Little's law for the times."""
    answers = closed_loop(queue(8), connections, 5_000)
    assert answers.rate == pytest.approx(min(connections, 8) / SERVICE_S, rel=0.005)
    assert answers.times_s.mean() == pytest.approx(connections / answers.rate, rel=0.01)


def test_answers_visit_stations_one_after_the_other() -> None:
    slots, cpu = Station(8), Station(1)
    answers = closed_loop(lambda _: [(slots, SERVICE_S), (cpu, 0.002)], 64, 5_000)
    assert answers.rate == pytest.approx(1 / 0.002, rel=0.01), "the second is the limit"


def test_a_hundredth_of_slow_answers_is_in_the_highest_percentiles_alone() -> None:
    station = Station(64)
    answers = open_loop(lambda number: [(station, 0.001 if number % 100 else 0.1)], np.arange(10_000) / 100)
    assert [answers.percentile_s(q) for q in (50, 98.9, 99.1)] == pytest.approx([0.001, 0.001, 0.1])
