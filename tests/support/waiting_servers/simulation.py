"""Discrete-event simulation of servers whose requests wait for slots, first come, first served."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from benchkit.stats.samples import Reals


class Station:
    """A part of a server that serves some requests at a time; later ones wait for a free slot."""

    def __init__(self, slots: int) -> None:
        self._free_s = [0.0] * slots

    def leave_s(self, arrival_s: float, service_s: float) -> float:
        """Return when a request leaves; requests must come in the order of their arrivals."""
        end_s = max(arrival_s, self._free_s[0]) + service_s
        heapq.heapreplace(self._free_s, end_s)
        return end_s


Route = Callable[[int], Sequence[tuple[Station, float]]]
"""The stations that a request visits, by its number, and how long each serves it in seconds."""


@dataclass(frozen=True)
class Answers:
    """Rate in requests per second and times of answers in seconds, without the first tenth of the requests."""

    rate: float
    times_s: Reals

    def percentile_s(self, percent: float) -> float:
        """Return a percentile of the times of answers."""
        return float(np.percentile(self.times_s, percent))


def open_loop(route: Route, arrivals_s: Iterable[float]) -> Answers:
    """Simulate requests that come when they are due, whatever is unanswered."""
    return _simulate(route, arrivals_s, later=0)


def closed_loop(route: Route, connections: int, requests: int) -> Answers:
    """Simulate connections of which each sends its next request when its last one is answered."""
    return _simulate(route, [0.0] * connections, later=requests - connections)


def poisson(rate: float, requests: int, seed: int = 1) -> Reals:
    """Return arrivals of a Poisson process in seconds."""
    return np.cumsum(np.random.default_rng(seed).exponential(1 / rate, requests))


def _simulate(route: Route, arrivals_s: Iterable[float], later: int) -> Answers:
    """Simulate these requests, and `later` ones that are sent when one is answered."""
    events = [(at_s, number, at_s, iter(route(number))) for number, at_s in enumerate(arrivals_s)]
    heapq.heapify(events)
    number, ends_s, times_s = len(events), [], []
    while events:
        now_s, request, sent_s, visits = heapq.heappop(events)
        if (visit := next(visits, None)) is not None:
            station, service_s = visit
            heapq.heappush(events, (station.leave_s(now_s, service_s), request, sent_s, visits))
            continue
        ends_s.append(now_s)
        times_s.append(now_s - sent_s)
        if later > 0:
            heapq.heappush(events, (now_s, number, now_s, iter(route(number))))
            later, number = later - 1, number + 1
    first = len(ends_s) // 10
    return Answers((len(ends_s) - 1 - first) / (ends_s[-1] - ends_s[first]), np.array(times_s[first:]))
