"""Load curves: the rate and the latency of a server by the number of connections, its knee, and what limits it. Pure.

In a closed loop each of N connections has one request at a time, so that N = X · R: N connections give a rate X at a
response time R (Little, A proof for the queuing formula L = λW, Operations Research 9, 1961). Below the knee R is the
time of an answer without load, and X grows with N. Above it X stays, and R grows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import fmean, median, variance
from typing import Literal

from pydantic import computed_field
from scipy import special

from benchkit import units
from benchkit.models.base import Frozen
from benchkit.models.rows import LoadCurveRow
from benchkit.models.thresholds import Thresholds

GROWTH = 1.05
"""Factor below which a doubling of connections adds nothing: the rate is flat."""
FLAT_POINTS = 2
"""Doublings in a row that must add nothing: a disturbance of half a second can hide one that does."""
MOST_CONNECTIONS = 1024
LONGEST_P50_S = 1.0
"""Median from which on no connections are added."""
MOST_FAILED = 0.01
"""Share of failed requests from which on no connections are added."""
REFUSED = 0.01
"""Share of refused answers that shows a rate limiter: a few errors have other causes."""
LEAST_SLOTS = 0.9
"""Requests at a time below which no pool can be the limit, as it serves at least one."""
WHOLE_WITHIN = 0.05
"""Relative distance from a whole number of slots within which it is stated: the load tool's own time between two
requests adds some per cent to answers of a few milliseconds."""
MOST_UNSURE = 1.25
"""Ratio of the end of its interval to a number of slots up to which the number is stated."""
ROUND_WITHIN = 0.003
"""Relative distance from a rate of one digit, as 2,000/s, within which it is taken for a configured one: the count of a
window of half a second at 1,000/s is exact to 0.2 %. A lock falls into it by chance in 2.3 % of cases (nine rates in a
decade, each with 2 · 0.003 of its logarithm of 2.3)."""

LimitKind = Literal["cpu", "slots", "rate", "not reached", "load tool", "link", "unknown"]
"""Kind of the limit of a rate. `slots`: a fixed number of requests at a time, as with a pool, a lock or workers."""


class CurveLimit(Frozen):
    """The limit of a server's rate; `slots` are the requests that it serves at a time, with a 95 % interval."""

    kind: LimitKind
    clause: str
    """Predicate of a sentence, as `serves 8 at a time`."""
    evidence: str = ""
    slots: float | None = None
    slots_low: float | None = None
    slots_high: float | None = None

    @computed_field  # type: ignore[prop-decorator]
    @property
    def sentence(self) -> str:
        """The clause with its figures, about `it`."""
        return f"it {self.clause}{f' ({self.evidence})' if self.evidence else ''}"


class LoadCurve(Frozen):
    """The load curve of a cell: `knee` is the fewest connections from which a doubling adds less than 5 % (`GROWTH`).

    Without a knee it is the most connections that were tried. `rps` is the rate that the server carries, with a 95 %
    interval where it was measured more than once; `answer_s` the time of an answer without load.
    """

    points: tuple[LoadCurveRow, ...]
    knee: int
    rps: float
    rps_low: float | None = None
    rps_high: float | None = None
    answer_s: float | None = None
    limit: CurveLimit

    @property
    def sentence(self) -> str:
        """The curve in words: rate, limit, and the time of an answer."""
        answer = "" if self.answer_s is None else f", and answers in {units.seconds(self.answer_s)} without load"
        return f"carries {units.requests_per_s(self.rps)}{answer}; {self.limit.sentence}"


def is_over(points: Sequence[LoadCurveRow]) -> bool:
    """Return True where more connections would tell nothing: the rate is flat, answers are slow, or requests fail."""
    last = points[-1]
    if (last.latency_p50_s or 0.0) >= LONGEST_P50_S or (last.failed or 0.0) > MOST_FAILED:
        return True
    return _knee_place(points) is not None


