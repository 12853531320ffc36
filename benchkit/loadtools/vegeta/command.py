"""The command line of vegeta: open loop at a constant rate, or closed loop without one.

Behaviour of the attack, read from its source (lib/attack.go):

- The attack writes every result at once, in a binary form of Go's (gob) that the reducer reads; it prints no summary.
- All workers take their targets from one list, in turn and from its start again.
- With a rate, request n is due n + 1 intervals after the start. It is sent as soon as possible after that, by as many
  workers as it takes. Its own times begin when it is sent, and include waiting for one of the connections. From the
  request's number in the results the reducer knows how late it was sent.
- All requests share one connection of HTTP/2. Over TLS it offers HTTP/1.1 too, and takes what the server chooses.
- Certificates are verified. It has no cache of sessions, so that every handshake is full.
- Bytes are of the bodies that it keeps (`-max-body`); all are kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from benchkit.files import BACKENDS
from benchkit.loadtools.tool import (
    NEED_RATE,
    GoProgram,
    ParsedOutput,
    RateSupport,
    RequestSupport,
    Target,
    TlsSupport,
    Tool,
    ToolOutput,
    UnsupportedField,
    body_file,
    body_files,
    either_time_or_count,
    header_lines,
    one_http2_connection,
    repeated_requests,
)
from benchkit.loadtools.vegeta.output import ROWS, parse
from benchkit.models.load import NS_PER_S, Load
from benchkit.models.request import Request

TARGETS = "vegeta.targets"
PROGRAM = GoProgram(BACKENDS / "vegeta", "github.com/tsenart/vegeta/v12", "12.8.4", "vegeta")


def _validate(load: Load) -> Iterable[UnsupportedField]:
    yield from either_time_or_count(load)
    if load.request_count is not None and load.rate is None:
        yield UnsupportedField("request_count", "vegeta runs for a time: set a rate to reach a count")
    if not load.histogram:
        yield UnsupportedField("histogram", "vegeta prints no summary: it needs histogram: true")
    if load.rate is not None and load.rate != round(load.rate * 1000) / 1000:
        yield UnsupportedField("rate", f"vegeta takes thousandths of a request per second, not {load.rate!r}")


def _validate_target(load: Load, target: Target) -> Iterable[str]:
    yield from one_http2_connection(load, target, "vegeta")
    at_rate = any(getattr(load, name) is not None for name in ("rate", *NEED_RATE))
    if at_rate and load.streams > 1:
        yield "streams: at a rate vegeta opens a stream for every request that is due, up to the server's limit"


def _files(load: Load, target: Target) -> Mapping[str, bytes]:
    targets = "\n".join(_lines(load, request, target) for request in repeated_requests(load))
    return {TARGETS: targets.encode(), **body_files(load, "vegeta")}


def _lines(load: Load, request: Request, target: Target) -> str:
    """Return a request as vegeta reads it: method and URL, a line for each header, and the file of the body."""
    body = body_file(load, "vegeta", request)
    lines = [f"{request.method} {target.origin}{request.path}", *header_lines(request), *([f"@{body}"] if body else [])]
    return "".join(f"{line}\n" for line in lines)


def _argv(load: Load, target: Target) -> list[str]:
    output = "stdout" if load.histogram else "/dev/null"
    argv = ["vegeta", "attack", f"-targets={TARGETS}", f"-output={output}", "-redirects=-1"]
    argv += [f"-connections={load.connections}", f"-max-connections={load.connections}"]
    if load.rate is None:  # as fast as possible: one worker for each connection, or each stream of one
        argv += ["-rate=0", f"-max-workers={load.in_flight}"]
    else:
        argv.append(f"-rate={_rate(load.rate)}")
    seconds = load.duration_s
    if seconds is None and load.request_count is not None and load.rate is not None:
        seconds = load.request_count / load.rate
    argv.append(f"-duration={seconds:.9f}s")
    argv += _protocol_arguments(target)
    if not load.keepalive:
        argv.append("-keepalive=false")
    if load.timeout_s is not None:
        argv.append(f"-timeout={load.timeout_s:g}s")
    return [*argv, *load.extra_args]


def _protocol_arguments(target: Target) -> list[str]:
    """Return the arguments for the protocol: without them it offers HTTP/2 over TLS, and trusts the host's CAs."""
    if target.protocol == "h2c":
        return ["-h2c"]
    trusted = [f"-root-certs={target.ca_file}"] if target.ca_file is not None else []
    return [*trusted, *(["-http2=false"] if target.protocol == "https1" else [])]


def _rate(per_s: float) -> str:
    """Return a rate as vegeta takes it: a whole number of requests in a time."""
    return f"{per_s:.0f}/1s" if per_s == int(per_s) else f"{per_s * 1000:.0f}/1000s"


def _interval_ns(load: Load) -> int:
    """Return the time between two requests of vegeta's schedule, which it rounds down (lib/pacer.go)."""
    if load.rate is None:
        return 0
    hits, _, per = _rate(load.rate).partition("/")
    return int(per.removesuffix("s")) * NS_PER_S // int(hits)


def _measure(output: ToolOutput) -> ParsedOutput:
    from benchkit.loadtools.vegeta.measure import measure  # noqa: PLC0415 - numpy is slow to import

    return measure(output)


TOOL = Tool(
    name="vegeta",
    binary="vegeta",
    argv=_argv,
    parse=parse,
    summary=None,
    measure=_measure,
    rows=ROWS,
    go_program=PROGRAM,
    rate=RateSupport(is_open=True, clocks="one", interval_ns=_interval_ns),
    options=frozenset({"duration_s", "request_count", "keepalive", "rate", "timeout_s", "extra_args"}),
    requests=RequestSupport(differing=frozenset({"method", "path", "headers", "body"})),
    files=_files,
    validate=_validate,
    protocols=frozenset({"http1", "https1", "h2", "h2c"}),
    tls=TlsSupport(verifies=True, sends_name=False, resumes=False),
    validate_target=_validate_target,
)
