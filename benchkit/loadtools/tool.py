"""The shape that every load tool has; `benchkit.loadtools.registry` lists the tools."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from benchkit.errors import InputError
from benchkit.loadtools.reader import OutputFormat
from benchkit.models.load import Load
from benchkit.models.load_result import Covers, LoadResult
from benchkit.models.protocol import HttpProtocol, TlsOptions, has_streams, is_http2, is_tls
from benchkit.models.request import CONTENT_LENGTH, MAX_CYCLE, Request, has_header, request_cycle

if TYPE_CHECKING:
    from benchkit.loadtools.measurement import Measurement  # it imports numpy, which is slow and which no parser needs


@dataclass(frozen=True)
class Target:
    """The entry of a cell as its generators reach it."""

    authority: str
    """Address and port: `10.0.0.2:8080`."""
    protocol: HttpProtocol = "http1"
    tls: TlsOptions | None = None
    """Options of the entry's TLS; None without TLS."""
    ca_file: PurePosixPath | None = None
    """File on the load hosts with the certificates (PEM) that verify the entry's; None without TLS."""

    @property
    def server_name(self) -> str | None:
        """Name to ask for in the handshake of TLS, to verify, and to send as `Host`; None: the authority's."""
        return None if self.tls is None else self.tls.server_name

    @property
    def origin(self) -> str:
        """URL without a path: `https://10.0.0.2:8080` (RFC 6454)."""
        return f"{'https' if is_tls(self.protocol) else 'http'}://{self.authority}"

    @property
    def named_origin(self) -> str:
        """`origin` with the name of TLS, for a tool that takes the address to connect to from another option."""
        return self.origin if self.server_name is None else f"https://{self.server_name}"


LONGEST_ANSWER_S = 30.0
"""Longest time for the answers to the last requests: the time-out of most load tools."""

RequestPart = Literal["method", "path", "headers", "body"]

REQUEST_FIELDS = frozenset({"method", "path", "headers", "body", "requests", "traffic"})
"""Fields of `Load` that state its requests. A cell whose tool cannot send them is unsupported; the others run."""


@dataclass(frozen=True)
class RequestSupport:
    """The requests that a tool can send."""

    mix: Literal["drawn", "in turn"] | None = None
    """Order in which it sends several: each drawn at random by its weight, or those of the list `request_cycle` one
    after the other. None: it sends one request."""
    follows_order: bool = False
    """True: it sends the requests of traffic in the order of its log. False: by their weights."""
    own_headers: tuple[str, ...] = ()
    """Headers that it always sets itself."""
    validate: Callable[[Request], Iterable[tuple[RequestPart, str]]] = field(default=lambda _request: (), repr=False)
    """Return why it cannot send one request, each reason with the part that it concerns; pure."""

    def unsupported_fields(self, load: Load, tool: str) -> Iterator[tuple[str, str]]:
        """Yield what the tool cannot send of a load: the field of `Load`, and the reason as a sentence."""
        mix = load.request_mix
        if len(mix) > 1 and self.mix is None:
            yield "requests", f"{tool} sends one request, not {len(mix)}"
        elif self.mix == "in turn" and not (self.follows_order and load.order) and request_cycle(mix) is None:
            why = f"{tool} has no weights, and a list that repeats requests by weight has more than {MAX_CYCLE} items"
            yield "requests", why
        for number, request in enumerate(mix, 1):
            reserved = [name for name in self.own_headers if has_header(request.headers, name)]
            reasons = [("headers", f"{tool} always sends its own {name}") for name in reserved]
            for part, why in (*reasons, *self.validate(request)):
                yield ("requests", f"request {number}, {request}: {part}: {why}") if load.requests else (part, why)


def repeated_requests(load: Load) -> tuple[Request, ...]:
    """Return the requests of a load that the tool supports, in the order in which a tool without weights sends them."""
    cycle = request_cycle(load.request_mix)
    if cycle is None:
        raise AssertionError("the tool does not support these weights")
    return cycle


