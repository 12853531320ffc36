"""The offsets between a host's clocks and the controller's, and their uncertainty."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from benchkit.agent.operations import Clocks

SAMPLES = 8


@dataclass(frozen=True)
class Clock:
    """Offsets between a host's clocks and the controller's."""

    monotonic_offset_ns: int
    """Host minus controller."""
    wall_offset_s: float
    """Host minus controller."""
    uncertainty_s: float
    """Bound on the error of either offset."""

    def to_host_ns(self, instant_s: float) -> int:
        """Convert an instant of the controller's `time.monotonic()` to the host's monotonic clock."""
        return round(instant_s * 1e9) + self.monotonic_offset_ns

    def to_controller_s(self, host_ns: int) -> float:
        """Convert an instant of the host's monotonic clock to the controller's `time.monotonic()`."""
        return (host_ns - self.monotonic_offset_ns) / 1e9


def elapsed_s() -> float:
    """Return the seconds of a clock that cannot be set and runs on while the machine sleeps.

    `time.monotonic()` stops during sleep on Linux and macOS (clock_gettime(2) of both).
    """
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def compare(read_clocks: Callable[[], Clocks]) -> Clock:
    """Return the offsets of the fastest of a few exchanges, assuming that the host read its clocks in its middle.

    Half of the exchange's duration bounds the error, whatever the asymmetry of the two directions: F. Cristian,
    Probabilistic clock synchronization, Distributed Computing 3 (1989), section 3.
    """
    return min((_exchange(read_clocks) for _ in range(SAMPLES)), key=lambda clock: clock.uncertainty_s)


def _exchange(read_clocks: Callable[[], Clocks]) -> Clock:
    # Both readings are within the exchange, whose duration bounds the error.
    sent_ns, sent_wall_ns = time.monotonic_ns(), time.time_ns()
    host = read_clocks()
    half_ns = (time.monotonic_ns() - sent_ns) / 2
    return Clock(
        monotonic_offset_ns=round(host.monotonic_ns - sent_ns - half_ns),
        wall_offset_s=(host.wall_ns - sent_wall_ns - half_ns) / 1e9,
        uncertainty_s=half_ns / 1e9,
    )
