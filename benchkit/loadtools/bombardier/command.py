"""The command line of bombardier: closed loop, or one rate for all connections.

Behaviour, read from its source (1.2.6: bombardier.go, clients.go, limiter.go, completion_barriers.go):

- It uses fasthttp's client, and Go's own for HTTP/2 (`--http2`), whose requests share one connection. GET, HEAD and PUT
  are sent again by fasthttp, up to four times, where the connection is closed before the first byte of an answer.
- At a rate a connection takes the next tick of one clock, waits for it, and then sends. Ticks that come while all wait
  for answers are taken one after the other: times count from when a request was sent.
- At the end of its time no connection is interrupted: every request is answered and counted.
- Requests without an answer have a time among the others, and are counted as `others`.
- Certificates are verified by the host's authorities or not at all (`-k`), and no session is resumed.
- `-o path:FILE` takes a template (Go's text/template) over its result: `TEMPLATE` prints the number of requests at each
  microsecond. It looks up each microsecond up to the longest time: 0.3 to 2 µs for each.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from benchkit.files import BACKENDS
from benchkit.loadtools.bombardier.output import parse
from benchkit.loadtools.tool import (
    GoProgram,
    ParsedOutput,
    RateSupport,
    RequestPart,
    RequestSupport,
    Target,
    TlsSupport,
    Tool,
    ToolOutput,
    UnsupportedField,
    body_file,
    body_files,
    either_time_or_count,
    has_body,
    header_lines,
    one_http2_connection,
    reserved_arguments,
)
from benchkit.models.load import Load
from benchkit.models.request import Request

PROGRAM = GoProgram(BACKENDS / "bombardier", "github.com/codesenberg/bombardier", "1.2.6", "bombardier")

TEMPLATE_FILE = "bombardier.template"
LONGEST_US = 1_000_000
"""Longest time, in microseconds, up to which the template prints the number at each; more would take too long."""
TEMPLATE = """\
{{with .Result -}}
--- benchkit counters of bombardier 1
duration_ns {{.TimeTaken.Nanoseconds}}
bytes {{.BytesRead}}
status {{.Req1XX}} {{.Req2XX}} {{.Req3XX}} {{.Req4XX}} {{.Req5XX}} {{.Others}}
{{range .Errors}}error {{.Count}} {{printf "%x" .Error}}
{{end}}
{{- $times := .Latencies}}
{{- with .LatenciesStats (FloatsToArray 0.5 0.75 0.9 0.95 0.99 0.999 0.9999 1.0)}}
{{- range $share, $time := .Percentiles}}share {{printf "%g" $share}} {{$time}}
{{end}}
{{- $longest := index .Percentiles 1.0}}
{{- if le $longest LONGEST_US}}
{{- range $time := $longest}}{{with $times.Get $time}}{{$time}} {{.}}
{{end}}{{end}}{{$longest}} {{$times.Get $longest}}
{{end}}{{end -}}
--- end of benchkit counters of bombardier
{{end}}""".replace("LONGEST_US", str(LONGEST_US))

_SENDS_AGAIN = (
    "bombardier sends a request again, up to four times, if its connection closes without an answer. It prints no count "
    "of these: its failures are a lower limit."
)
METHODS = frozenset({"GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH"})


def _measure(output: ToolOutput) -> ParsedOutput:
    from benchkit.loadtools.bombardier.measure import measure  # noqa: PLC0415 - numpy is slow to import

    return measure(output)


def _validate(load: Load) -> Iterable[UnsupportedField]:
    yield from either_time_or_count(load)
    yield from reserved_arguments(load, "bombardier", "-o", "--format")
    if load.duration_s is not None and load.duration_s < 1:
        yield UnsupportedField("duration_s", f"bombardier runs for a second at least, not {load.duration_s:g} s")
    if load.rate is not None and load.rate != int(load.rate):
        yield UnsupportedField("rate", f"bombardier takes whole requests per second, not {load.rate:g}")


def _validate_request(request: Request) -> Iterator[tuple[RequestPart, str]]:
    if request.method not in METHODS:
        yield "method", f"bombardier does not know {request.method}"
    if request.method == "HEAD" and has_body(request):
        yield "body", "bombardier sends no body with HEAD: set another method"


def _files(load: Load, _target: Target) -> Mapping[str, bytes]:
    return {**({TEMPLATE_FILE: TEMPLATE.encode()} if load.histogram else {}), **body_files(load, "bombardier")}


def _argv(load: Load, target: Target) -> list[str]:
    (request,) = load.request_mix
    argv = [PROGRAM.name, f"--connections={load.in_flight}", "--latencies", "--print=result"]
    argv.append(f"--format=path:{TEMPLATE_FILE}" if load.histogram else "--format=json")
    argv.append(f"--requests={load.request_count}" if load.duration_s is None else f"--duration={load.duration_s:g}s")
    if target.protocol == "h2":
        argv.append("--http2")
    if target.tls is not None:
        argv.append("--insecure")
    if load.rate is not None:
        argv.append(f"--rate={load.rate:.0f}")
    if load.timeout_s is not None:
        argv.append(f"--timeout={load.timeout_s:g}s")
    if request.method != "GET":
        argv.append(f"--method={request.method}")
    headers = [*header_lines(request), *([] if load.keepalive else ["Connection: close"])]
    argv += [f"--header={line}" for line in headers]
    if body := body_file(load, "bombardier", request):
        argv.append(f"--body-file={body}")
    return [*argv, *load.extra_args, target.origin + request.path]


TOOL = Tool(
    name="bombardier",
    binary="bombardier",
    argv=_argv,
    parse=parse,
    measure=_measure,
    go_program=PROGRAM,
    rate=RateSupport(is_open=False, clocks="one"),
    options=frozenset({"duration_s", "request_count", "keepalive", "rate", "timeout_s", "extra_args"}),
    requests=RequestSupport(validate=_validate_request),
    files=_files,
    validate=_validate,
    protocols=frozenset({"http1", "https1", "h2"}),
    tls=TlsSupport(verifies=False, sends_name=False, resumes=False),
    validate_target=lambda load, target: one_http2_connection(load, target, "bombardier"),
    load_notes=lambda _load: (_SENDS_AGAIN,),
    own_s=5.0,
)
