from __future__ import annotations

import time

from benchkit.agent.operations import Clocks
from benchkit.hosts.clock import SAMPLES, compare


def test_a_host_is_asked_a_few_times() -> None:
    asked = []

    def ask() -> Clocks:
        asked.append(1)
        return Clocks(time.monotonic_ns() + 5_000_000_000, time.time_ns() - 2_000_000_000)

    clock = compare(ask)
    assert len(asked) == SAMPLES
    assert abs(clock.monotonic_offset_ns - 5_000_000_000) <= clock.uncertainty_s * 1e9 + 1
    assert abs(clock.wall_offset_s + 2) <= clock.uncertainty_s + 1e-6
