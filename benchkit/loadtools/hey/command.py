"""The command line of hey: closed loop, or a rate for each connection or stream.

Limits, read from its source (requester/requester.go, print.go):

- Requests ÷ connections is rounded down; `-q` is a rate for each connection; redirects are followed by default.
- At a rate each connection waits for a tick of its own clock, and all clocks start together: requests come in bursts. A
  tick that finds the connection waiting for an answer is dropped, and the request is never made up for.
- At most 500 idle connections are kept open (`maxIdleConn`).
- All workers share one connection of HTTP/2 (`-h2`); where the server does not offer it, hey uses HTTP/1.1.
- Certificates are never verified (`InsecureSkipVerify`), and no session is resumed.
- It keeps the times of 1,000,000 answers in a process.
- `-o` takes any text as a template (Go's text/template) over its report, in all versions from 0.1.0 to 0.1.4; boom, its
  ancestor, does not. `TEMPLATE` prints every answer's time to the nanosecond, and exact counts.
"""

from __future__ import annotations

from collections.abc import Iterable

from benchkit.loadtools.hey.output import MAX_RESULTS, ROWS, parse
from benchkit.loadtools.tool import (
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
    reserved_arguments,
    whole_seconds,
)
from benchkit.models.load import Load

TEMPLATE = """\
benchkit rows of hey: time_s,status,offset_s
{{range $i, $time := .Lats}}{{printf "%.9f,%d,%.6f" $time (index $.StatusCodes $i) (index $.Offsets $i)}}
{{end}}--- benchkit counters of hey 1
requests {{.NumRes}}
duration_ns {{.Total.Nanoseconds}}
bytes {{.SizeTotal}}
time_s {{printf "%.9f" .AvgTotal}}
errors {{printf "%x" (jsonify .ErrorDist)}}
--- end of benchkit counters of hey
"""
"""Output template. hey passes the text to fmt.Fprintf as a format, so error messages, which may have a `%`, are in
hex."""


def _measure(output: ToolOutput) -> ParsedOutput:
    from benchkit.loadtools.hey.measure import measure  # noqa: PLC0415 - numpy is slow to import

    return measure(output)


def _validate(load: Load) -> Iterable[UnsupportedField]:
    yield from either_time_or_count(load)
    yield from whole_seconds(load.timeout_s, "timeout_s", "hey")
    yield from reserved_arguments(load, "hey", "-o")
    if load.request_count is None:
        return
    if load.request_count % load.in_flight:
        sender = "stream" if load.streams > 1 else "connection"
        yield UnsupportedField(
            "request_count",
            f"hey gives every {sender} the same number: not divisible by {load.in_flight} {sender}s",
        )
    if load.request_count > MAX_RESULTS:
        yield UnsupportedField(
            "request_count", f"one hey keeps {MAX_RESULTS:,} results and drops the rest: use more processes"
        )


def _argv(load: Load, target: Target) -> list[str]:
    (request,) = load.request_mix
    argv = ["hey", "-c", str(load.in_flight), "-disable-redirects"]
    if target.protocol == "h2":
        argv.append("-h2")
    argv += ["-n", str(load.request_count)] if load.duration_s is None else ["-z", f"{load.duration_s:g}s"]
    if load.histogram:
        argv += ["-o", TEMPLATE]
    if not load.keepalive:
        argv.append("-disable-keepalive")
    if request.method != "GET":
        argv += ["-m", request.method]
    if load.rate is not None:
        argv += ["-q", f"{load.rate / load.in_flight:.6g}"]
    if load.timeout_s is not None:
        argv += ["-t", f"{load.timeout_s:.0f}"]
    for line in header_lines(request):
        argv += ["-H", line]
    if body := body_file(load, "hey", request):
        argv += ["-D", body]
    if target.server_name is not None:
        argv += ["-host", target.server_name]  # of the header and of the handshake
    return [*argv, *load.extra_args, target.origin + request.path]


TOOL = Tool(
    name="hey",
    binary="hey",
    argv=_argv,
    parse=parse,
    rows=ROWS,
    measure=_measure,
    rate=RateSupport(is_open=False, clocks="per stream"),
    options=frozenset({"duration_s", "request_count", "keepalive", "rate", "timeout_s", "extra_args"}),
    requests=RequestSupport(own_headers=("host", "user-agent")),
    files=lambda load, _target: body_files(load, "hey"),
    validate=_validate,
    protocols=frozenset({"http1", "https1", "h2"}),
    tls=TlsSupport(verifies=False, sends_name=True, resumes=False),
    validate_target=lambda load, target: one_http2_connection(load, target, "hey"),
)
