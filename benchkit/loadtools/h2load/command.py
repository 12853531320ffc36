"""The command line of h2load (nghttp2): closed loop, or a constant rate for each client.

Limits, read from its source (src/h2load.cc):

- Requests and clients that cannot be divided by the threads are given to the first threads.
- With `--warm-up-time` connections are opened and requests are sent for that long before the measured time. They are in
  no figure but "finished in", and have no row; the rate is that of the measured time.
- A connection closed with `Connection: close` is opened again. One that is closed or reset without that is not, and
  counts as no error. One that is not established when the time is over then sends requests for ever, in no figure.
- At a rate each client has a timer, of 10 ms at least, that makes the requests due since its last tick. A client sends
  the next one when the last is answered, and its time counts from then. No figure has the wait of requests that were
  due.
- By itself it offers HTTP/2 and HTTP/1.1 in the handshake, and takes what the server chooses. `--npn-list`, in newer
  versions another name of `--alpn-list`, has it offer one. Where the server does not speak that one, connections end,
  and their requests are errors.
- It speaks HTTP/3 if it is built with ngtcp2 and `h3` is the first protocol offered. Neither its version nor its help
  says so. A build without ngtcp2 asks for `h3` over TCP.
- It offers only cipher suites of its own list, unless told others. Certificates are never verified, sessions never
  resumed.
- It adds Content-Length to a request with a body, and to no other.
- `--log-file` has a row for every request that ended, to the microsecond, each written with a system call of its own.
"""

from __future__ import annotations

from collections.abc import Iterable

from benchkit.loadtools.h2load.output import parse
from benchkit.loadtools.tool import (
    RateSupport,
    RequestPart,
    RequestRows,
    RequestSupport,
    Target,
    TlsSupport,
    Tool,
    UnsupportedField,
    body_file,
    either_time_or_count,
    files_of_paths,
    has_body,
    header_lines,
    reserved_arguments,
    whole_seconds,
    with_zero_length,
)
from benchkit.models.load import Load
from benchkit.models.protocol import has_streams
from benchkit.models.request import Request

URIS = "h2load.uris"
"""File with the URIs of several requests."""


def _validate(load: Load) -> Iterable[UnsupportedField]:
    yield from either_time_or_count(load)
    yield from whole_seconds(load.timeout_s, "timeout_s", "h2load")
    yield from reserved_arguments(load, "h2load", "--log-file")
    if load.duration_s is not None and round(load.duration_s, 3) != load.duration_s:
        yield UnsupportedField("duration_s", f"h2load takes whole milliseconds, not {load.duration_s:g} s")
    if not load.keepalive:
        yield UnsupportedField("keepalive", "h2load always keeps its connections open")
    if load.connections < load.threads:
        yield UnsupportedField(
            "threads", f"{load.threads} threads need at least {load.threads} connections, not {load.connections}"
        )
    if load.request_count is not None and load.request_count < load.connections:
        yield UnsupportedField("request_count", f"h2load needs at least one for each of {load.connections} connections")


def _validate_request(request: Request) -> Iterable[tuple[RequestPart, str]]:
    if has_body(request) and request.method == "GET":
        yield "body", "h2load sends no body with GET: set another method"


def _argv(load: Load, target: Target) -> list[str]:
    first = load.request_mix[0]
    argv = ["h2load", *_protocol_arguments(load, target), f"-c{load.connections}", f"-t{load.threads}"]
    argv.append(f"-n{load.request_count}" if load.duration_s is None else f"-D{_time(load.duration_s)}")
    if load.histogram:
        argv.append("--log-file=/dev/stdout")
    if load.rate is not None:
        argv.append(f"--rps={load.rate / load.connections:.6g}")
    if load.timeout_s is not None:
        argv.append(f"-N{load.timeout_s:.0f}s")
    if body := body_file(load, "h2load", first):
        argv.append(f"-d{body}")
    for line in [
        *([] if first.method == "GET" else [f":method: {first.method}"]),
        *header_lines(with_zero_length(first)),
    ]:
        argv += ["-H", line]
    where = f"-i{URIS}" if len(load.request_mix) > 1 else target.named_origin + first.path
    return [*argv, *load.extra_args, where]


def _protocol_arguments(load: Load, target: Target) -> list[str]:
    """Return the arguments for the streams, and for the protocol, the only one offered in the handshake."""
    offers = {"http1": ["--h1"], "https1": ["--h1"], "h2": ["--npn-list=h2"], "h2c": [], "h3": ["--npn-list=h3"]}
    argv = offers[target.protocol]
    if has_streams(target.protocol):
        argv = [*argv, f"-m{load.streams}"]
    if target.tls is not None and target.tls.ciphers is not None:
        argv = [*argv, f"--{'tls13-' if target.tls.version == '1.3' else ''}ciphers={target.tls.ciphers}"]
    if target.server_name is not None:
        argv = [*argv, f"--connect-to={target.authority}"]
    return argv


ROWS = RequestRows("h2load", covers="request")
"""Every request that ended, in microseconds from sending it; failed streams are counted as errors."""


def _time(seconds: float) -> str:
    """Return a time in the tool's own form, which has no fractions."""
    return f"{seconds:.0f}s" if seconds == int(seconds) else f"{seconds * 1000:.0f}ms"


TOOL = Tool(
    name="h2load",
    binary="h2load",
    argv=_argv,
    parse=parse,
    rows=ROWS,
    rate=RateSupport(is_open=False, clocks="per connection"),
    options=frozenset({"threads", "duration_s", "request_count", "rate", "timeout_s", "extra_args"}),
    requests=RequestSupport(
        differing=frozenset({"path"}),
        weights="in turn by connection",
        own_headers=("host",),
        validate=_validate_request,
    ),
    files=lambda load, target: files_of_paths(load, target, "h2load", URIS),
    validate=_validate,
    lead=lambda seconds: (f"--warm-up-time={_time(seconds)}",),
    protocols=frozenset({"http1", "https1", "h2", "h2c", "h3"}),
    builds={"h3": "built with ngtcp2, which Debian's is not"},
    tls=TlsSupport(verifies=False, sends_name=True, resumes=False),
)
