"""The instants of samples, and the telemetry file: lines of JSON in which series are named once, followed by values.

    {"format": 1, "interval_s": 1.0, …}
    {"group": 0, "service": null, "series": [["cpu_user_s_total", "0"], …]}
    {"t_ns": 123, "values": {"0": [17.2, …]}}

A group is named again with its new series when they change. Times are on the host's monotonic clock.
"""

from __future__ import annotations

import enum
import json
import threading
import time
from pathlib import Path
from typing import Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from benchkit.agent.common import MetricKey, Values
from benchkit.agent.frames import JsonObject

SECOND_NS = 1_000_000_000
FORMAT = 1


class Tick(enum.Enum):
    """The reason for a sample."""

    REGULAR = "regular"
    REQUESTED = "requested"
    """By `request`."""
    SCHEDULED = "scheduled"
    """By `tick_at`."""


class SamplingSchedule:
    """Ticks at a regular interval for one thread. A missed tick is skipped and leaves a gap."""

    def __init__(self, interval_s: float) -> None:
        """Tick every `interval_s` seconds, at once for the first time."""
        self.interval_ns = round(interval_s * SECOND_NS)
        self._changed = threading.Condition()
        self._requested = self._done = 0
        self._instants: List[int] = []
        self._is_stopped = self._has_ended = False

    def request(self) -> int:
        """Request an extra tick; return its number for `wait`."""
        with self._changed:
            self._requested += 1
            self._changed.notify_all()
            return self._requested

    def wait(self, number: int, timeout_s: float) -> bool:
        """Wait until the thread has handled a requested tick; return False at the timeout."""
        with self._changed:
            return self._changed.wait_for(lambda: self._done >= number or self._has_ended, timeout_s)

    def tick_at(self, at_ns: Sequence[int]) -> None:
        """Tick at these instants; regular ticks pause until the last of them is over."""
        with self._changed:
            self._instants = sorted([*self._instants, *at_ns])
            self._changed.notify_all()

    def stop(self) -> None:
        """End the ticks, after one that was requested before and is not handled yet."""
        with self._changed:
            self._is_stopped = True
            self._changed.notify_all()

    def ticks(self) -> Iterator[Tick]:
        """Yield the ticks.

        The next regular tick comes half an interval after a requested one. So a window of whole intervals between two
        requests has no regular tick close to its end.
        """
        next_ns = time.monotonic_ns()
        while True:
            with self._changed:
                while not self._is_stopped and self._requested == self._done:
                    remaining_ns = (self._instants[0] if self._instants else next_ns) - time.monotonic_ns()
                    if remaining_ns <= 0:
                        break
                    self._changed.wait(remaining_ns / SECOND_NS)
                requested = self._requested
                if requested == self._done and self._is_stopped:
                    self._has_ended = True
                    self._changed.notify_all()
                    return
                tick = Tick.REQUESTED if requested != self._done else Tick.REGULAR
                if tick is Tick.REGULAR and self._instants:
                    del self._instants[0]
                    tick = Tick.SCHEDULED
            if tick is Tick.REQUESTED:
                next_ns = time.monotonic_ns() - self.interval_ns // 2
            yield tick
            with self._changed:
                self._done = requested
                self._changed.notify_all()
            late_ns = max(0, time.monotonic_ns() - next_ns)
            next_ns += (late_ns // self.interval_ns + 1) * self.interval_ns


class SeriesGroup(NamedTuple):
    """Series that are sampled together: number of the group in the file, and its service (None: the host)."""

    number: int
    service: Optional[str]


GroupValues = List[Tuple[SeriesGroup, Values]]


class Recorder:
    """Writes samples to the file; safe for many threads."""

    BUFFER = 1 << 18

    def __init__(self, path: Path, about: JsonObject) -> None:
        """Create the file, with `about` in its first line."""
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._file = path.open("xb", buffering=self.BUFFER)
        self._lock = threading.Lock()
        self._groups = 0
        self._series: Dict[int, Tuple[MetricKey, ...]] = {}
        self._write_line({"format": FORMAT, **about})

    def group(self, service: Optional[str]) -> SeriesGroup:
        """Return a new group."""
        with self._lock:
            self._groups += 1
            return SeriesGroup(self._groups - 1, service)

    def write(self, at_ns: int, sample: GroupValues) -> None:
        """Write a sample of one instant, unless it is empty."""
        with self._lock:
            if self._file.closed:  # the session ended while this sample was taken
                return
            numbers: Dict[int, List[float]] = {}
            for group, values in sample:
                if not values:
                    continue
                series = tuple(values)
                if self._series.get(group.number) != series:
                    self._series[group.number] = series
                    self._write_line({"group": group.number, "service": group.service, "series": series})
                numbers[group.number] = list(values.values())
            if numbers:
                self._write_line({"t_ns": at_ns, "values": numbers})

    def close(self, about: JsonObject) -> None:
        """Close the file, with `about` in its last line."""
        with self._lock:
            self._write_line(about)
            self._file.close()

    def _write_line(self, content: JsonObject) -> None:
        self._file.write(json.dumps(content, separators=(",", ":")).encode() + b"\n")


class SampleWriter:
    """Delays each sample until the next one; for one thread.

    A requested sample replaces a regular or requested one that is less than a quarter of an interval older. In so
    short a time, counters in hundredths of a second give no rates. A scheduled sample is never replaced, as it is the
    edge of a slice.
    """

    def __init__(self, recorder: Recorder, interval_ns: int) -> None:
        self._recorder = recorder
        self._interval_ns = interval_ns
        self._delayed: Optional[Tuple[int, GroupValues, Tick]] = None

    def write(self, at_ns: int, sample: GroupValues, tick: Tick) -> None:
        """Add the sample of a tick."""
        if self._delayed is not None:
            earlier_ns, _, earlier = self._delayed
            is_close = at_ns - earlier_ns < self._interval_ns / 4
            if not (is_close and tick is Tick.REQUESTED and earlier is not Tick.SCHEDULED):
                self.close()
        self._delayed = at_ns, sample, tick

    def close(self) -> None:
        """Write the last sample."""
        if self._delayed is not None:
            self._recorder.write(*self._delayed[:2])
            self._delayed = None
