from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st

from benchkit.agent.operations import Clocks
from benchkit.hosts.clock import SAMPLES, ClockExchange, compare, estimate

delays = st.integers(0, 10**9)


@given(st.integers(-(10**15), 10**15), st.lists(st.tuples(delays, delays), min_size=1, max_size=8))
def test_the_truth_lies_within_the_uncertainty(offset_ns: int, ways: list[tuple[int, int]]) -> None:
    samples = []
    now = 10**12
    for there, back in ways:
        host = now + there + offset_ns
        samples.append(ClockExchange(now, now + there + back, now, host, host))
        now += there + back
    clock = estimate(samples)
    assert abs(clock.monotonic_offset_ns - offset_ns) <= clock.uncertainty_s * 1e9 + 1
    assert abs(clock.wall_offset_s - offset_ns / 1e9) <= clock.uncertainty_s + 1e-6
    assert clock.uncertainty_s == min(there + back for there, back in ways) / 2e9


def test_a_host_is_asked_a_few_times() -> None:
    asked = []

    def ask() -> Clocks:
        asked.append(1)
        return Clocks(time.monotonic_ns() + 5_000_000_000, time.time_ns() - 2_000_000_000)

    clock = compare(ask)
    assert len(asked) == SAMPLES
    assert abs(clock.monotonic_offset_ns - 5_000_000_000) <= clock.uncertainty_s * 1e9 + 1
    assert abs(clock.wall_offset_s + 2) <= clock.uncertainty_s + 1e-6
