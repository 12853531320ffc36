"""The telemetry of one trial, as checks ask for it: series of samples, and what they say of the measured window."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

Reals = npt.NDArray[np.float64]

LEAST_COVERED = 0.5
"""Of the window: a rate known for less of it is not the window's."""

NEAR_S, NEAR = 0.05, 0.1
"""Hosts are looked at just before the window and just after it, when nothing goes on: samples so near to its ends, in
seconds and as a part of it, are taken as those at its ends."""


@dataclass(frozen=True, eq=False)
class Series:
    """The samples of one metric: of a host, or of a service there, and of one instance where it has several."""

    host: str
    service: str | None
    instance: str | None
    t_s: Reals
    """Ascending; 0 is the start of the measured window."""
    values: Reals

    def rate(self, window_s: float) -> float | None:
        """How fast a counter grew, per second, over the part of the window that samples cover, between them linearly.

        None where that is less than half of it.
        """
        t_s = self.snapped(window_s)
        low, high = max(0.0, float(t_s[0])), min(window_s, float(t_s[-1]))
        if high - low < LEAST_COVERED * window_s or high <= low:
            return None
        first, last = np.interp([low, high], t_s, self.values)
        return float(last - first) / (high - low)

    def snapped(self, window_s: float) -> Reals:
        """The instants of the samples; the last one before the window and the first one after it, if near, at its ends."""
        near = NEAR_S + NEAR * window_s
        t_s = self.t_s.copy()
        before, after = int(np.searchsorted(t_s, 0.0, side="right")) - 1, int(np.searchsorted(t_s, window_s))
        if before >= 0 and t_s[before] >= -near:
            t_s[before] = 0.0
        if after < len(t_s) and t_s[after] <= window_s + near:
            t_s[after] = window_s
        return t_s

    def grown(self, start_s: float, end_s: float) -> float:
        """How much a counter grew from the last sample before this time to the first one after it: none is missed."""
        first = max(int(np.searchsorted(self.t_s, start_s, side="right")) - 1, 0)
        last = min(int(np.searchsorted(self.t_s, end_s)), len(self.t_s) - 1)
        return float(self.values[max(last, first)] - self.values[first])

    def within(self, window_s: float) -> Reals:
        """The values sampled in the window, its ends included."""
        t_s = self.snapped(window_s)
        found: Reals = self.values[(t_s >= 0) & (t_s <= window_s)]
        return found

    def highest(self, window_s: float) -> float:
        """The highest value sampled in the window; 0 where there is none."""
        return float(max(self.within(window_s), default=0.0))


class Watched:
    """All series of a trial."""

    def __init__(self, columns: Mapping[str, Sequence[Any]] | None = None) -> None:
        """Take the rows of the `telemetry` table that a trial has, by column; None: nothing was watched."""
        self._series: dict[str, list[Series]] = {}
        if columns is not None:
            self._group(columns)

    def series(self, metric: str, host: str | None = None, service: str | None = None) -> list[Series]:
        """The series of a metric; all of them, or those of a host, or of a service."""
        return [
            each
            for each in self._series.get(metric, ())
            if (host is None or each.host == host) and (service is None or each.service == service)
        ]

    def rates(self, metrics: Iterable[str], host: str, window_s: float) -> dict[str, float]:
        """How fast these counters grew together over the window, by instance; instances that lack one are left out."""
        found: dict[str, list[float]] = {}
        wanted = list(metrics)
        for metric in wanted:
            for each in self.series(metric, host):
                rate = each.rate(window_s)
                if each.instance is not None and rate is not None:
                    found.setdefault(each.instance, []).append(rate)
        return {instance: math.fsum(rates) for instance, rates in found.items() if len(rates) == len(wanted)}

    @cached_property
    def hosts(self) -> frozenset[str]:
        """The hosts that were watched."""
        return frozenset(each.host for series in self._series.values() for each in series)

    def instants(self, host: str) -> Reals:
        """When the host was sampled: the instants of its most frequent series of its own."""
        own = (each.t_s for each in self._all() if each.host == host and each.service is None)
        return max(own, key=len, default=np.empty(0))

    def _all(self) -> Iterator[Series]:
        for series in self._series.values():
            yield from series

    def _group(self, columns: Mapping[str, Sequence[Any]]) -> None:
        rows: dict[tuple[str, str, str | None, str | None], list[int]] = {}
        names = zip(*(columns[name] for name in ("metric", "host", "service", "instance")), strict=True)
        for i, (metric, host, service, instance) in enumerate(names):
            rows.setdefault((metric, host, service, instance), []).append(i)
        t_s, values = (np.asarray(columns[name], dtype=np.float64) for name in ("t_s", "value"))
        for (metric, host, service, instance), taken in rows.items():
            order = np.asarray(taken)[np.argsort(t_s[taken], kind="stable")]
            known = order[~np.isnan(values[order])]
            if len(known):
                series = Series(host, service, instance, t_s[known], values[known])
                self._series.setdefault(metric, []).append(series)
