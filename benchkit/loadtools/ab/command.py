"""The command line of ab (ApacheBench): closed loop, one thread, HTTP/1.0.

Limits, read from its source (support/ab.c):

- At most 20,000 concurrent connections.
- A run that `-t` ends is also ended by `-n`, which is 50,000 where it is not set.
- A body (`-p`) is sent with any method (`-m`), and with a Content-Type: `text/plain` unless `-T` sets another.
  It adds Content-Length then, and to no other request.
- Certificates are never verified, and every connection has a full handshake.
- `-g` writes every request's time at the end; here to `/dev/stdout`, where the reducer reads the rows.
"""

from __future__ import annotations

from collections.abc import Iterable

from benchkit.loadtools.ab.output import parse
from benchkit.loadtools.tool import (
    RequestRows,
    Target,
    TlsSupport,
    Tool,
    UnsupportedField,
    body_file,
    body_files,
    either_time_or_count,
    header_lines,
    reserved_arguments,
    whole_seconds,
    with_zero_length,
)
from benchkit.models.load import Load
from benchkit.models.request import has_header

MAX_CONCURRENCY = 20_000
"""MAX_CONCURRENCY in ab.c."""
MAX_RATE = 100_000
"""Highest rate assumed for one ab, for `-n` in a run by time; ab reserves 40 bytes for each request."""


def _validate(load: Load) -> Iterable[UnsupportedField]:
    yield from either_time_or_count(load)
    yield from whole_seconds(load.duration_s, "duration_s", "ab")
    yield from whole_seconds(load.timeout_s, "timeout_s", "ab")
    if load.connections > MAX_CONCURRENCY:
        yield UnsupportedField("connections", f"one ab opens at most {MAX_CONCURRENCY} connections: use more processes")
    if load.request_count is not None and load.request_count < load.connections:
        yield UnsupportedField("request_count", f"ab needs at least one for each of {load.connections} connections")
    yield from reserved_arguments(load, "ab", "-g")


def _validate_target(load: Load, target: Target) -> Iterable[str]:
    if target.server_name is not None and has_header(load.request_mix[0].headers, "host"):
        yield "tls.server_name: ab asks for the name in the header Host, which the load sets"


def _argv(load: Load, target: Target) -> list[str]:
    (request,) = load.request_mix
    argv = ["ab", "-q", "-r", "-l", f"-c{load.connections}"]  # -l: answers may differ in length
    if load.request_count is not None:
        argv.append(f"-n{load.request_count}")
    elif load.duration_s is not None:
        argv += [f"-t{load.duration_s:.0f}", f"-n{load.duration_s * MAX_RATE:.0f}"]  # -t sets -n, so it comes first
    if load.histogram:
        argv += ["-g", "/dev/stdout"]
    if load.keepalive:
        argv.append("-k")
    if body := body_file(load, "ab", request):
        argv += ["-p", body]  # it sets POST, so it comes first
    if request.method != "GET" or body:
        argv += ["-m", request.method]
    if load.timeout_s is not None:
        argv.append(f"-s{load.timeout_s:.0f}")
    for line in header_lines(with_zero_length(request)):
        name, _, value = line.partition(": ")
        argv += ["-T", value] if body and name.lower() == "content-type" else ["-H", line]
    if target.server_name is not None:
        argv += ["-H", f"Host: {target.server_name}"]  # ab takes the name for the handshake from it
    return [*argv, *load.extra_args, target.origin + request.path]


ROWS = RequestRows("ab", has_status=False)
"""Every request that ended, in whole milliseconds; failed connections have no row."""


TOOL = Tool(
    name="ab",
    binary="ab",
    argv=_argv,
    parse=parse,
    rows=ROWS,
    options=frozenset({"duration_s", "request_count", "keepalive", "timeout_s", "extra_args"}),
    files=lambda load, _target: body_files(load, "ab"),
    validate=_validate,
    single_threaded=True,
    validate_target=_validate_target,
    protocols=frozenset({"http1", "https1"}),
    tls=TlsSupport(verifies=False, sends_name=True, resumes=False),
)
