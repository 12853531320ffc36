"""Measurements: the histograms and exact counts of one generator, or of many together, and figures of shaped loads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from benchkit.loadtools.text import Count
from benchkit.models.base import Frozen
from benchkit.models.capacity import Objective
from benchkit.models.histogram import Histogram
from benchkit.models.load import Load
from benchkit.models.load_result import Covers, Errors, Latency, LoadResult, Note
from benchkit.models.metrics import PERCENTILES

LatencySeries = Literal["raw", "corrected"]
"""raw: as measured; corrected: with the samples that the tool added for coordinated omission."""

LatencyFrom = Literal["sent", "due"]
"""Instant from which a latency counts: when the request was sent, or when it was due at the target rate."""


class RequestSpan(Frozen):
    """First and last instants of the requests, in nanoseconds since the tool's start (`run`) or the epoch (`unix`)."""

    origin: Literal["run", "unix"]
    first_start_ns: int
    last_start_ns: int
    last_end_ns: int
    ended_later: Count
    """Requests that ended after the last one had started."""


@dataclass(frozen=True)
class Second:
    """One second of a run as the load tool saw it, from the first request on."""

    started: int
    ended: int
    errors: int
    """Failed requests, and answers with a status below 200 or above 399, as far as the tool has rows of them."""
    latency: Histogram | None
    """Times of the requests that ended in it, to two digits; None where none did."""


@dataclass(frozen=True)
class ClassCounts:
    """The requests of one class of a load."""

    latency: Histogram | None
    """Times of the requests with a response, to three digits; None without one."""
    status: Mapping[str, int]
    errors: int
    """Requests without a response."""
    other_sizes: int
    """Responses with a size other than expected."""
    size: tuple[int, int] | None
    """Fewest and most bytes of a response."""


class Counters(Frozen):
    """Exact counts of one generator, or of many; `None` where the tool states no count."""

    requests: int
    """Requests whose end the tool saw."""
    recorded: int
    """Requests whose time is in the raw histogram."""
    bytes_total: int | None = None
    status: Mapping[str, int] = {}
    non_2xx: int | None = None
    errors: Errors = Errors()


@dataclass(frozen=True)
class Measurement:
    """Every request that one generator recorded, or many together."""

    tool: str
    histograms: Mapping[LatencySeries, Histogram]
    """Histograms by series; a tool that corrects nothing has only `raw`. Empty where no request was recorded."""
    counters: Counters
    resolution_s: float
    """Step in which the tool states times."""
    covers: Covers
    complete: bool
    """True where the output is whole and every request that it counts is accounted for."""
    duration_s: float | None = None
    """Measured time that the tool states; None where only its summary states one, and for several generators."""
    notes: tuple[Note, ...] = ()
    latency_from: LatencyFrom = "sent"
    lag: Histogram | None = None
    """Times by which requests were sent after they were due; None where the tool does not state when they were due."""
    seconds: tuple[Second, ...] = ()
    """Each second of the run; empty where the tool states no instants."""
    classes: Mapping[int, ClassCounts] = field(default_factory=dict)
    """Requests by the number of their class in the load, from 1; empty without classes."""
    span: RequestSpan | None = None
    """None where the tool states no instants, and for several generators."""
    achieved_rate: float | None = None
    """Requests per second answered under a target rate; None without one."""

    def result(self, *, duration_s: float | None, failed: int | None) -> LoadResult:
        """Return the result by these exact figures; `duration_s` is the time by which the tool divides its requests."""
        counters = self.counters
        return LoadResult(
            tool=self.tool,
            duration_s=duration_s,
            requests=counters.requests,
            rps=counters.requests / duration_s if duration_s else None,
            bytes_total=counters.bytes_total,
            bytes_per_s=counters.bytes_total / duration_s if counters.bytes_total is not None and duration_s else None,
            latency=self.latency(),
            errors=counters.errors,
            status=counters.status,
            non_2xx=counters.non_2xx,
            failed=failed,
            complete=self.complete,
            notes=self.notes,
        )

    def latency(self) -> Latency:
        """Return exact extremes and mean, and percentiles to p99.99, as measured; all None if nothing was recorded."""
        histogram = self.histograms.get("raw")
        return Latency(
            min_s=histogram and histogram.min_s,
            mean_s=histogram and histogram.mean_s,
            max_s=histogram and histogram.max_s,
            percentiles=histogram.percentiles() if histogram else {},
            resolution_s=self.resolution_s,
            covers=self.covers,
            corrected=False,
        )


class Overload(Frozen):
    """Figures of a window with a shape; None where no second has them."""

    goodput_rps: float | None = None
    """Requests per second answered without an error during the shape."""
    error_share: float | None = None
    """Share of the requests that ended during the shape with an error."""
    recovery_s: float | None = None
    """Time from the end of the shape to the end of the first second that keeps the objective, as do all later ones.
    None: there is no such second, or no objective."""


def overload_of(load: Load, measurement: Measurement | None) -> Overload | None:
    """Return the figures of a window; None for a load without a shape, and without a series of seconds."""
    if load.shape is None or load.duration_s is None or measurement is None or not measurement.seconds:
        return None
    during = measurement.seconds[load.shape.start_s : load.shape.end_s]
    ended, errors = sum(each.ended for each in during), sum(each.errors for each in during)
    after = measurement.seconds[load.shape.end_s : int(load.duration_s)]
    return Overload(
        goodput_rps=(ended - errors) / load.shape.length_s if during else None,
        error_share=errors / ended if ended else None,
        recovery_s=None if load.capacity is None else _recovery_s(after, load.capacity.slo),
    )


def _recovery_s(seconds: Sequence[Second], objective: Objective) -> float | None:
    held = [_holds(second, objective) for second in seconds]
    broken = max((number for number, is_held in enumerate(held) if not is_held), default=-1)
    return None if broken == len(held) - 1 else float(broken + 2)


def _holds(second: Second, objective: Objective) -> bool:
    if second.latency is None or second.errors > objective.error_share * second.ended:
        return False
    reached = {name: second.latency.percentile(PERCENTILES[name].percent) for name in objective.latencies}
    return all(seconds is not None and seconds <= objective.latencies[name] for name, seconds in reached.items())
