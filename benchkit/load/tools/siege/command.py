"""The command line of siege: closed loop, one thread per user, HTTP/1.1.

Limits, read from its source (src/main.c, browser.c), and how the configuration file deals with them:

- siege stops after 1,024 failed sockets, allows 255 users, parses HTML for further requests and follows redirects: the
  configuration raises the limits and turns the rest off.
- `verbose` has it print a row for each answer, under a lock that all users share, which lowers its rate. In a run by
  time users are cancelled at the end; one that is printing loses the content of stdio's buffer, up to 4 kB or 75 rows.
- `-t` ends at a whole second of the clock, up to a second early.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from benchkit.load.tools.siege.output import parse
from benchkit.load.tools.tool import (
    Objection,
    RequestRows,
    Tool,
    either_time_or_count,
    header_lines,
    reserved_headers,
    whole_seconds,
)
from benchkit.models.load import Load

CONFIG = "siege.conf"
_METHODS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


def _check(load: Load) -> Iterable[Objection]:
    yield from either_time_or_count(load)
    yield from reserved_headers(load, "siege", "user-agent")
    yield from whole_seconds(load.duration_s, "duration_s", "siege")
    yield from whole_seconds(load.timeout_s, "timeout_s", "siege")
    if load.requests is not None and load.requests % load.connections:
        yield Objection(
            "requests", f"siege gives every user the same number: not divisible by {load.connections} connections"
        )
    if load.method not in _METHODS:
        yield Objection("method", f"siege sends {', '.join(sorted(_METHODS))}, not {load.method}")
    if load.body is not None and (load.method == "GET" or "\n" in load.body):
        yield Objection("body", "siege sends a body of one line, and none with GET")


def _files(load: Load, _url: str) -> Mapping[str, str]:
    """Return the configuration file: the load and nothing else, and no log outside the working directory."""
    options = {
        "limit": max(load.connections, 255),
        "failures": 1_000_000_000,
        "connection": "keep-alive" if load.keepalive else "close",
        "protocol": "HTTP/1.1",
        "verbose": "true" if load.histogram else "false",
        "color": "off",
        "json_output": "false",
        "logging": "false",
        "show-logfile": "false",
        "parser": "false",
        "follow-location": "false",
        "cache": "false",
        "benchmark": "true",
        "chunked": "true",
        "accept-encoding": "identity",
        **({} if load.timeout_s is None else {"timeout": f"{load.timeout_s:.0f}"}),
    }
    return {CONFIG: "".join(f"{name} = {value}\n" for name, value in options.items())}


def _argv(load: Load, url: str) -> list[str]:
    # siege always writes .siege/ into its home directory.
    argv = ["env", "HOME=.", "siege", f"--rc={CONFIG}", "-b", f"-c{load.connections}"]
    if load.duration_s is not None:
        argv.append(f"-t{load.duration_s:.0f}S")
    elif load.requests is not None:
        argv.append(f"-r{load.requests // load.connections}")
    for line in header_lines(load):
        argv += ["-H", line]
    target = url if load.method == "GET" else f"{url} {load.method} {load.body or ''}".rstrip()
    return [*argv, *load.extra_args, target]


ROWS = RequestRows("siege")
"""Every answer, in steps of 10 ms; failed requests have no row, and in JSON mode there are no rows."""


TOOL = Tool(
    name="siege",
    binary="siege",
    argv=_argv,
    parse=parse,
    rows=ROWS,
    summary="stderr",
    options=frozenset({"duration_s", "requests", "keepalive", "method", "headers", "body", "timeout_s", "extra_args"}),
    files=_files,
    check=_check,
    thread_per_connection=True,
)