def body_files(load: Load, _target: Target) -> dict[str, bytes]:
    """Return the bodies of the requests as files for the working directory; a request without one has none."""
    contents = ((number, request.content) for number, request in enumerate(load.request_mix, 1))
    return {f"body.{number}": content for number, content in contents if content is not None}


def body_file(load: Load, request: Request) -> str | None:
    """Return the name in `body_files` of a request of `load.request_mix`; None without a body."""
    return f"body.{load.request_mix.index(request) + 1}" if has_body(request) else None


def has_body(request: Request) -> bool:
    """Return whether a request has a body, its content known or not."""
    return request.body is not None or request.body_file is not None


def header_lines(request: Request, *, with_zero_length: bool = False) -> list[str]:
    """Return `Name: value` of every header, in the scenario's order.

    `with_zero_length` is for a tool that states the length of a body alone, and not that there is none.
    """
    lines = [f"{name}: {value}" for name, value in request.headers.items()]
    is_empty = with_zero_length and request.content_length is not None and not has_body(request)
    return [*lines, f"{CONTENT_LENGTH}: 0"] if is_empty else lines


def option(template: str, value: object) -> list[str]:
    """Return the words of an option with its value: `-z {:g}s` are two. None and False: no words."""
    return [] if value is None or value is False else [word.format(value) for word in template.split(" ")]


NEED_RATE: Final = ("share_of_slowest", "capacity", "share_of_capacity")
"""Fields of `Load` from which a run finds target rates itself: any tool that can hold a rate supports them."""

ALWAYS: Final = (
    frozenset(
        {
            "tool",
            "connections",
            "streams",
            "processes",
            "pin",
            "warmup_s",
            "histogram",
            "pace",
            "speed",
            *NEED_RATE,
            "at_knee",
            "held_share",
            "held_rate",
        }
    )
    | REQUEST_FIELDS
)
"""Fields of `Load` that every tool supports, that benchkit itself handles, or that `Tool.requests` describes."""


@dataclass(frozen=True)
class ToolOutput:
    """The files that one generator wrote."""

    stdout: str
    """Printed text, without the rows that the reducer has read."""
    stderr: str = ""
    reduction: bytes | None = None
    """The reducer's file; None where the tool prints no rows."""


class ParsedOutput(NamedTuple):
    """The output of one generator, or of many merged: its summary, and its measurement of every request."""

    result: LoadResult
    """Summary; its latency comes from the raw histogram where there is one."""
    measurement: Measurement | None
    """None where only the tool's own summary was asked for."""


@dataclass(frozen=True)
class UnsupportedField:
    """A field of `Load` that a tool cannot support, and the reason as a sentence."""

    field: str
    why: str

    @property
    def concerns_requests(self) -> bool:
        """True where the tool cannot send its requests: only a cell is unsupported. All other loads are refused."""
        return self.field in REQUEST_FIELDS


@dataclass(frozen=True)
class GoProgram:
    """A load tool that benchkit builds from a Go module and copies to the load hosts."""

    module: Path
    package: str
    """Package of the module to build, as `go build` takes it."""
    version: str
    name: str
    """Name of the file on load hosts, and first argument of its command."""


@dataclass(frozen=True)
class RequestRows:
    """Rows of a tool's output, one per request, which the reducer (`backends/reduce`) reads on the load host."""

    name: str
    """Name by which the reducer knows the rows."""
    covers: Covers = "connect+request"
    """Part of a request that their times cover."""
    has_status: bool = True
    """False: rows do not state the status of the answer."""


@dataclass(frozen=True)
class TlsSupport:
    """The way in which a tool uses TLS."""

    verifies: bool
    """True: it verifies certificates by `Target.ca_file`. False: it accepts all, and cannot do otherwise."""
    sends_name: bool
    """True: it asks for `Target.server_name`. False: for the host of the URL that it connects to alone."""
    resumes: bool
    """True: a new connection resumes an earlier session where the server lets it. False: every handshake is full."""
    sends_early: bool = False
    """True: it sends early data in resumed handshakes of HTTP/3 (`TlsOptions.early_data`)."""


