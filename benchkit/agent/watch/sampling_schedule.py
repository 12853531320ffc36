"""When to look: at a set interval, and beside that when somebody asks for it."""

from __future__ import annotations

import threading
import time
from typing import Dict, Iterator

SECOND_NS = 1_000_000_000


class SamplingSchedule:
    """Beats at a set interval for any number of threads. A beat that was missed is not made up: it is a gap."""

    def __init__(self, interval_s: float) -> None:
        """The first beat comes at once."""
        self.interval_ns = round(interval_s * SECOND_NS)
        self._changed = threading.Condition()
        self._asked = 0
        self._done: Dict[int, int] = {}
        self._followers = 0
        self._is_over = False

    def beats(self) -> Iterator[bool]:
        """Each beat, with whether it was asked for, until there will be none; for one follower each.

        Who has called this is waited for by `beat_now`, also before the first beat was taken.
        After a beat that was asked for the next comes half an interval later: a window of whole intervals, which is
        asked for at both ends, then has none close to its end.
        """
        with self._changed:
            self._followers += 1
            self._done[self._followers] = self._asked
            return self._follow(self._followers, self._asked)

    def beat_now(self, timeout_s: float) -> bool:
        """Have everybody beat once more, now; whether all had done so in time."""
        with self._changed:
            self._asked += 1
            mine = self._asked
            self._changed.notify_all()
            return self._changed.wait_for(lambda: all(done >= mine for done in self._done.values()), timeout_s)

    def end(self) -> None:
        """Have the beats end."""
        with self._changed:
            self._is_over = True
            self._changed.notify_all()

    def _follow(self, me: int, done: int) -> Iterator[bool]:
        next_ns = time.monotonic_ns()
        while True:
            with self._changed:
                while not self._is_over and self._asked == done:
                    left_ns = next_ns - time.monotonic_ns()
                    if left_ns <= 0:
                        break
                    self._changed.wait(left_ns / SECOND_NS)
                if self._is_over:
                    del self._done[me]
                    self._changed.notify_all()
                    return
                asked = self._asked
            if asked != done:
                next_ns = time.monotonic_ns() - self.interval_ns // 2
            yield asked != done
            with self._changed:
                done = self._done[me] = asked
                self._changed.notify_all()
            late_ns = max(0, time.monotonic_ns() - next_ns)
            next_ns += (late_ns // self.interval_ns + 1) * self.interval_ns
