"""The load of a cell, which `Tool.command` turns into an argument list, and a step of its rate within a trial."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import (
    Field,
    JsonValue,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    PrivateAttr,
    model_validator,
)

from benchkit.models.base import Frozen
from benchkit.models.capacity import CapacityGoal
from benchkit.models.request import (
    CONTENT_LENGTH,
    Headers,
    Method,
    Request,
    RequestPath,
    SecretValue,
    Traffic,
    merged_headers,
    revealed,
    without_header,
)

NS_PER_S = 1_000_000_000

RATE = "rate"
RATE_SHARES = ("share_of_slowest", "share_of_capacity")
"""`rate: {share_of_slowest: 0.5}` is another form of `share_of_slowest: 0.5`, and likewise for the capacity."""
HALF = "half"
"""`rate: half`: latencies at half of what the slowest cell carries, in a phase of their own."""
MAX_CLASSES = 50
"""Most classes of requests that have figures of their own."""


class RateStage(Frozen):
    """A number of requests, each due an interval after the one before."""

    requests: PositiveInt
    interval_ns: PositiveInt

    @property
    def text(self) -> str:
        """The stage as the programs of load hosts read it: `500x2000000ns`."""
        return f"{self.requests}x{self.interval_ns}ns"


class Shape(Frozen):
    """The course of a target rate: below it at first, at it for a time, and below it again."""

    base: Annotated[float, Field(gt=0, lt=1)] = Field(
        default=0.5, description="share of the rate before and after", examples=[0.4]
    )
    start_s: NonNegativeInt = Field(description="whole seconds at the base before", examples=[5])
    length_s: PositiveInt = Field(description="whole seconds at the target rate", examples=[5])

    @property
    def end_s(self) -> int:
        """Time from the start of the window at which the rate is back at its base."""
        return self.start_s + self.length_s

    def stages(self, rate: float, duration_s: float) -> tuple[RateStage, ...]:
        """Return the requests of a window with this target rate."""
        stages, sent, due = [], 0, 0.0
        pieces = (self.start_s, self.base), (self.length_s, 1.0), (duration_s - self.end_s, self.base)
        for length_s, share in pieces:
            due += rate * share * length_s
            requests = round(due) - sent
            if requests > 0:
                stages.append(RateStage(requests=requests, interval_ns=int(length_s * NS_PER_S) // requests))
                sent += requests
        return tuple(stages)


def _allow_rate_share(schema: dict[str, JsonValue]) -> None:
    forms = schema["anyOf"]
    if isinstance(forms, list):
        forms.append({"const": HALF})
        for name in RATE_SHARES:
            share: JsonValue = {"type": "number", "exclusiveMinimum": 0}
            forms.append(
                {"type": "object", "properties": {name: share}, "required": [name], "additionalProperties": False}
            )


class Load(Frozen):
    """The load of one cell, the same for all tools; a tool refuses a field that it does not support.

    `connections`, `request_count` and `rate` are totals over all generators.
    """

    tool: str = Field(description="load tool: wrk, ab, hey, h2load, siege, vegeta, …", examples=["wrk"])
    connections: PositiveInt = Field(description="open connections", examples=[64])
    streams: PositiveInt = Field(default=1, description="requests in flight on each connection of HTTP/2", examples=[8])
    threads: PositiveInt = Field(default=1, description="threads of each generator process")
    processes: PositiveInt = Field(default=1, description="generator processes on each load host")
    pin: bool = Field(default=False, description="divide the CPUs of the role among the processes")
    duration_s: PositiveFloat | None = Field(
        default=None, description="measured window in seconds, or `request_count`", examples=[5]
    )
    request_count: PositiveInt | None = Field(
        default=None, description="end after this number of requests", examples=[10000]
    )
    warmup_s: float = Field(default=0, ge=0, description="seconds of the same load before the measured window")
    keepalive: bool = Field(default=True, description="keep connections open from one request to the next")
    method: Method = Field(default="GET", description="method of the request, where there is one")
    path: RequestPath = Field(default="/", description="its path; the leading slash is optional")
    headers: Headers = Field(
        default_factory=dict,
        description="by name, of all requests. A secret value is {env: NAME} or {file: PATH}, read when a run starts and never stored",
        examples=[{"Accept": "text/html", "Authorization": {"env": "TOKEN"}}],
    )
    body: str | None = Field(default=None, description="body of the request", examples=["hello"])
    requests: tuple[Request, ...] = Field(
        default=(),
        description="several requests with weights, in place of method, path and body",
        examples=[[{"path": "/a", "weight": 3}, {"method": "POST", "path": "/b", "body": "hello"}]],
    )
    traffic: str | None = Field(
        default=None,
        description="file of `benchkit traffic from`, relative to the scenario's; in place of requests",
        examples=["shop.json"],
    )
    pace: Literal["recorded", "constant", "poisson"] | None = Field(
        default=None,
        description="instants of traffic's requests: as recorded, or at its mean rate; absent: at `rate`, or as fast as possible",
    )
    speed: PositiveFloat = Field(default=1, description="factor by which the pace is faster than the log", examples=[2])
    rate: PositiveFloat | None = Field(
        default=None,
        json_schema_extra=_allow_rate_share,
        description="requests per second, or {share_of_slowest: 0.5} or {share_of_capacity: 0.5}; absent: as fast as possible",
        examples=[1000],
    )
    arrivals: Literal["constant", "poisson"] = Field(
        default="constant", description="requests at a rate come an interval apart, or at random"
    )
    share_of_slowest: Annotated[float, Field(gt=0, le=1)] | None = Field(
        default=None,
        description="target rate as a share of the slowest cell's at full speed with its connections, which the run "
        "measures first",
        examples=[0.5],
    )
    capacity: CapacityGoal | None = Field(
        default=None,
        description="search in every block for the highest rate that keeps an objective; with share_of_capacity once",
        examples=[{"slo": {"p99_s": 0.01}, "precision": 0.05}],
    )
    share_of_capacity: PositiveFloat | None = Field(
        default=None,
        description="target rate as a share of the cell's capacity, for which the run searches once",
        examples=[0.5],
    )
    at_knee: bool = Field(
        default=False,
        description="open as many connections as fill the server, by its load curve, which the run measures first; "
        "`connections` are those of the warm-up before it",
    )
    held_share: Annotated[float, Field(gt=0, lt=1)] | None = Field(
        default=None,
        description="also measure latencies at a held rate: this share of what the slowest cell carries, by its load "
        "curve; `rate: half` is 0.5",
        examples=[0.3],
    )
    held_rate: PositiveFloat | None = Field(
        default=None, description="also measure latencies at this rate, in requests per second", examples=[400]
    )
    shape: Shape | None = Field(
        default=None,
        description="course of the target rate within the window",
        examples=[{"base": 0.4, "start_s": 5, "length_s": 5}],
    )
    timeout_s: PositiveFloat | None = Field(
        default=None, description="seconds after which a request has failed; absent: the tool's own", examples=[10]
    )
    histogram: bool = Field(default=True, description="record the time of every request")
    extra_args: tuple[str, ...] = Field(
        default=(), description="passed on to the tool unchanged", examples=[["--latency"]]
    )
    _order: tuple[int, ...] = PrivateAttr(default=())
    _due_ns: tuple[int, ...] = PrivateAttr(default=())

    @model_validator(mode="before")
    @classmethod
    def _share_from_rate(cls, data: object) -> object:
        if isinstance(data, Mapping) and data.get(RATE) == HALF:
            return {**data, RATE: None, "held_share": 0.5}
        if not isinstance(data, Mapping) or not isinstance(rate := data.get(RATE), Mapping):
            return data
        share = next((name for name in RATE_SHARES if set(rate) == {name}), None)
        if share is None:
            forms = " or ".join(f"{{{name}: 0.5}}" for name in RATE_SHARES)
            raise ValueError(f"rate is a number of requests per second, or {forms}")
        if data.get(share) is not None:
            raise ValueError(f"rate: {{{share}: …}} and {share} are the same: give one of them")
        return {**data, RATE: None, share: rate[share]}

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        if self.requests and (self.method, self.path, self.body) != ("GET", "/", None):
            raise ValueError("requests excludes method, path and body: state them for each request")
        if self.has_held_phase and (self.rate, self.share_of_slowest, self.capacity) != (None, None, None):
            raise ValueError("half, held_share and held_rate add a phase to a load that has no rate and no capacity")
        if (self.traffic is None and self.pace is not None) or (self.pace is None and self.speed != 1):
            raise ValueError("pace needs traffic, and speed needs a pace")
        return self

    @property
    def order(self) -> tuple[int, ...]:
        """Places in `requests` of the requests of traffic, in the order of the log; empty without one."""
        return self._order

    @property
    def due_ns(self) -> tuple[int, ...]:
        """Instants of the requests of the window at the recorded pace, in nanoseconds; empty at another."""
        end_ns = (self.duration_s or 0.0) * NS_PER_S
        return self._due_ns[: bisect_left(self._due_ns, end_ns)]

    def with_traffic(self, traffic: Traffic) -> Self:
        """Return the same load with the requests of traffic, at its pace. Raises ValueError where it has no times."""
        pace: dict[str, object] = {}
        if self.pace is not None:
            if traffic.mean_rate is None:
                raise ValueError(f"{traffic.source} states no times of its requests: `pace` needs them")
            pace = {RATE: traffic.mean_rate * self.speed}
            if self.pace != "recorded":
                pace["arrivals"] = self.pace
        copied = self.model_copy(update={"requests": tuple(each.request for each in traffic.requests), **pace})
        copied._order = traffic.order  # noqa: SLF001 - of the same class
        if self.pace == "recorded":
            copied._due_ns = tuple(round(at / self.speed * NS_PER_S) for at in traffic.times)  # noqa: SLF001
            if copied.duration_s is not None and copied.due_ns:
                return copied.model_copy(update={RATE: len(copied.due_ns) / copied.duration_s})
        return copied

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes of its requests; empty for more than `MAX_CLASSES`, and for one without a size."""
        names = tuple(dict.fromkeys(request.class_name for request in self.requests))
        is_sized = any(request.expect.size is not None for request in self.requests)
        return names if (len(names) > 1 or is_sized) and len(names) <= MAX_CLASSES else ()

    @property
    def has_held_phase(self) -> bool:
        """True if its cell has a second phase, at a held rate."""
        return self.held_share is not None or self.held_rate is not None

    @property
    def needs_curve(self) -> bool:
        """True if the run first measures the load curve of its cell."""
        return self.at_knee or self.has_held_phase or self.share_of_slowest is not None

    @property
    def searches_capacity(self) -> bool:
        """True if each trial searches for the capacity of its cell."""
        return self.capacity is not None and self.share_of_capacity is None

    @property
    def in_flight(self) -> int:
        """Number of requests in flight of a closed loop: connections times streams."""
        return self.connections * self.streams

    @property
    def stages(self) -> tuple[RateStage, ...]:
        """Requests of the window, where its rate has a shape; empty without one, and before the rate is known."""
        if self.shape is None or self.rate is None or self.duration_s is None:
            return ()
        return self.shape.stages(self.rate, self.duration_s)

    @property
    def mean_rate(self) -> float | None:
        """Target rate over the whole window; None without one."""
        stages = self.stages
        return sum(each.requests for each in stages) / self.duration_s if stages and self.duration_s else self.rate

    @property
    def request_mix(self) -> tuple[Request, ...]:
        """The requests that are sent: at least one.

        Each has all its headers, apart from Content-Length: load tools and the probe state it themselves.
        """
        single = Request(method=self.method, path=self.path, body=self.body)
        return tuple(
            request.model_copy(
                update={"headers": without_header(merged_headers(self.headers, request.headers), CONTENT_LENGTH)}
            )
            for request in self.requests or (single,)
        )

    @property
    def secrets(self) -> tuple[tuple[str, SecretValue], ...]:
        """The secret header values of its requests, each with the name of its header."""
        return tuple(
            (name, value)
            for headers in (self.headers, *(each.headers for each in self.requests))
            for name, value in headers.items()
            if isinstance(value, SecretValue)
        )

    @property
    def revealed(self) -> Self:
        """The same load with its secret header values as text, for what sends it: it must not be stored or shown.

        Raises InputError where a value is unknown.
        """
        if not self.secrets:
            return self
        requests = tuple(request.revealed for request in self.requests)
        return self.model_copy(update={"headers": revealed(self.headers), "requests": requests})