@dataclass(frozen=True)
class RateSupport:
    """The way in which a tool holds a target rate."""

    is_open: bool
    """True: a request is sent when it is due, however many are unanswered. False: not before its connection is free."""
    clocks: Literal["one", "per connection", "per stream"]
    """Clocks that share the rate, and tick at the same instants: one, or one for each connection, or each stream."""
    replays: bool = False
    """True: it sends requests at recorded instants (`pace: recorded`)."""
    interval_ns: Callable[[Load], int] | None = field(default=None, repr=False)
    """Load of one generator → time between two requests in its schedule, for tools whose rows number the requests. The
    reducer then counts times from when a request was due. None: rows state when it was due, or times count from when it
    was sent."""


@dataclass(frozen=True)
class LoadLimits:
    """Values of a load that a tool takes, among the fields that it supports."""

    ends: Literal["time", "time or count"] = "time or count"
    """Ends of a run that it can have."""
    duration_step_s: float | None = None
    """Step of durations; None: any."""
    least_s: float = 0.0
    """Shortest duration."""
    timeout_step_s: float | None = None
    rate_step: float | None = None
    """Step of target rates in requests per second."""
    count: Literal["any", "one each", "same each"] = "any"
    """Requests of each connection in a run by count: any number, at least one, or the same number."""
    thread_has_connection: bool = False
    """True: each thread needs a connection."""
    connections: int | None = None
    """Most connections of one process."""
    reserved: tuple[str, ...] = ()
    """Arguments that benchkit sets itself, to have every request recorded."""
    one_http2_connection: bool = False
    """True: all requests share one connection of HTTP/2."""

    def unsupported(self, load: Load, tool: str) -> Iterator[UnsupportedField]:
        """Yield the fields of a load with values that the tool does not take."""
        yield from self._unsupported_ends(load, tool)
        yield from self._unsupported_counts(load, tool)
        steps = {"duration_s": self.duration_step_s, "timeout_s": self.timeout_step_s, "rate": self.rate_step}
        for name, step in steps.items():
            value: float | None = getattr(load, name)
            if value is not None and step is not None and value != round(round(value / step) * step, 3):
                what = "whole seconds" if name != "rate" and step == 1 else f"it in steps of {step:g}"
                yield UnsupportedField(name, f"{tool} takes {what}, not {value:.12g}")
        taken = [argument for argument in load.extra_args if argument.startswith(self.reserved)]
        if taken and load.histogram:
            why = f"{taken[0]}: with histogram: true, benchkit sets {self.reserved[0]} of {tool}"
            yield UnsupportedField("extra_args", why)

    def _unsupported_ends(self, load: Load, tool: str) -> Iterator[UnsupportedField]:
        count, duration_s = load.request_count, load.duration_s
        if self.ends == "time" and duration_s is None:
            yield UnsupportedField("duration_s", f"{tool} runs for a time, not for a count of requests")
        elif self.ends != "time" and (duration_s is None) == (count is None):
            yield UnsupportedField("duration_s", "set either duration_s or request_count")
        if duration_s is not None and duration_s < self.least_s:
            yield UnsupportedField("duration_s", f"{tool} runs for at least {self.least_s:g} s, not {duration_s:g} s")

    def _unsupported_counts(self, load: Load, tool: str) -> Iterator[UnsupportedField]:
        count, connections = load.request_count, load.connections
        if self.count == "one each" and count is not None and count < connections:
            yield UnsupportedField("request_count", f"{tool} needs at least one for each of {connections} connections")
        if self.count == "same each" and count is not None and count % load.in_flight:
            sender = "stream" if load.streams > 1 else "connection"
            why = f"{tool} gives every {sender} the same number: not divisible by {load.in_flight} {sender}s"
            yield UnsupportedField("request_count", why)
        if self.thread_has_connection and connections < load.threads:
            why = f"{load.threads} threads need at least {load.threads} connections, not {connections}"
            yield UnsupportedField("threads", why)
        if self.connections is not None and connections > self.connections:
            why = f"one {tool} opens at most {self.connections} connections: use more processes"
            yield UnsupportedField("connections", why)


