"""A host's clocks beside the controller's: what an instant here is called there, and how well that is known."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

SAMPLES = 8


@dataclass(frozen=True)
class Sample:
    """One question and its answer; nanoseconds."""

    sent_ns: int
    """Controller, monotonic."""
    received_ns: int
    """Controller, monotonic."""
    sent_wall_ns: int
    """Controller, wall clock."""
    host_ns: int
    """Host, monotonic."""
    host_wall_ns: int
    """Host, wall clock."""


@dataclass(frozen=True)
class Clock:
    """How a host's clocks differ from the controller's."""

    monotonic_offset_ns: int
    """Host less controller."""
    wall_offset_s: float
    """Host less controller."""
    uncertainty_s: float
    """Either offset lies within this of the truth."""
    host_set_ns: int = 0
    """The host's wall clock less its monotonic one: another only once the wall clock was set, or the host has slept."""

    def on_host_ns(self, instant_s: float) -> int:
        """The host's monotonic clock at an instant of the controller's `time.monotonic()`."""
        return round(instant_s * 1e9) + self.monotonic_offset_ns

    def here_s(self, host_ns: int) -> float:
        """The controller's `time.monotonic()` at an instant of the host's monotonic clock."""
        return (host_ns - self.monotonic_offset_ns) / 1e9


def estimate(samples: Iterable[Sample]) -> Clock:
    """The offsets from the exchange that took least time, the host's reading taken to stand in its middle.

    Half that time bounds the error, however the way there and the way back share it: F. Cristian, Probabilistic clock
    synchronization, Distributed Computing 3 (1989), section 3.
    """
    best = min(samples, key=lambda sample: sample.received_ns - sample.sent_ns)
    half_ns = (best.received_ns - best.sent_ns) / 2
    return Clock(
        monotonic_offset_ns=round(best.host_ns - best.sent_ns - half_ns),
        wall_offset_s=(best.host_wall_ns - best.sent_wall_ns - half_ns) / 1e9,
        uncertainty_s=half_ns / 1e9,
        host_set_ns=best.host_wall_ns - best.host_ns,
    )


def elapsed_s() -> float:
    """Seconds from some moment on, by a clock that nobody sets and that goes on while the machine sleeps.

    `time.monotonic()` stands still then on Linux and macOS: clock_gettime(2) of either.
    """
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def controller_set_ns() -> int:
    """The controller's wall clock less the time of `elapsed_s`: another only once the wall clock was set."""
    looks = [(elapsed_s(), time.time_ns(), elapsed_s()) for _ in range(3)]
    before_s, wall_ns, after_s = min(looks, key=lambda look: look[2] - look[0])
    return wall_ns - round((before_s + after_s) / 2 * 1e9)


def compare(ask: Callable[[], Mapping[str, int]]) -> Clock:
    """Compare clocks by asking the host for them a few times."""

    def sample() -> Sample:
        wall, sent = time.time_ns(), time.monotonic_ns()
        answer = ask()
        return Sample(sent, time.monotonic_ns(), wall, answer["monotonic_ns"], answer["wall_ns"])

    return estimate([sample() for _ in range(SAMPLES)])
