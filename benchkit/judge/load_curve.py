"""Load curves: the rate and the latency of a server by the number of connections, its knee, and what limits it. Pure.

In a closed loop each of N connections has one request at a time. So N = X · R, for the rate X and the response time R
(Little, A proof for the queuing formula L = λW, Operations Research 9, 1961). Below the knee R is the time of an answer
without load, and X grows with N. Above the knee X is constant, and R grows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import NormalDist, fmean, median, variance
from typing import Literal, NamedTuple

from pydantic import computed_field

from benchkit import units
from benchkit.models.base import Frozen
from benchkit.models.rows import LoadCurveRow
from benchkit.models.thresholds import Thresholds
from benchkit.stats.inference import ALPHA, t_quantile

GROWTH = 1.05
"""Growth of the rate by a doubling of connections, below which the rate is flat."""
FLAT_POINTS = 2
"""Doublings in a row without growth that show a flat rate: a disturbance can hide the growth of one."""
MOST_CONNECTIONS = 1024
LONGEST_P50_S = 1.0
"""Median latency at which a curve ends."""
MOST_FAILED = 0.01
"""Share of failed requests above which a curve ends."""
IN_USE = 0.9
"""Share of the connections with a request in flight from which on all of them are served: some tools need time between
two requests."""
REFUSED = 0.01
"""Share of refused requests that shows a rate limiter: a few have other causes."""
LEAST_SLOTS = 0.9
"""Slots below which a pool cannot be the limit: it serves at least one request at a time."""
WHOLE_WITHIN = 0.05
"""Relative error of slots, by which a whole number may be larger, if their interval is not wider."""
OUTSIDE_SLOT = 0.1
"""Largest part of the time of an answer in which its request is in no slot: the load tool sends it, and the server
reads it. It is part of X · R, so that a whole number may be smaller by as much: 8.45 are 8."""
DELAYED_S = (0.038, 0.050)
"""Time that an answer awaits a delayed acknowledgement: Linux delays it by at least 40 ms (TCP_DELACK_MIN, HZ/25,
include/net/tcp.h). Nagle's algorithm (RFC 896) holds the second small piece of an answer until then."""
MOST_UNSURE = 1.25
"""Upper end of the interval over the number of slots, above which the number is not stated."""
ROUND_WITHIN = 0.003
"""Relative distance up to which a rate is taken for a round one that was configured, such as 2,000/s.

A count over half a second at 1,000/s is exact to 0.2 %. The rate of a lock is round by chance in 2.3 % of cases: a
decade, ln 10 = 2.3, has nine rates of one digit, each 2 · 0.003 wide."""

NORMAL = NormalDist().inv_cdf(1 - ALPHA / 2)
"""Standard errors to each side of a 95 % interval of a mean of many answers."""

LimitKind = Literal["cpu", "slots", "rate", "not reached", "load tool", "link", "unknown"]
"""Kind of the limit of a rate. `slots`: a fixed number of requests at a time, as with a pool, a lock or workers."""


class CurveLimit(Frozen):
    """The limit of a server's rate; `slots` are the requests that it serves at a time, with a 95 % interval."""

    kind: LimitKind
    clause: str
    """Predicate of a sentence, such as `serves 8 requests at a time`."""
    evidence: str = ""
    slots: float | None = None
    slots_low: float | None = None
    slots_high: float | None = None
    whole_slots: int | None = None
    """The only whole number that `slots` may be, or that of them which the stack states."""

    @property
    def possible_slots(self) -> range:
        """Whole numbers that `slots` may be."""
        return _whole_numbers(self.slots or 0.0, self.slots_low, self.slots_high)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def sentence(self) -> str:
        """The clause and its evidence, with `it` as the subject."""
        return f"it {self.clause}{f' ({self.evidence})' if self.evidence else ''}"


