"""The command line of hey: closed loop, or a rate for each connection; HTTP/1.1.

Limits, read from its source (requester/requester.go, print.go):

- Requests ÷ connections is rounded down; `-q` is a rate for each connection; redirects are followed by default.
- At most 500 idle connections are kept open (`maxIdleConn`).
- It keeps the times of 1,000,000 answers in a process.
- `-o` takes any text as a template (Go's text/template) over its report, in all versions from 0.1.0 to 0.1.4; boom, its
  ancestor, does not. `TEMPLATE` prints every answer's time to the nanosecond, and exact counts.
"""

from __future__ import annotations

from collections.abc import Iterable

from benchkit.load.tools.hey.output import MAX_RESULTS, parse
from benchkit.load.tools.tool import (
    Objection,
    ParsedOutput,
    RequestRows,
    Tool,
    ToolOutput,
    either_time_or_count,
    header_lines,
    reserved_arguments,
    reserved_headers,
    whole_seconds,
)
from benchkit.models.load import Load

ROWS = RequestRows("hey")
"""The first million answers, printed by the template; failed requests have no row."""

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
    from benchkit.load.tools.hey.measure import measure  # noqa: PLC0415 - numpy is slow to import

    return measure(output)


def _check(load: Load) -> Iterable[Objection]:
    yield from either_time_or_count(load)
    yield from reserved_headers(load, "hey", "host", "user-agent")
    yield from whole_seconds(load.timeout_s, "timeout_s", "hey")
    yield from reserved_arguments(load, "hey", "-o")
    if load.requests is None:
        return
    if load.requests % load.connections:
        yield Objection(
            "requests", f"hey gives every connection the same number: not divisible by {load.connections} connections"
        )
    if load.requests > MAX_RESULTS:
        yield Objection("requests", f"one hey keeps {MAX_RESULTS:,} results and drops the rest: use more processes")


def _argv(load: Load, url: str) -> list[str]:
    argv = ["hey", "-c", str(load.connections), "-disable-redirects"]
    argv += ["-n", str(load.requests)] if load.duration_s is None else ["-z", f"{load.duration_s:g}s"]
    if load.histogram:
        argv += ["-o", TEMPLATE]
    if not load.keepalive:
        argv.append("-disable-keepalive")
    if load.method != "GET":
        argv += ["-m", load.method]
    if load.rate is not None:
        argv += ["-q", f"{load.rate / load.connections:.6g}"]
    if load.timeout_s is not None:
        argv += ["-t", f"{load.timeout_s:.0f}"]
    for line in header_lines(load):
        argv += ["-H", line]
    if load.body is not None:
        argv += ["-d", load.body]
    return [*argv, *load.extra_args, url]


TOOL = Tool(
    name="hey",
    binary="hey",
    argv=_argv,
    parse=parse,
    rows=ROWS,
    measure=_measure,
    options=frozenset(
        {"duration_s", "requests", "keepalive", "method", "headers", "body", "rate", "timeout_s", "extra_args"}
    ),
    check=_check,
)
