"""Traffic: the requests of a load as a log has them, with their shares and the instants at which they came."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Annotated, Literal, Self

from pydantic import Field, NonNegativeInt, PositiveInt, model_validator

from benchkit.models.base import Frozen
from benchkit.models.request import Expectation, Method, Request, RequestPath

MAX_BODY_BYTES = 16 << 20
"""Largest body that a request of traffic has; larger ones in a log get this size."""


class TrafficRequest(Frozen):
    """One request of traffic, with its share and the answers that it got."""

    kind: str = Field(description="class of requests that differ in ids alone: `GET /items/{}`")
    method: Method
    path: RequestPath
    headers: Mapping[str, str] = Field(default_factory=dict, description="headers that were chosen; never a secret one")
    body_bytes: Annotated[int, Field(ge=0, le=MAX_BODY_BYTES)] | None = Field(
        default=None,
        description="size of its body, whose content no log has; None: it has none, or the size is unknown",
    )
    body: str | None = Field(default=None, description="its body, where the source has one, as an API description does")
    weight: Annotated[float, Field(gt=0)] = Field(description="requests of the log that it stands for")
    status: Annotated[int, Field(ge=200, le=599)] | None = Field(
        default=None, description="status of most answers to its class; None: unknown"
    )
    size: tuple[NonNegativeInt, NonNegativeInt] | None = Field(
        default=None, description="fewest and most bytes of the bodies of these answers; None: unknown"
    )

    @property
    def request(self) -> Request:
        """The request as load tools send it: its body is filled with one letter."""
        return Request(
            method=self.method,
            path=self.path,
            headers=self.headers,
            body=self.body if self.body_bytes is None else "x" * self.body_bytes,
            weight=self.weight,
            kind=self.kind,
            expect=Expectation(status=self.status, size=self.size),
        )


class Traffic(Frozen):
    """Requests by class, in the order of the classes' shares."""

    version: Literal[1] = 1
    source: str = Field(description="where it comes from, as a phrase: `access.log (combined)`")
    lines: PositiveInt = Field(description="requests that were read")
    period_s: Annotated[float, Field(ge=0)] | None = Field(
        default=None, description="time from the first request to the last; None: no times"
    )
    requests: tuple[TrafficRequest, ...] = Field(min_length=1)
    order: tuple[NonNegativeInt, ...] = Field(
        default=(), description="places of the requests in the order of the log; empty: they have none"
    )
    times: tuple[Annotated[float, Field(ge=0)], ...] = Field(
        default=(), description="instant of each of these in seconds from the first; empty: unknown"
    )
    notes: tuple[str, ...] = Field(default=(), description="what the source does not state, and what was omitted")

    @model_validator(mode="after")
    def _order_fits(self) -> Self:
        if any(place >= len(self.requests) for place in self.order):
            raise ValueError("order names a request that there is not")
        if self.times and len(self.times) != len(self.order):
            raise ValueError("there are not as many times as requests in order")
        if any(later < earlier for earlier, later in pairwise(self.times)):
            raise ValueError("times are not in their order")
        return self

    @property
    def mean_rate(self) -> float | None:
        """Requests per second over the period; None where it is unknown."""
        return self.lines / self.period_s if self.period_s else None
