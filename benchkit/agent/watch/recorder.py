"""The telemetry file: lines of JSON in which series are named once, followed by their values.

    {"format": 1, "interval_s": 1.0, …}
    {"group": 0, "service": null, "series": [["cpu_user_s_total", "0"], …]}
    {"t_ns": 123, "values": {"0": [17.2, …]}}

A group is named again when its series change. Times are those of the host's monotonic clock.
"""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Dict, List, NamedTuple, Optional, Tuple

from benchkit.agent.frames import Json
from benchkit.agent.watch.collector import Key, Values
from benchkit.agent.watch.sampling_schedule import Tick

FORMAT = 1


class Group(NamedTuple):
    """Series that are sampled together: their number in the file, and their service; None: the host."""

    number: int
    service: Optional[str]


Sample = List[Tuple[Group, Values]]

LIVE_METRICS = frozenset({"cpu_s_total", "requests_total"})
"""Metrics of services that are shown while a trial runs."""


class Recorder:
    """Writes samples to the file; safe for many threads."""

    BUFFER = 1 << 18

    def __init__(self, path: Path, about: Json) -> None:
        """Create the file, with `about` in its first line."""
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._file = path.open("xb", buffering=self.BUFFER)
        self._lock = threading.Lock()
        self._groups = 0
        self._series: Dict[int, Tuple[Key, ...]] = {}
        self._latest: Dict[str, Dict[str, Tuple[int, float]]] = {}
        self._write_line({"format": FORMAT, **about})

    def group(self, service: Optional[str]) -> Group:
        """Return a new group."""
        with self._lock:
            self._groups += 1
            return Group(self._groups - 1, service)

    def write(self, at_ns: int, sample: Sample) -> None:
        """Write a sample of one instant; nothing where it is empty."""
        with self._lock:
            if self._file.closed:  # a sample that was still running at the end
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

    def close(self, about: Json) -> None:
        """Close the file, with `about` in its last line."""
        with self._lock:
            self._write_line(about)
            self._file.close()

    def remember(self, at_ns: int, sample: Sample) -> None:
        """Keep the live metrics of a sample, summed over instances."""
        for group, values in sample:
            sums: Dict[str, float] = {}
            for (metric, _), value in values.items():
                if group.service is not None and metric in LIVE_METRICS:
                    sums[metric] = sums.get(metric, 0.0) + value
            for metric, value in sums.items():
                self._latest.setdefault(group.service or "", {})[metric] = at_ns, value

    def latest(self) -> Json:
        """Return the last live metrics of each service: metric → (ns on the host's monotonic clock, value)."""
        return {service: dict(metrics) for service, metrics in list(self._latest.items())}

    def track(self, interval_ns: int) -> Track:
        """Return a writer for samples at an interval."""
        return Track(self, interval_ns)

    def _write_line(self, content: Json) -> None:
        self._file.write(json.dumps(content, separators=(",", ":")).encode() + b"\n")


class Track:
    """Delays each sample until the next one; for one thread.

    A requested sample replaces a regular or requested one that is less than a quarter of an interval older: over such a
    short time counters in hundredths of a second give no rates. It replaces no scheduled one, which is the edge of a
    slice.
    """

    def __init__(self, recorder: Recorder, interval_ns: int) -> None:
        self._recorder = recorder
        self._interval_ns = interval_ns
        self._delayed: Optional[Tuple[int, Sample]] = None
        self._delayed_tick = Tick.REGULAR

    def write(self, at_ns: int, sample: Sample, tick: Tick) -> None:
        """Add the sample of a tick."""
        self._recorder.remember(at_ns, sample)
        if self._delayed is not None and not self._replaces(self._delayed[0], at_ns, tick):
            self._recorder.write(*self._delayed)
        self._delayed, self._delayed_tick = (at_ns, sample), tick

    def close(self) -> None:
        """Write the last sample."""
        if self._delayed is not None:
            self._recorder.write(*self._delayed)
            self._delayed = None

    def _replaces(self, delayed_ns: int, at_ns: int, tick: Tick) -> bool:
        if tick is not Tick.REQUESTED or self._delayed_tick is Tick.SCHEDULED:
            return False
        return at_ns - delayed_ns < self._interval_ns / 4