class LoadCurve(Frozen):
    """The load curve of a cell: `knee` is the fewest connections from which a doubling adds less than 5 % (`GROWTH`).

    While the rate grows, it is the number of connections with the highest rate. `rps` is the rate that the server
    carries, with a 95 % interval from two flat points on. `answer_s` is the mean time of an answer without load.
    """

    points: tuple[LoadCurveRow, ...]
    knee: int
    rps: float
    rps_low: float | None = None
    rps_high: float | None = None
    answer_s: float
    limit: CurveLimit

    @property
    def sentence(self) -> str:
        """Rate, time of an answer and limit, as a predicate."""
        rate, answer = units.requests_per_s(self.rps), units.seconds(self.answer_s)
        return f"carries {rate}, and answers in {answer} without load; {self.limit.sentence}"


def is_complete(points: Sequence[LoadCurveRow]) -> bool:
    """Return True where a curve needs no more connections: the rate is flat, answers are slow, or requests fail."""
    is_slow, is_failing = (points[-1].latency_p50_s or 0.0) >= LONGEST_P50_S, (points[-1].failed or 0.0) > MOST_FAILED
    return is_slow or is_failing or _knee_place(points) is not None


def load_curve(rows: Iterable[LoadCurveRow], thresholds: Thresholds, held_s: float | None = None) -> LoadCurve:
    """Return the load curve of the points of a trial. Raises ValueError where no request was answered.

    `held_s` is the mean time of an answer at a held rate. Where it is shorter by a delayed acknowledgement, requests
    have no slot for that time, unless each has a worker that keeps its connection (`IN_USE`).
    """
    points = sorted(rows, key=lambda point: point.connections)
    if not any(point.rps for point in points):
        raise ValueError("no request was answered")
    knee, flat = knee_of(points), _flat(points)
    rps, low, high = _mean_rate(flat)
    answer = work = _answer(_before(points, knee))
    delay_s = answer.mean_s - (answer.mean_s if held_s is None else held_s)
    is_delayed = DELAYED_S[0] <= delay_s <= DELAYED_S[1]
    if is_delayed and all((each.in_flight or each.connections) >= IN_USE * each.connections for each in flat):
        share = 1 - delay_s / answer.mean_s
        work = answer._replace(mean_s=share * answer.mean_s, times=[share * each for each in answer.times])
    limit = _limit(flat, work, thresholds, is_flat=_knee_place(points) is not None)
    if limit.slots is not None and work is not answer:
        delay = f"without {units.seconds(delay_s)}, in which answers await a delayed acknowledgement"
        limit = limit.model_copy(update={"evidence": f"{limit.evidence}, {delay}"})
    return LoadCurve(
        points=tuple(points),
        knee=knee,
        rps=rps,
        rps_low=low,
        rps_high=high,
        answer_s=answer.mean_s,
        limit=limit,
    )


def knee_of(points: Sequence[LoadCurveRow]) -> int:
    """Return the connections at the knee; without one, those with the highest rate."""
    place = _knee_place(points)
    return points[place].connections if place is not None else _best(points).connections


def most_connections(points: Sequence[LoadCurveRow]) -> int:
    """Return the most connections for trials: with more, some requests fail, or some connections are never served.

    A server with a thread for each connection serves as many as it has threads, while these connections are kept. Of
    connections that are opened at once, the kernel drops those beyond the accept queue (`listen(2)`).
    """
    usable = _usable(points)
    most = min(max(point.connections for point in usable), points[0].accept_queue or MOST_CONNECTIONS)
    in_flight = max((point.in_flight for point in usable if point.in_flight is not None), default=most)
    return most if in_flight >= IN_USE * most else max(1, int(IN_USE * in_flight))


def saturation(points: Sequence[LoadCurveRow]) -> float:
    """Return the connections that bring a server to its limit if no request waits before.

    It is the full rate times the time between two answers to a connection without load (asymptotic bounds: Lazowska,
    Zahorjan, Graham and Sevcik, Quantitative System Performance, 1984, chapter 5).
    """
    cycles = (math.log(point.connections / point.rps) for point in _before(points, knee_of(points)))
    return _mean_rate(_flat(points))[0] * math.exp(fmean(cycles))


def _flat(points: Sequence[LoadCurveRow]) -> Sequence[LoadCurveRow]:
    """Return the points above the knee that have answers; without one, the point with the highest rate."""
    place = _knee_place(points)
    above = () if place is None else points[place + 1 :]
    return [point for point in above if point.rps] or [_best(points)]


