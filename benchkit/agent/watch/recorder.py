"""Samples as lines of a file: what was looked at is named once, then come numbers alone.

    {"format": 1, "interval_s": 1.0, …}
    {"group": 0, "service": null, "series": [["cpu_user_s_total", "0"], …]}
    {"t_ns": 123, "values": {"0": [17.2, …]}}

A group is named again when its series are others than before. Times are those of the host's monotonic clock.
"""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Dict, List, NamedTuple, Optional, Tuple

from benchkit.agent.frames import Json
from benchkit.agent.watch.collector import Key, Values

FORMAT = 1


class Group(NamedTuple):
    """What is looked at together: its number in the file, and the service that it is of; None: the host."""

    number: int
    service: Optional[str]


Sample = List[Tuple[Group, Values]]

NOW = frozenset({"cpu_s_total", "requests_total"})
"""What somebody who looks on while it happens is told, of each service."""


class Recorder:
    """Writes samples; safe for many threads."""

    BUFFER = 1 << 18

    def __init__(self, path: Path, about: Json) -> None:
        """Begin the file, with `about` in its first line."""
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._file = path.open("xb", buffering=self.BUFFER)
        self._lock = threading.Lock()
        self._groups = 0
        self._series: Dict[int, Tuple[Key, ...]] = {}
        self._now: Dict[str, Dict[str, Tuple[int, float]]] = {}
        self._line({"format": FORMAT, **about})

    def group(self, service: Optional[str]) -> Group:
        """A new group."""
        with self._lock:
            self._groups += 1
            return Group(self._groups - 1, service)

    def write(self, at_ns: int, sample: Sample) -> None:
        """Write what was seen at one instant; nothing where nothing was."""
        with self._lock:
            if self._file.closed:  # somebody who was late to look
                return
            numbers: Dict[int, List[float]] = {}
            for group, values in sample:
                if not values:
                    continue
                series = tuple(values)
                if self._series.get(group.number) != series:
                    self._series[group.number] = series
                    self._line({"group": group.number, "service": group.service, "series": series})
                numbers[group.number] = list(values.values())
            if numbers:
                self._line({"t_ns": at_ns, "values": numbers})

    def close(self, about: Json) -> None:
        """End the file, with `about` in its last line."""
        with self._lock:
            self._line(about)
            self._file.close()

    def see(self, at_ns: int, sample: Sample) -> None:
        """Keep what is new, for those who look on; instances are added up."""
        for group, values in sample:
            found: Dict[str, float] = {}
            for (metric, _), value in values.items():
                if group.service is not None and metric in NOW:
                    found[metric] = found.get(metric, 0.0) + value
            for metric, value in found.items():
                self._now.setdefault(group.service or "", {})[metric] = at_ns, value

    def now(self) -> Json:
        """What was seen last of each service: metric → (when, on the host's monotonic clock; value)."""
        return {service: dict(seen) for service, seen in list(self._now.items())}

    def track(self, interval_ns: int) -> Track:
        """For one who samples at an interval."""
        return Track(self, interval_ns)

    def _line(self, content: Json) -> None:
        self._file.write(json.dumps(content, separators=(",", ":")).encode() + b"\n")


class Track:
    """Holds each sample back until the next is there; for one thread.

    One that was asked for takes the place of one that came less than a quarter of an interval before: over a moment,
    counters in hundredths of a second give no rates.
    """

    def __init__(self, recorder: Recorder, interval_ns: int) -> None:
        self._recorder = recorder
        self._interval_ns = interval_ns
        self._held: Optional[Tuple[int, Sample]] = None

    def write(self, at_ns: int, sample: Sample, *, asked: bool) -> None:
        """Take a sample; `asked`: it was asked for, beside the rhythm."""
        self._recorder.see(at_ns, sample)
        if self._held is not None and not (asked and at_ns - self._held[0] < self._interval_ns / 4):
            self._recorder.write(*self._held)
        self._held = at_ns, sample

    def close(self) -> None:
        """No sample will come."""
        if self._held is not None:
            self._recorder.write(*self._held)
            self._held = None
