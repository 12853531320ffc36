"""Measurements: the histograms and exact counts that one generator, or many together, recorded of every request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from benchkit.models.base import Frozen
from benchkit.models.histogram import Histogram
from benchkit.models.load_result import Errors, Latency, Note

Series = Literal["raw", "corrected"]
"""Series of latencies. raw: as measured; corrected: with the samples that the tool added for coordinated omission."""

Covers = Literal["request", "connect+request"]
"""Part of a request that a latency covers."""


LatencyFrom = Literal["sent", "due"]
"""Instant from which a latency counts: when the request was sent, or when it was due at the target rate."""


class Sending(Frozen):
    """Instants at which one generator sent its requests."""

    requests: int
    span_s: float = Field(description="time from the first request sent to the last")
    answered_later: int | None = Field(
        default=None, description="requests answered after the last one was sent; None: unknown"
    )


@dataclass(frozen=True)
class Second:
    """One second of a run as the load tool saw it, from the first request on."""

    started: int
    ended: int
    errors: int
    """Failed requests, and answers with a status below 200 or above 399, as far as the tool has rows of them."""
    latency: Histogram | None
    """Times of the requests that ended in it, to two digits; None where none did."""


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
    histograms: Mapping[Series, Histogram]
    """Histograms by series; a tool that corrects nothing has only `raw`. Empty where no request was recorded."""
    counters: Counters
    resolution_s: float
    """Step in which the tool states times."""
    covers: Covers
    complete: bool
    """True where the output is whole and every request that it counts is accounted for."""
    duration_s: float | None = None
    """Measured time that the tool states; None where only its summary does, and for several generators."""
    notes: tuple[Note, ...] = ()
    latency_from: LatencyFrom = "sent"
    lag: Histogram | None = None
    """Times by which requests were sent after they were due; None where the tool states no such instants."""
    seconds: tuple[Second, ...] = ()
    """Each second of the run; empty where the tool states no instants."""
    sending: Sending | None = None
    """None where the tool states no instants, and for several generators."""
    achieved_rate: float | None = None
    """Requests per second answered under a target rate (`benchkit.loadtools.target_rate`); None without one."""

    def latency(self, series: Series = "raw") -> Latency:
        """Return exact extremes and mean, and percentiles to p99.99, of a series; all None if nothing was recorded."""
        histogram = self.histograms.get(series)
        if histogram is None:
            return Latency(resolution_s=self.resolution_s, covers=self.covers, corrected=series == "corrected")
        return Latency(
            min_s=histogram.min_s,
            mean_s=histogram.mean_s,
            max_s=histogram.max_s,
            percentiles=histogram.percentiles(),
            resolution_s=self.resolution_s,
            covers=self.covers,
            corrected=series == "corrected",
        )
