"""The command line of h2load (nghttp2): closed loop, or a constant rate for each client; used over HTTP/1.1.

Limits, read from its source (src/h2load.cc):

- Requests and clients that cannot be divided by the threads are given to the first threads.
- `--log-file` has a row for every request that ended, to the microsecond, each written with a system call of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from benchkit.load.tools.h2load.output import parse
from benchkit.load.tools.tool import (
    Objection,
    RequestRows,
    Tool,
    either_time_or_count,
    header_lines,
    reserved_arguments,
    reserved_headers,
    whole_seconds,
)
from benchkit.models.load import Load

BODY = "h2load.body"
"""File with the body of requests."""


def _check(load: Load) -> Iterable[Objection]:
    yield from either_time_or_count(load)
    yield from reserved_headers(load, "h2load", "host")
    yield from whole_seconds(load.timeout_s, "timeout_s", "h2load")
    yield from reserved_arguments(load, "h2load", "--log-file")
    if not load.keepalive:
        yield Objection("keepalive", "h2load always keeps its connections open")
    if load.connections < load.threads:
        yield Objection(
            "threads", f"{load.threads} threads need at least {load.threads} connections, not {load.connections}"
        )
    if load.requests is not None and load.requests < load.connections:
        yield Objection("requests", f"h2load needs at least one for each of {load.connections} connections")
    if load.body is not None and load.method == "GET":
        yield Objection("body", "h2load sends no body with GET: set another method")


def _files(load: Load, _url: str) -> Mapping[str, str]:
    return {} if load.body is None else {BODY: load.body}


def _argv(load: Load, url: str) -> list[str]:
    argv = ["h2load", "--h1", f"-c{load.connections}", f"-t{load.threads}"]
    argv.append(f"-n{load.requests}" if load.duration_s is None else f"-D{load.duration_s:g}s")
    if load.histogram:
        argv.append("--log-file=/dev/stdout")
    if load.rate is not None:
        argv.append(f"--rps={load.rate / load.connections:.6g}")
    if load.timeout_s is not None:
        argv.append(f"-N{load.timeout_s:.0f}s")
    if load.body is not None:
        argv.append(f"-d{BODY}")
    for line in [*([] if load.method == "GET" else [f":method: {load.method}"]), *header_lines(load)]:
        argv += ["-H", line]
    return [*argv, *load.extra_args, url]


ROWS = RequestRows("h2load", covers="request")
"""Every request that ended, in microseconds from sending it; failed streams are counted as errors."""


TOOL = Tool(
    name="h2load",
    binary="h2load",
    argv=_argv,
    parse=parse,
    rows=ROWS,
    options=frozenset(
        {"threads", "duration_s", "requests", "method", "headers", "body", "rate", "timeout_s", "extra_args"}
    ),
    files=_files,
    check=_check,
)
