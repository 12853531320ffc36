"""The telemetry of one trial, as checks ask for it: series of samples, and what they say of the measured window.

A trial has a few samples of each of many series, of which its checks read some: series are made when they are asked for,
of plain lists, which for so few samples are faster than arrays.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import NamedTuple

from benchkit.models.rows import Columns, TelemetryRow

LEAST_COVERED = 0.5
"""Of the window: a rate known for less of it is not the window's."""

NEAR_S, NEAR = 0.05, 0.1
"""Hosts are looked at just before the window and just after it, when nothing goes on: samples so near to its ends, in
seconds and as a part of it, are taken as those at its ends."""


ALWAYS_SAMPLED = ("load1", "context_switches_total", "cpu_idle_s_total")
"""What every host tells, and is asked at every look."""

_COLUMNS = ("host", "service", "instance", "t_s", "value")


class Growth(NamedTuple):
    """How much a counter grew between two samples around a part of the window."""

    increase: float
    elapsed_s: float
    """From one sample to the other, by the clock."""
    covered_s: float
    """Of the window: less, where the samples lie outside of it."""


class Series(NamedTuple):
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
        return None if grown is None else grown.increase / grown.covered_s

    def growth(self, window_s: float) -> Growth | None:
        """How much a counter grew over the part of the window that samples cover, between them linearly.

        None where that is less than half of it.
        """
        t_s = self.aligned_times(window_s)
        low, high = max(0.0, t_s[0]), min(window_s, t_s[-1])
        if high - low < LEAST_COVERED * window_s or high <= low:
            return None
        first, last = bisect_left(t_s, low), bisect_left(t_s, high)
        by = _at(high, last, t_s, self.values) - _at(low, first, t_s, self.values)
        elapsed_s = _at(high, last, t_s, self.t_s) - _at(low, first, t_s, self.t_s)
        return Growth(by, elapsed_s, high - low)

    def aligned_times(self, window_s: float) -> Sequence[float]:
        """The instants of the samples; the last one before the window and the first one after it, if near, at its ends."""
        near = NEAR_S + NEAR * window_s
        t_s = list(self.t_s)
        before, after = bisect_right(t_s, 0.0) - 1, bisect_left(t_s, window_s)
        if before >= 0 and t_s[before] >= -near:
            t_s[before] = 0.0
        if after < len(t_s) and t_s[after] <= window_s + near:
            t_s[after] = window_s
        return t_s

    def increase_around(self, start_s: float, end_s: float) -> float:
        """How much a counter grew from the last sample before this time to the first one after it: none is missed."""
        first = max(bisect_right(self.t_s, start_s) - 1, 0)
        last = min(bisect_left(self.t_s, end_s), len(self.t_s) - 1)
        return self.values[max(last, first)] - self.values[first]

    def in_window(self, window_s: float) -> Sequence[float]:
        """The values of a state sampled in the window; how it was just before or after says nothing of it."""
        return self.values[bisect_left(self.t_s, 0) : bisect_right(self.t_s, window_s)]

    def maximum(self, window_s: float) -> float | None:
        """The highest value of a state sampled in the window; None where it was not."""
        return max(self.in_window(window_s), default=None)


class TrialTelemetry:
    """All series of a trial."""

    def __init__(self, columns: Columns[TelemetryRow] | None = None) -> None:
        """Take the rows of the `telemetry` table that a trial has, by column; None: nothing was watched."""
        self._columns = [columns[name] for name in _COLUMNS] if columns is not None else []
        self._rows: defaultdict[str, list[int]] = defaultdict(list)
        self._made: dict[str, _Family] = {}
        self._grown: dict[tuple[Sequence[str], str, str, float], Sequence[Growth] | None] = {}
        for row, metric in enumerate(columns["metric"] if columns is not None else ()):
            self._rows[metric].append(row)

    def series(self, metric: str, host: str | None = None, service: str | None = None) -> Sequence[Series]:
        """The series of a metric; all of them, or those of a host, or of a service."""
        family = self._family(metric)
        found = family.all if host is None else family.of_host.get(host, ())
        return found if service is None else [each for each in found if each.service == service]

    def instance(self, metric: str, host: str, instance: str) -> Series | None:
        """The series of one instance of a metric of the host itself; None where it was not watched."""
        return self._family(metric).instances.get((host, instance))

    def growths(self, metrics: tuple[str, ...], host: str, instance: str, window_s: float) -> Sequence[Growth] | None:
        """How much each of these counters of an instance grew.

        None where one of them was not watched, or for too little of the window. Several checks ask the same.
        """
        key = metrics, host, instance, window_s
        if key not in self._grown:
            series = [self.instance(metric, host, instance) for metric in metrics]
            grown = [each for one in series if one is not None and (each := one.growth(window_s)) is not None]
            self._grown[key] = grown if len(grown) == len(metrics) else None
        return self._grown[key]

    @property
    def metrics(self) -> Collection[str]:
        """What was watched at all."""
        return self._rows.keys()

    def sample_times(self, host: str) -> Sequence[float]:
        """When the host was sampled; none where it was not watched."""
        for metric in ALWAYS_SAMPLED:
            for each in self.series(metric, host):
                return each.t_s
        return ()

    def _family(self, metric: str) -> _Family:
        if metric not in self._made:
            self._made[metric] = _Family(self._make(metric))
        return self._made[metric]

    def _make(self, metric: str) -> list[Series]:
        if metric not in self._rows:
            return []
        hosts, services, instances, instants, values = self._columns
        samples: dict[tuple[str, str | None, str | None], tuple[list[float], list[float]]] = {}
        for row in self._rows[metric]:
            value = values[row]
            if value is not None and value == value:  # noqa: PLR0124 - NaN differs from itself
                key = hosts[row], services[row], instances[row]
                known = samples.get(key)
                if known is None:
                    samples[key] = known = [], []
                known[0].append(float(instants[row]))
                known[1].append(float(value))
        return [Series(*key, *_ascending(*known)) for key, known in samples.items()]


class _Family:
    """The series of one metric, by what they are asked for."""

    def __init__(self, series: Sequence[Series]) -> None:
        self.all = series
        self.of_host: dict[str, list[Series]] = {}
        self.instances: dict[tuple[str, str | None], Series] = {}
        for each in series:
            self.of_host.setdefault(each.host, []).append(each)
            self.instances.setdefault((each.host, each.instance), each)


def _ascending(t_s: list[float], values: list[float]) -> tuple[Sequence[float], Sequence[float]]:
    """Samples by their instants, which they mostly come by."""
    if sorted(t_s) == t_s:
        return t_s, values
    order = sorted(range(len(t_s)), key=t_s.__getitem__)
    return [t_s[i] for i in order], [values[i] for i in order]


def _at(when: float, after: int, t_s: Sequence[float], values: Sequence[float]) -> float:
    """The value at an instant within the samples, linearly between two of them: the last one before it, and that at `after`."""
    if t_s[after] == when:
        return values[after]
    low, high = t_s[after - 1], t_s[after]
    return values[after - 1] + (values[after] - values[after - 1]) * (when - low) / (high - low)
