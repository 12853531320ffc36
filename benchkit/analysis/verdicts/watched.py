"""The telemetry of one trial, as checks ask for it: series of samples, and what they say of the measured window.

A trial has a few samples of each of many series, of which its checks read some: series are made when they are asked for,
of plain lists, which for so few samples are faster than arrays.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

LEAST_COVERED = 0.5
"""Of the window: a rate known for less of it is not the window's."""

NEAR_S, NEAR = 0.05, 0.1
"""Hosts are looked at just before the window and just after it, when nothing goes on: samples so near to its ends, in
seconds and as a part of it, are taken as those at its ends."""


AT_EVERY_LOOK = ("load1", "context_switches_total", "cpu_idle_s_total")
"""What every host tells, and is asked at every look."""


@dataclass(frozen=True)
class Growth:
    """How much a counter grew between two samples around a part of the window."""

    by: float
    elapsed_s: float
    """From one sample to the other, by the clock."""
    covered_s: float
    """Of the window: less, where the samples lie outside of it."""


@dataclass(frozen=True)
class Series:
    """The samples of one metric: of a host, or of a service there, and of one instance where it has several."""

    host: str
    service: str | None
    instance: str | None
    t_s: Sequence[float]
    """Ascending; 0 is the start of the measured window."""
    values: Sequence[float]

    def rate(self, window_s: float) -> float | None:
        """How fast a counter grew, per second of the window; None where samples cover less than half of it."""
        grown = self.growth(window_s)
        return None if grown is None else grown.by / grown.covered_s

    def growth(self, window_s: float) -> Growth | None:
        """How much a counter grew over the part of the window that samples cover, between them linearly.

        None where that is less than half of it.
        """
        t_s = self.snapped(window_s)
        low, high = max(0.0, t_s[0]), min(window_s, t_s[-1])
        if high - low < LEAST_COVERED * window_s or high <= low:
            return None
        by, elapsed_s = (_at(high, t_s, each) - _at(low, t_s, each) for each in (self.values, self.t_s))
        return Growth(by, elapsed_s, high - low)

    def snapped(self, window_s: float) -> Sequence[float]:
        """The instants of the samples; the last one before the window and the first one after it, if near, at its ends."""
        near = NEAR_S + NEAR * window_s
        t_s = list(self.t_s)
        before, after = bisect_right(t_s, 0.0) - 1, bisect_left(t_s, window_s)
        if before >= 0 and t_s[before] >= -near:
            t_s[before] = 0.0
        if after < len(t_s) and t_s[after] <= window_s + near:
            t_s[after] = window_s
        return t_s

    def grown(self, start_s: float, end_s: float) -> float:
        """How much a counter grew from the last sample before this time to the first one after it: none is missed."""
        first = max(bisect_right(self.t_s, start_s) - 1, 0)
        last = min(bisect_left(self.t_s, end_s), len(self.t_s) - 1)
        return self.values[max(last, first)] - self.values[first]

    def within(self, window_s: float) -> Sequence[float]:
        """The values sampled in the window, its ends included."""
        return [value for t, value in zip(self.snapped(window_s), self.values, strict=True) if 0 <= t <= window_s]

    def highest(self, window_s: float) -> float:
        """The highest value sampled in the window; 0 where there is none."""
        return max(self.within(window_s), default=0.0)


class Watched:
    """All series of a trial."""

    def __init__(self, columns: Mapping[str, Sequence[Any]] | None = None) -> None:
        """Take the rows of the `telemetry` table that a trial has, by column; None: nothing was watched."""
        self._columns = columns
        self._rows: dict[str, list[int]] = {}
        self._made: dict[str, list[Series]] = {}
        self._grown: dict[tuple[str, str, str, float], Growth | None] = {}
        for row, metric in enumerate(columns["metric"] if columns is not None else ()):
            self._rows.setdefault(metric, []).append(row)

    def series(self, metric: str, host: str | None = None, service: str | None = None) -> list[Series]:
        """The series of a metric; all of them, or those of a host, or of a service."""
        if metric not in self._made:
            self._made[metric] = self._make(metric)
        return [
            each
            for each in self._made[metric]
            if (host is None or each.host == host) and (service is None or each.service == service)
        ]

    def instance(self, metric: str, host: str, instance: str) -> Series | None:
        """The series of one instance of a metric of the host itself; None where it was not watched."""
        return next((each for each in self.series(metric, host) if each.instance == instance), None)

    def growth(self, metric: str, host: str, instance: str, window_s: float) -> Growth | None:
        """How much that grew; None where it was not watched, or for too little of the window. Several checks ask the same."""
        key = metric, host, instance, window_s
        if key not in self._grown:
            series = self.instance(metric, host, instance)
            self._grown[key] = None if series is None else series.growth(window_s)
        return self._grown[key]

    @property
    def metrics(self) -> Collection[str]:
        """What was watched at all."""
        return self._rows.keys()

    def instants(self, host: str) -> Sequence[float]:
        """When the host was sampled; none where it was not watched."""
        for metric in AT_EVERY_LOOK:
            for each in self.series(metric, host):
                return each.t_s
        return ()

    def _make(self, metric: str) -> list[Series]:
        if self._columns is None or metric not in self._rows:
            return []
        names = [self._columns[name] for name in ("host", "service", "instance")]
        t_s, values = self._columns["t_s"], self._columns["value"]
        samples: dict[tuple[str, str | None, str | None], list[tuple[float, float]]] = {}
        for row in self._rows[metric]:
            value = values[row]
            if value is not None and not math.isnan(value):
                host, service, instance = (column[row] for column in names)
                samples.setdefault((host, service, instance), []).append((float(t_s[row]), float(value)))
        return [
            Series(*key, *(list(each) for each in zip(*sorted(pairs, key=lambda pair: pair[0]), strict=True)))
            for key, pairs in samples.items()
        ]


def _at(when: float, t_s: Sequence[float], values: Sequence[float]) -> float:
    """The value at an instant within the samples, linearly between two of them."""
    after = bisect_left(t_s, when)
    if t_s[after] == when:
        return values[after]
    low, high = t_s[after - 1], t_s[after]
    return values[after - 1] + (values[after] - values[after - 1]) * (when - low) / (high - low)