def load_curve(rows: Iterable[LoadCurveRow], thresholds: Thresholds) -> LoadCurve:
    """Return the load curve of the points of a trial. Raises ValueError where no request was answered."""
    points = sorted(rows, key=lambda point: point.connections)
    if not any(point.rps for point in points):
        raise ValueError("no request was answered")
    place = _knee_place(points)
    knee = knee_of(points)
    flat = [_best(points)] if place is None else points[place + 1 :]
    before = [point for point in points if point.connections <= max(1, knee // 2) and point.rps]
    rps, low, high = _mean_rate(flat)
    medians = [point.latency_p50_s for point in points if point.connections <= knee and point.latency_p50_s]
    return LoadCurve(
        points=tuple(points),
        knee=knee,
        rps=rps,
        rps_low=low,
        rps_high=high,
        answer_s=min(medians, default=None),
        limit=_limit(flat, before, thresholds, is_flat=place is not None),
    )


def knee_of(points: Sequence[LoadCurveRow]) -> int:
    """Return the connections at the knee; without one, those with the highest rate."""
    place = _knee_place(points)
    return points[place].connections if place is not None else _best(points).connections


def _best(points: Sequence[LoadCurveRow]) -> LoadCurveRow:
    usable = [point for point in points if (point.failed or 0.0) <= MOST_FAILED] or points
    return max(usable, key=lambda point: point.rps)


def _knee_place(points: Sequence[LoadCurveRow]) -> int | None:
    """Return the place of the first point after which the rate is flat; None: it still grows."""
    rates = [point.rps for point in points]
    for place in range(len(rates) - FLAT_POINTS):
        after = rates[place + 1 : place + 1 + FLAT_POINTS]
        if rates[place] and max(after) < GROWTH * rates[place]:
            return place
    return None


def _mean_rate(flat: Sequence[LoadCurveRow]) -> tuple[float, float | None, float | None]:
    logs = [math.log(point.rps) for point in flat]
    mean = fmean(logs)
    if len(logs) < FLAT_POINTS:
        return math.exp(mean), None, None
    reach = _t(len(logs) - 1) * math.sqrt(variance(logs) / len(logs))
    return math.exp(mean), math.exp(mean - reach), math.exp(mean + reach)


def _limit(
    flat: Sequence[LoadCurveRow], before: Sequence[LoadCurveRow], thresholds: Thresholds, *, is_flat: bool
) -> CurveLimit:
    def use(name: str) -> float:
        known = [value for point in flat if (value := getattr(point, name)) is not None]
        return median(known) if known else 0.0

    full: tuple[tuple[LimitKind, str, float, str, str], ...] = (
        ("load tool", "generator_cpu", thresholds.generator_cpu, "is limited by the load tool", "of its CPU"),
        ("link", "link", thresholds.link, "is limited by the network", "of the link"),
        ("rate", "refused", REFUSED, "is limited by a rate limiter", "of the answers refuse"),
    )
    for kind, name, least, clause, what in full:
        if use(name) >= least:
            return CurveLimit(kind=kind, clause=clause, evidence=f"{units.share(use(name))} {what}")
    if not is_flat:
        most = units.counted(flat[-1].connections, "connection")
        return CurveLimit(kind="not reached", clause=f"does not reach its limit with {most}")
    if flat[-1].server_cores is None:
        return CurveLimit(kind="unknown", clause="is not watched, so that its limit is not known")
    return _limit_of_server(flat, before, use("server_cpu"), use("server_cores"), thresholds)


def _limit_of_server(
    flat: Sequence[LoadCurveRow], before: Sequence[LoadCurveRow], share: float, cores: float, thresholds: Thresholds
) -> CurveLimit:
    """Return the limit of a flat rate, from the share of its CPU time that the server uses, and the cores.

    A server with few threads uses the cores of these, whatever it may use: as much CPU time as the requests that it
    serves at a time, where each of them takes CPU time alone.
    """
    slots, low, high = _slots(flat, before)
    if share >= thresholds.server_cpu:
        return CurveLimit(kind="cpu", clause="is limited by its CPU", evidence=f"{units.share(share)} used")
    if cores >= thresholds.server_cpu * max(1.0, slots):
        return CurveLimit(kind="cpu", clause="is limited by the CPU of its threads", evidence=f"{cores:.2f} cores used")
    if high is not None and high > MOST_UNSURE * slots:
        clause = "is limited by something other than its CPU, which these points are too noisy to tell"
        return CurveLimit(kind="unknown", clause=clause)
    rate = math.exp(fmean(math.log(point.rps) for point in flat))
    if slots < LEAST_SLOTS or (round(slots) == 1 and _is_round(rate)):
        clause = f"is limited to {units.requests_per_s(rate)} by a rate limiter"
        return CurveLimit(kind="rate", clause=clause, evidence="answers pause, and the CPU is free")
    whole = max(1, round(slots))
    reach = max(WHOLE_WITHIN * slots, 0.0 if high is None else high - slots)
    at_a_time = f"{whole}" if abs(slots - whole) <= reach else f"{slots:.3g}"
    interval = "" if low is None or high is None else f", 95 % CI {low:.3g} to {high:.3g}"
    return CurveLimit(
        kind="slots",
        clause=f"serves {at_a_time} at a time",
        evidence=f"{slots:.3g} by rate and time of an answer{interval}",
        slots=slots,
        slots_low=low,
        slots_high=high,
    )


def _slots(flat: Sequence[LoadCurveRow], before: Sequence[LoadCurveRow]) -> tuple[float, float | None, float | None]:
    """Return how many requests are served at a time, X · R: the flat rate times the time of an answer below the knee.

    The 95 % interval is of Student's t, with the variance that both groups of points have in common.
    """
    rates, times = [math.log(each.rps) for each in flat], [math.log(each.connections / each.rps) for each in before]
    mean, freedom = fmean(rates) + fmean(times), len(rates) + len(times) - 2
    if freedom < 1:
        return math.exp(mean), None, None
    squares = sum((value - fmean(group)) ** 2 for group in (rates, times) for value in group)
    reach = _t(freedom) * math.sqrt(squares / freedom * (1 / len(rates) + 1 / len(times)))
    return math.exp(mean), math.exp(mean - reach), math.exp(mean + reach)


def _is_round(rate: float) -> bool:
    step = 10.0 ** math.floor(math.log10(rate))
    return abs(rate - round(rate / step) * step) <= ROUND_WITHIN * rate


def _t(freedom: int) -> float:
    return float(special.stdtrit(freedom, 0.975))
