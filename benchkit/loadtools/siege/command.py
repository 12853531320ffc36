"""The command line of siege: closed loop, one thread per user, HTTP/1.1.

Limits, read from its source (src/main.c, browser.c, ChangeLog), and how the configuration file deals with them:

- siege stops after 1,024 failed sockets, allows 255 users, parses HTML for further requests and follows redirects. The
  configuration raises the limits and turns the rest off.
- `verbose` has it print a row for each answer, under a lock that all users share, which lowers its rate. In a run by
  time users are cancelled at the end. Each that is printing loses the content of stdio's buffer, up to 4 kB or 75 rows.
  It counts an answer after its row: a user cancelled between the two leaves one row more than the summary has answers.
- Certificates are never verified. Each connection has its own TLS context (src/ssl.c), so that none resumes a session.
- Before 4.1.4 users are cancelled wherever they are (`PTHREAD_CANCEL_ASYNCHRONOUS`). One that holds a lock of the C
  library then leaves it locked, and a run by time may never end. Later releases cancel between two requests.
- `-t` ends at a whole second of the clock, up to a second early.
- Where it has more users than its limit, it warns and sleeps for 10 s before its start (src/main.c).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from benchkit.loadtools.siege.output import parse
from benchkit.loadtools.tool import (
    RequestPart,
    RequestRows,
    RequestSupport,
    Target,
    TlsSupport,
    Tool,
    UnsupportedField,
    body_file,
    body_files,
    either_time_or_count,
    has_body,
    header_lines,
    repeated_requests,
    whole_seconds,
)
from benchkit.models.load import Load
from benchkit.models.request import Request

CONFIG = "siege.conf"
URLS = "siege.urls"
"""File with the URLs of several requests."""
_METHODS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


def _validate(load: Load) -> Iterable[UnsupportedField]:
    yield from either_time_or_count(load)
    yield from whole_seconds(load.duration_s, "duration_s", "siege")
    yield from whole_seconds(load.timeout_s, "timeout_s", "siege")
    if load.request_count is not None and load.request_count % load.connections:
        yield UnsupportedField(
            "request_count", f"siege gives every user the same number: not divisible by {load.connections} connections"
        )


def _validate_request(request: Request) -> Iterable[tuple[RequestPart, str]]:
    if request.method not in _METHODS:
        yield "method", f"siege sends {', '.join(sorted(_METHODS))}, not {request.method}"
    if has_body(request) and request.method == "GET":
        yield "body", "siege sends no body with GET"
    if b"\0" in (request.content or b""):
        yield "body", "siege ends a body at its first zero byte"


def _files(load: Load, target: Target) -> Mapping[str, bytes]:
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
    urls = "".join(f"{_line(load, request, target)}\n" for request in repeated_requests(load))
    return {
        CONFIG: "".join(f"{name} = {value}\n" for name, value in options.items()).encode(),
        **({URLS: urls.encode()} if len(load.request_mix) > 1 else {}),
        **body_files(load, "siege"),
    }


def _line(load: Load, request: Request, target: Target) -> str:
    """Return a request as siege reads it: `URL`, `URL METHOD`, or `URL METHOD <file of the body`."""
    words = [target.origin + request.path]
    if request.method != "GET":
        words.append(request.method)
    if body := body_file(load, "siege", request):
        words.append(f"<{body}")
    return " ".join(words)


def _argv(load: Load, target: Target) -> list[str]:
    # siege always writes .siege/ into its home directory.
    argv = ["env", "HOME=.", "siege", f"--rc={CONFIG}", "-b", f"-c{load.connections}"]
    if load.duration_s is not None:
        argv.append(f"-t{load.duration_s:.0f}S")
    elif load.request_count is not None:
        argv.append(f"-r{load.request_count // load.connections}")
    for line in header_lines(load.request_mix[0]):
        argv += ["-H", line]
    mix = load.request_mix
    where = [f"-f{URLS}"] if len(mix) > 1 else [_line(load, mix[0], target)]
    return [*argv, *load.extra_args, *where]


ROWS = RequestRows("siege")
"""Every answer, in steps of 10 ms; failed requests have no row, and in JSON mode there are no rows."""


TOOL = Tool(
    name="siege",
    binary="siege",
    argv=_argv,
    parse=parse,
    rows=ROWS,
    summary="stderr",
    options=frozenset({"duration_s", "request_count", "keepalive", "timeout_s", "extra_args"}),
    requests=RequestSupport(
        differing=frozenset({"method", "path", "body"}),
        weights="in turn by connection",
        own_headers=("user-agent",),
        validate=_validate_request,
    ),
    files=_files,
    validate=_validate,
    own_s=12.0,
    thread_per_connection=True,
    protocols=frozenset({"http1", "https1"}),
    tls=TlsSupport(verifies=False, sends_name=False, resumes=False),
)