@dataclass(frozen=True)
class Tool:
    """One load tool: how it is called, and how its output is read.

    A load that sets a field of `Load` other than `ALWAYS` and `options` is refused (`unsupported_fields`). A tool never
    runs with a part of its load ignored.
    """

    name: str
    binary: str
    """Program that runs on the load host."""
    argv: Callable[[Load, Target], list[str]] = field(repr=False)
    """(load of one generator, target) → argument list, for a load that the tool supports; pure."""
    format: OutputFormat
    """The text that it prints."""
    options: frozenset[str]
    """Fields of `Load` beyond `ALWAYS` that the tool supports."""
    rate: RateSupport | None = None
    """The way in which it holds a target rate; None: it cannot."""
    requests: RequestSupport = RequestSupport()
    """The requests that it can send."""
    summary: Literal["stdout", "stderr"] | None = "stdout"
    """Stream with the text that `format` reads; None: the tool prints rows and no summary, so it has `measure`."""
    rows: RequestRows | None = None
    """Rows that it prints on stdout, one per request; None: no such rows."""
    measure: Callable[[ToolOutput], ParsedOutput] | None = field(default=None, repr=False)
    """Output of a load with `histogram` → result and measurement; pure. Raises ParseError.

    None: the result is the summary, with the latencies of the rows where there are `rows`.
    """
    go_program: GoProgram | None = None
    """Program that benchkit builds; None: hosts have `binary` from a package (`benchkit.hosts.packages.PROGRAMS`)."""
    files: Callable[[Load, Target], Mapping[str, bytes]] = field(default=body_files, repr=False)
    """(load, target) → files that the argument list names, for the working directory: name → content; pure."""
    limits: LoadLimits = LoadLimits()
    """Values that it takes."""
    validate: Callable[[Load], Iterable[UnsupportedField]] = field(default=lambda _load: (), repr=False)
    """Return the options with another value that the tool cannot do; pure."""
    protocols: frozenset[HttpProtocol] = frozenset({"http1"})
    """Protocols that it speaks."""
    builds: Mapping[HttpProtocol, str] = field(default_factory=dict)
    """Protocols that only some builds speak → which builds; the program does not print what it speaks."""
    reconnects: frozenset[HttpProtocol] = frozenset({"http1", "https1"})
    """Protocols in which it can open a connection for each request (`keepalive: false`)."""
    tls: TlsSupport | None = None
    """The way in which it uses TLS; None: it has none."""
    validate_target: Callable[[Load, Target], Iterable[str]] = field(default=lambda _load, _target: (), repr=False)
    """(load of one generator, target in one of its protocols) → reasons why it cannot send this load there; pure."""
    lead: Callable[[float], tuple[str, ...]] | None = field(default=None, repr=False)
    """Seconds → arguments that delay its measured time by as much after its start, for opening its connections. None:
    its measured time begins with its first connection."""
    overrun_s: float = 0.0
    """Longest time for which it sends requests beyond the time that was asked for, in seconds. The next slice begins
    after it. A tool has 0 if only its start, or the answers to its last requests, make it late."""
    own_s: float = 2.0
    """Time for its own start and end, beside its load and the last answers, in seconds; a tool that takes longer is
    ended. For a million different times wrk prints 10 MB of histogram."""
    notes: tuple[str, ...] = ()
    """Notes of a plan on how it sends and measures every load."""
    single_threaded: bool = False
    thread_per_connection: bool = False

    @property
    def required_program(self) -> str | None:
        """Program that a load host must have; None where benchkit builds it."""
        return self.binary if self.go_program is None else None

    def threads(self, load: Load) -> int | None:
        """Return the most threads that generate the load of one generator; None: the tool sets no limit."""
        if self.single_threaded:
            return 1
        if self.thread_per_connection:
            return load.connections
        return load.threads if "threads" in self.options else None

    def unsupported_fields(self, load: Load) -> tuple[UnsupportedField, ...]:
        """Return everything in the load of one generator that this tool cannot do; empty where it can do it all."""
        unsupported = [
            UnsupportedField(name, f"{self.name} does not support it (it supports: {', '.join(sorted(self.options))})")
            for name, spec in Load.model_fields.items()
            if name not in ALWAYS | self.options and getattr(load, name) != spec.get_default(call_default_factory=True)
        ]
        if self.rate is None:
            needing = [name for name in NEED_RATE if getattr(load, name) is not None]
            unsupported += [UnsupportedField(name, f"{self.name} cannot hold a rate") for name in needing]
        if load.pace == "recorded" and not (self.rate is not None and self.rate.replays):
            unsupported.append(UnsupportedField("pace", f"{self.name} cannot send at recorded times"))
        requests = [UnsupportedField(name, why) for name, why in self.requests.unsupported_fields(load, self.name)]
        return (*unsupported, *requests, *self.limits.unsupported(load, self.name), *self.validate(load))

    def unsupported_target(self, load: Load, target: Target) -> tuple[str, ...]:
        """Return the reasons why a generator with this load cannot send it to the target; empty where it can."""
        if target.protocol not in self.protocols:
            return (f"{self.name} does not speak {target.protocol} (it speaks: {', '.join(sorted(self.protocols))})",)
        return (*self._unsupported_protocol(load, target), *self.validate_target(load, target))

    def _unsupported_protocol(self, load: Load, target: Target) -> Iterator[str]:
        if target.server_name is not None and self.tls is not None and not self.tls.sends_name:
            yield f"tls.server_name: {self.name} always asks for the address that it connects to"
        if self.limits.one_http2_connection and is_http2(target.protocol) and load.connections > 1:
            yield (
                f"connections: each {self.name} opens one connection of HTTP/2, not {load.connections}: set streams, and "
                "a process for each connection"
            )
        if load.streams > 1 and not has_streams(target.protocol):
            yield f"streams: {target.protocol} has no streams, a connection has one request in flight"
        is_early = target.tls is not None and target.tls.early_data
        if is_early and not (target.protocol == "h3" and self.tls is not None and self.tls.sends_early):
            yield f"tls.early_data: {self.name} sends no early data over {target.protocol}"
        if load.keepalive:
            return
        if target.protocol not in self.reconnects:
            yield f"keepalive: {self.name} keeps its connections of HTTP/{3 if target.protocol == 'h3' else 2} open"
        if self.tls is not None and not self.tls.resumes and target.tls is not None and target.tls.resumption:
            yield f"tls.resumption: {self.name} never resumes a session on a new connection: set it to false, or keep them"

    def plan_notes(self, target: Target) -> Iterator[str]:
        """Yield the notes of a plan on how this tool sends a load to the target."""
        yield from self.notes
        if target.protocol in self.builds:
            yield f"{self.name} speaks {target.protocol} only where it is {self.builds[target.protocol]}; otherwise, no request arrives."
        if target.tls is not None and self.tls is not None and not self.tls.verifies:
            yield f"{self.name} verifies no certificate, and cannot be told to: it sends its load to any server that answers."

    def command(self, load: Load, target: Target) -> list[str]:
        """Return the argument list of one generator. Raises InputError where the tool does not support `load`."""
        self.require(load)
        return self.argv(load, target)

    def require(self, load: Load) -> None:
        """Raise InputError where the tool does not support the load of one generator."""
        unsupported_fields = self.unsupported_fields(load)
        if unsupported_fields:
            raise InputError(
                f"{self.name} cannot generate this load",
                why="; ".join(f"{o.field}: {o.why}" for o in unsupported_fields),
                hint="change the load, or choose another tool",
            )


def longest_answer_s(load: Load, *, is_open: bool) -> float:
    """Return the time after its window in which a load tool may wait for the answers to its last requests, in seconds.

    In a closed loop it is as long as the window, at most `LONGEST_ANSWER_S`: a slower server answered nothing within
    the window. An open loop waits for `LONGEST_ANSWER_S`, as late answers are part of what it measures.
    """
    return LONGEST_ANSWER_S if is_open else min(load.duration_s or LONGEST_ANSWER_S, LONGEST_ANSWER_S)
