"""The instants of samples: a regular interval, and extra samples on request."""

from __future__ import annotations

import enum
import threading
import time
from typing import Dict, Iterator, List

SECOND_NS = 1_000_000_000


class Tick(enum.Enum):
    """The reason for a sample."""

    REGULAR = "regular"
    REQUESTED = "requested"
    """By `tick_now`."""
    SCHEDULED = "scheduled"
    """By `tick_at`."""


class SamplingSchedule:
    """Ticks at a regular interval for any number of threads. A missed tick is skipped and leaves a gap."""

    def __init__(self, interval_s: float) -> None:
        """Tick every `interval_s` seconds, at once for the first time."""
        self.interval_ns = round(interval_s * SECOND_NS)
        self._changed = threading.Condition()
        self._requested = 0
        self._done: Dict[int, int] = {}
        self._followers = 0
        self._instants: List[int] = []
        self._is_stopped = False

    def ticks(self) -> Iterator[Tick]:
        """Return an iterator over the ticks, for one thread.

        `tick_now` waits for all callers of this method, also before they take their first tick. After a requested tick
        the next one comes half an interval later: a window of whole intervals with a request at both ends then has no
        regular tick close to its end.
        """
        with self._changed:
            self._followers += 1
            self._done[self._followers] = self._requested
            return self._follow(self._followers, self._requested)

    def tick_now(self, timeout_s: float) -> bool:
        """Request an extra tick and wait until all threads have handled it; return False at the timeout."""
        with self._changed:
            self._requested += 1
            request = self._requested
            self._changed.notify_all()
            return self._changed.wait_for(lambda: all(done >= request for done in self._done.values()), timeout_s)

    def tick_at(self, at_ns: List[int]) -> None:
        """Tick at these instants, and at none of the regular interval until the last of them is over."""
        with self._changed:
            self._instants = sorted([*self._instants, *at_ns])
            self._changed.notify_all()

    def stop(self) -> None:
        """End the ticks."""
        with self._changed:
            self._is_stopped = True
            self._changed.notify_all()

    def _follow(self, follower: int, done: int) -> Iterator[Tick]:
        next_ns = time.monotonic_ns()
        place = 0
        while True:
            with self._changed:
                while not self._is_stopped and self._requested == done:
                    is_scheduled = place < len(self._instants)
                    due_ns = self._instants[place] if is_scheduled else next_ns
                    remaining_ns = due_ns - time.monotonic_ns()
                    if remaining_ns <= 0:
                        break
                    self._changed.wait(remaining_ns / SECOND_NS)
                if self._is_stopped:
                    del self._done[follower]
                    self._changed.notify_all()
                    return
                requested = self._requested
            if requested != done:
                next_ns = time.monotonic_ns() - self.interval_ns // 2
                yield Tick.REQUESTED
            elif is_scheduled:
                place += 1
                yield Tick.SCHEDULED
            else:
                yield Tick.REGULAR
            with self._changed:
                done = self._done[follower] = requested
                self._changed.notify_all()
            late_ns = max(0, time.monotonic_ns() - next_ns)
            next_ns += (late_ns // self.interval_ns + 1) * self.interval_ns