def _best(points: Sequence[LoadCurveRow]) -> LoadCurveRow:
    return max(_usable(points), key=lambda point: point.rps)


def _usable(points: Sequence[LoadCurveRow]) -> Sequence[LoadCurveRow]:
    return [point for point in points if point.rps and (point.failed or 0.0) <= MOST_FAILED] or points


def _knee_place(points: Sequence[LoadCurveRow]) -> int | None:
    """Return the index of the first point after which the rate is flat; None: it still grows."""
    rates = [point.rps for point in points]
    for place in range(len(rates) - FLAT_POINTS):
        after = rates[place + 1 : place + 1 + FLAT_POINTS]
        if rates[place] and max(after) < GROWTH * rates[place]:
            return place
    return None


def _before(points: Sequence[LoadCurveRow], knee: int) -> Sequence[LoadCurveRow]:
    """Return the points below the knee at which no request waits: workers can divide connections unevenly.

    A longer time counts as well where chance explains it: within 1.96 standard errors of the difference.
    """
    answered = [point for point in points if point.rps]
    below = [point for point in answered if point.connections <= max(answered[0].connections, knee // 2)]
    fastest = min(below, key=_response_s)
    longest_s = GROWTH * _response_s(fastest)
    return [
        each
        for each in below
        if _response_s(each) <= longest_s + NORMAL * math.hypot(_error_s(each), _error_s(fastest))
    ]


class _Answer(NamedTuple):
    """The time of an answer without load."""

    mean_s: float
    error: float
    """Standard error of the mean, relative to it."""
    times: Sequence[float]
    """Mean times of its points, in seconds."""


def _answer(before: Sequence[LoadCurveRow]) -> _Answer:
    """Return the time of an answer from points, each of which counts by its number of answers."""
    times, counts = [_response_s(each) for each in before], [each.rps * each.duration_s for each in before]
    mean_s = fmean(times, counts)
    squares = sum((count * _error_s(each)) ** 2 for count, each in zip(counts, before, strict=True))
    return _Answer(mean_s, math.sqrt(squares) / sum(counts) / mean_s, times)


def _error_s(point: LoadCurveRow) -> float:
    """Return the standard error of the mean time of an answer; 0 where the spread of times is unknown."""
    return (point.latency_stdev_s or 0.0) / math.sqrt(point.rps * point.duration_s)


def _mean_rate(flat: Sequence[LoadCurveRow]) -> tuple[float, float | None, float | None]:
    logs = [math.log(point.rps) for point in flat]
    mean = fmean(logs)
    if len(logs) < FLAT_POINTS:
        return math.exp(mean), None, None
    reach = t_quantile(1 - ALPHA, len(logs) - 1) * math.sqrt(variance(logs) / len(logs))
    return math.exp(mean), math.exp(mean - reach), math.exp(mean + reach)


def _limit(flat: Sequence[LoadCurveRow], answer: _Answer, thresholds: Thresholds, *, is_flat: bool) -> CurveLimit:
    def typical(column: str) -> float:
        known = [value for point in flat if (value := getattr(point, column)) is not None]
        return median(known) if known else 0.0

    full: tuple[tuple[LimitKind, str, float, str, str], ...] = (
        ("load tool", "generator_cpu", thresholds.generator_cpu, "is limited by the load tool", "of its CPU"),
        ("link", "link", thresholds.link, "is limited by the network", "of the link"),
        ("rate", "refused", REFUSED, "is limited by a rate limiter", "of the requests are refused"),
    )
    for kind, column, least, clause, evidence in full:
        if typical(column) >= least:
            return CurveLimit(kind=kind, clause=clause, evidence=f"{units.share(typical(column))} {evidence}")
    if not is_flat:
        most = units.counted(flat[-1].connections, "connection")
        return CurveLimit(kind="not reached", clause=f"does not reach its limit with {most}")
    if flat[-1].server_cores is None:
        return CurveLimit(kind="unknown", clause="is not watched, so its limit is unknown")
    return _limit_of_server(flat, answer, typical("server_cpu"), typical("server_cores"), thresholds)


def _limit_of_server(
    flat: Sequence[LoadCurveRow], answer: _Answer, share: float, cores: float, thresholds: Thresholds
) -> CurveLimit:
    """Return what limits a flat rate, by the share of its CPU time that the server uses, and by the cores.

    A server with fewer threads than cores cannot use all cores. Its threads are the limit if each request that it
    serves at the same time keeps a core busy.
    """
    slots, low, high = _slots(flat, answer)
    if share >= thresholds.server_cpu:
        return CurveLimit(kind="cpu", clause="is limited by its CPU", evidence=f"{units.share(share)} used")
    if cores >= thresholds.server_cpu * max(1.0, slots):
        return CurveLimit(kind="cpu", clause="is limited by the CPU of its threads", evidence=f"{cores:.2f} cores used")
    if high is not None and high > MOST_UNSURE * slots:
        clause = "is limited by something other than its CPU, but the points are too noisy to say by what"
        return CurveLimit(kind="unknown", clause=clause)
    rate = math.exp(fmean(math.log(point.rps) for point in flat))
    if slots < LEAST_SLOTS or (round(slots) == 1 and _is_round(rate)):
        lock = "" if slots < LEAST_SLOTS else f", or a lock that each request holds for {units.seconds(1 / rate)}"
        clause = f"is limited to {units.requests_per_s(rate)} by a rate limiter{lock}"
        return CurveLimit(kind="rate", clause=clause, evidence="requests wait while the CPU is idle")
    possible = _whole_numbers(slots, low, high)
    whole = possible[0] if len(possible) == 1 and possible[0] >= (1 - OUTSIDE_SLOT) * slots else None
    about = "about " if len(possible) > 1 else ""
    requests = f"{about}{slots:.3g} requests" if whole is None else units.counted(whole, "request")
    interval = "" if low is None or high is None else f", 95 % CI {low:.3g} to {high:.3g}"
    clause, evidence = slots_clause(requests), f"rate × response time = {slots:.3g}{interval}"
    return CurveLimit(
        kind="slots", clause=clause, evidence=evidence, slots=slots, slots_low=low, slots_high=high, whole_slots=whole
    )


def slots_clause(requests: str) -> str:
    """Return what a server with slots does, as a predicate."""
    return f"serves {requests} at a time"


def _whole_numbers(slots: float, low: float | None, high: float | None) -> range:
    least, most = min((1 - OUTSIDE_SLOT) * slots, low or slots), max((1 + WHOLE_WITHIN) * slots, high or slots)
    return range(max(1, math.ceil(least)), math.floor(most) + 1)


def _slots(flat: Sequence[LoadCurveRow], answer: _Answer) -> tuple[float, float | None, float | None]:
    """Return the requests that are served at a time, X · R: the flat rate times the response time without load.

    The 95 % interval has two parts: Student's t, with the pooled variance of both groups of points, and the error of
    the mean response time.
    """
    rates, times = [math.log(each.rps) for each in flat], [math.log(each) for each in answer.times]
    slots, freedom, between = math.exp(fmean(rates)) * answer.mean_s, len(rates) + len(times) - 2, 0.0
    if freedom > 0:
        squares = sum((value - fmean(group)) ** 2 for group in (rates, times) for value in group)
        between = t_quantile(1 - ALPHA, freedom) * math.sqrt(squares / freedom * (1 / len(rates) + 1 / len(times)))
    elif not answer.error:
        return slots, None, None
    reach = math.hypot(between, NORMAL * answer.error)
    return slots, slots * math.exp(-reach), slots * math.exp(reach)


def _response_s(point: LoadCurveRow) -> float:
    """Return the mean time of an answer, by Little's law."""
    return (point.in_flight or point.connections) * (1 - (point.refused or 0.0)) / point.rps


def _is_round(rate: float) -> bool:
    step = 10.0 ** math.floor(math.log10(rate))
    return abs(rate - round(rate / step) * step) <= ROUND_WITHIN * rate
