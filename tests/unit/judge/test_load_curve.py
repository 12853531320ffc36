"""Load curves of servers whose truth is arithmetic: rate min(N, k) / S, up to what else limits it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from benchkit import units
from benchkit.judge.load_curve import LimitKind, is_complete, knee_of, load_curve, most_connections, saturation
from benchkit.models.rows import LoadCurveRow
from benchkit.models.thresholds import Thresholds


def point(connections: int, rps: float, **fields: Any) -> LoadCurveRow:  # noqa: ANN401 - of any column
    known: dict[str, Any] = {
        "trial_id": "t",
        "duration_s": 0.5,
        "refused": 0.0,
        "failed": 0.0,
        "latency_p50_s": connections / rps if rps else None,
        "latency_p99_s": None,
        "server_cores": 0.1,
        "server_cpu": 0.1,
        "generator_cpu": 0.2,
        "link": None,
    }
    return LoadCurveRow(connections=connections, rps=rps, **{**known, **fields})


def curve(slots: int, service_s: float, **fields: Any) -> list[LoadCurveRow]:  # noqa: ANN401 - of any column
    """Return the points of a server with this many slots, up to the end of its curve."""

    def measured() -> Iterator[LoadCurveRow]:
        for power in range(11):
            yield point(2**power, min(2**power, slots) / service_s, **fields)

    points: list[LoadCurveRow] = []
    for each in measured():
        points.append(each)
        if is_complete(points):
            break
    return points


@pytest.mark.parametrize(("slots", "knee"), [(1, 1), (2, 2), (4, 4), (8, 8), (100, 128)])
def test_a_pool_is_known_by_its_slots(slots: int, knee: int) -> None:
    points = curve(slots, 0.0053)
    assert points[-1].connections == 4 * knee
    found = load_curve(points, Thresholds())
    assert (found.knee, found.limit.kind) == (knee, "slots")
    assert found.limit.slots == pytest.approx(slots)
    requests = units.counted(slots, "request") if slots < 10 else f"about {slots} requests"
    assert f"serves {requests} at a time" in found.limit.sentence
    assert found.answer_s == pytest.approx(0.0053)
    assert found.rps == pytest.approx(slots / 0.0053)


@pytest.mark.parametrize(
    ("slots", "service_s", "requests", "whole"),
    [
        (8, 0.0050, "8 requests", 8),
        (8, 0.0051, "8 requests", 8),
        (5, 0.0053, "5 requests", 5),
        (1, 0.0042, "1.26 requests", None),
        (32, 0.0050, "about 33.9 requests", None),
    ],
)
def test_time_outside_a_slot_adds_none(slots: int, service_s: float, requests: str, whole: int | None) -> None:
    """Each answer takes 5.3 ms, of which its slot is in use for a part."""
    points = [point(2**power, min(2**power / 0.0053, slots / service_s)) for power in range(9)]
    found = load_curve(points, Thresholds()).limit
    assert found.sentence.startswith(f"it serves {requests} at a time (")
    assert found.slots == pytest.approx(slots * 0.0053 / service_s)
    assert found.whole_slots == whole
    assert slots in found.possible_slots or whole is None


def test_means_of_random_times_differ_by_chance() -> None:
    """Rates of a pool of 5 whose service times are exponential, 20 ms on average; measured."""
    rates = {1: 56.0, 2: 99.7, 4: 232.1, 8: 222.0, 16: 263.2, 32: 258.0, 64: 255.0}
    points = [point(n, rate, duration_s=1.8, latency_stdev_s=0.02) for n, rate in rates.items()]
    found = load_curve(points, Thresholds())
    assert found.limit.slots_low is not None
    assert found.limit.slots_high is not None
    assert found.limit.slots_low < 5 < found.limit.slots_high < 1.25 * 5
    few = [point(2**power, min(2**power / 0.011, 520), latency_stdev_s=0.02) for power in range(7)]
    assert {*load_curve(few, Thresholds()).limit.possible_slots} == {5, 6}
    exact = load_curve([point(n, rate) for n, rate in rates.items()], Thresholds())
    assert exact.answer_s == pytest.approx((1 + 4) / (56.0 + 232.1)), "exact times are longer where requests wait"
    assert found.answer_s == pytest.approx((1 + 2 + 4) / (56.0 + 99.7 + 232.1))


def test_a_delayed_acknowledgement_needs_no_slot() -> None:
    """A server of 3 threads serves for 15 ms, and writes so that each answer awaits an acknowledgement for 40 ms."""
    points = [point(2**power, min(2**power / 0.056, 190)) for power in range(7)]
    assert load_curve(points, Thresholds()).limit.sentence.startswith("it serves about 10.6 requests at a time")
    found = load_curve(points, Thresholds(), held_s=0.0155)
    text = (
        "it serves 3 requests at a time (rate × response time = 2.94, 95 % CI 2.94 to 2.94, without 40.5 ms, in which"
    )
    assert found.limit.sentence == f"{text} answers await a delayed acknowledgement)"
    assert found.answer_s == pytest.approx(0.056), "as users of one connection see it"
    for held_s in (0.050, 0.004):  # another time is that of a queue, a batch or a failure
        assert load_curve(points, Thresholds(), held_s).limit == load_curve(points, Thresholds()).limit
    workers = [point(2**power, min(2**power, 3) / 0.056, in_flight=min(2**power, 3)) for power in range(5)]
    limit = load_curve(workers, Thresholds(), held_s=0.0155).limit
    assert limit.sentence.startswith("it serves 3 requests at a time"), "a worker waits for its own connection"


def test_refused_answers_take_time_too() -> None:
    points = [point(2**power, 50.0, refused=0.5, in_flight=1.0) for power in range(4)]
    assert load_curve(points, Thresholds()).answer_s == pytest.approx(0.01), "100 answers per second"


def test_no_whole_number_is_far_from_the_slots() -> None:
    """Workers that take 10 and 40 ms in turn serve 1.25 requests at a time; points of two seconds."""
    rates = {1: 44.0, 2: 51.0, 4: 51.0, 8: 51.0}
    points = [point(n, rate, duration_s=2.0, latency_stdev_s=0.02) for n, rate in rates.items()]
    limit = load_curve(points, Thresholds()).limit
    assert limit.clause == "serves 1.16 requests at a time"
    assert [*limit.possible_slots] == [1]
    assert limit.whole_slots is None


def test_slots_are_known_where_workers_divide_connections_unevenly() -> None:
    rates = {1: 50, 2: 100, 4: 150, 8: 220, 16: 250, 32: 251, 64: 249}
    found = load_curve([point(connections, rate) for connections, rate in rates.items()], Thresholds())
    assert found.knee == 16
    assert found.limit.slots == pytest.approx(5, rel=0.01)


def test_slots_are_known_where_nothing_answered_at_first() -> None:
    found = load_curve([point(1, 0), point(2, 50), point(4, 50), point(8, 50)], Thresholds())
    assert found.knee == 2
    assert found.limit.slots == pytest.approx(2)


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({"generator_cpu": 0.95}, "load tool"),
        ({"link": 0.93}, "link"),
        ({"refused": 0.2}, "rate"),
        ({"server_cpu": 0.97, "server_cores": 0.97}, "cpu"),
        ({"server_cpu": 0.5, "server_cores": 2.4}, "cpu"),
        ({"server_cpu": 0.5, "server_cores": 2.3}, "slots"),
        ({"server_cpu": None, "server_cores": None}, "unknown"),
    ],
)
def test_what_is_full_is_the_limit(fields: dict[str, Any], kind: LimitKind) -> None:
    assert load_curve(curve(4, 0.0053, **fields), Thresholds()).limit.kind == kind


def test_a_rate_limiter_lets_less_than_one_request_in_at_a_time_or_has_a_round_rate() -> None:
    paused = [point(1, 1000.0), *(point(connections, 100.0) for connections in (2, 4))]
    assert load_curve(paused, Thresholds()).limit.kind == "rate"
    exact = load_curve([point(2**power, 2000.0) for power in range(3)], Thresholds())
    text = "it is limited to 2,000 requests/s by a rate limiter, or a lock that each request holds for 500 µs"
    assert exact.limit.sentence.startswith(text)
    assert load_curve([point(2**power, 1940.0) for power in range(3)], Thresholds()).limit.kind == "slots"


def test_points_without_an_answer_are_not_part_of_the_rate() -> None:
    points = [*curve(4, 0.01), point(64, 0.0, failed=1.0)]
    assert load_curve(points, Thresholds()).rps == pytest.approx(400)


def test_a_curve_that_begins_without_answers_has_a_knee() -> None:
    points = [point(1, 0.0), *(point(2**power, min(2**power, 8) / 0.01) for power in range(1, 6))]
    assert saturation(points) == pytest.approx(8)


def test_a_rate_that_grows_to_the_end_has_no_knee() -> None:
    points = curve(5000, 0.01)
    assert points[-1].connections == 1024
    found = load_curve(points, Thresholds())
    assert (found.knee, found.limit.kind) == (1024, "not reached")
    assert found.limit.sentence == "it does not reach its limit with 1,024 connections"


def test_one_disturbed_point_is_no_knee() -> None:
    rates = [100.0, 102.0, 400.0, 800.0, 810.0, 805.0]
    points = [point(2**power, rate) for power, rate in enumerate(rates)]
    assert knee_of(points) == 8


def test_connections_that_fail_end_a_curve_and_are_not_used() -> None:
    points = [point(1, 100.0), point(2, 200.0), point(4, 390.0, failed=0.2)]
    assert is_complete(points)
    assert knee_of(points) == 2
    assert most_connections(points) == 2


@pytest.mark.parametrize(
    ("in_flight", "most"),
    [
        ((63.7, 98.1, 97.5, 99.9), 89),  # webrick: 100 threads, each for a connection
        ((60.0, 118.0, 240.0, 480.0), 512),
        ((63.7, None, None, None), 57),
        ((None,) * 4, 512),
    ],
)
def test_no_trial_has_connections_that_are_never_served(in_flight: tuple[float | None, ...], most: int) -> None:
    points = [point(64 * 2**power, 2000.0, in_flight=each) for power, each in enumerate(in_flight)]
    assert most_connections(points) == most


def test_no_trial_opens_more_connections_at_once_than_may_wait() -> None:
    points = [point(2**power, 2000.0, accept_queue=50) for power in range(9)]
    assert most_connections(points) == 50


@pytest.mark.parametrize("rates", [(100.0, 130.0, 500.0, 510.0, 380.0), (645.0, 550.0, 493.0)])
def test_points_that_differ_too_much_name_neither_slots_nor_a_rate_limiter(rates: tuple[float, ...]) -> None:
    found = load_curve([point(2**power, rate) for power, rate in enumerate(rates)], Thresholds())
    assert found.limit.kind == "unknown"


def test_a_server_that_answers_nothing_has_no_curve() -> None:
    with pytest.raises(ValueError, match="no request was answered"):
        load_curve([point(1, 0.0)], Thresholds())
