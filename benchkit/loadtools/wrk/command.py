"""The command line of wrk: closed loop, HTTP/1.1.

Limits, read from its source (src/wrk.c):

- It opens connections ÷ threads, rounded down, in each thread.
- By itself it sends GET without a body. A script has it send other requests, and all headers: everybody on its host
  could read them as arguments.
- It calls `setup` of the script for each thread, `init` in the thread's own state, and `request` for every request
  (SCRIPTING). Requests are formatted once, by `wrk.format`, which adds Host, and the Content-Length of a body, also of
  an empty one.
- Certificates are never verified (src/ssl.c). A connection that is opened again resumes its session: `SSL_clear` keeps
  it. TLS version and ciphers cannot be set.
- A thread looks ten times a second (`RECORD_INTERVAL_MS`) at whether the time is over, and sends requests until then.
- Its summary has few percentiles and two decimals: a Lua script has it print its whole histogram and exact counters.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from benchkit.loadtools.tool import (
    ParsedOutput,
    RequestSupport,
    Target,
    TlsSupport,
    Tool,
    ToolOutput,
    UnsupportedField,
    body_file,
    body_files,
    has_body,
    reserved_arguments,
    whole_seconds,
)
from benchkit.loadtools.wrk.output import HISTOGRAM, parse
from benchkit.models.load import Load
from benchkit.models.request import Request, has_header

_START = """\
-- Requests of benchkit. Every thread draws them by their weights, with a seed of its own that is the same in every trial.
local threads = 0

function setup(thread)
   threads = threads + 1
   thread:set("benchkit_thread", threads)
end

local function content(name)
   local file = assert(io.open(name, "rb"))
   local bytes = file:read("*a")
   file:close()
   return bytes
end

local requests, limits = {}, {LIMITS}

function init()
   math.randomseed(benchkit_thread)
"""

_DRAW = """\
end

function request()
   local drawn = math.random()
   for number = 1, #limits do
      if drawn < limits[number] then
         return requests[number]
      end
   end
   return requests[#requests]
end
"""


def is_plain(load: Load) -> bool:
    """Return whether a load is one GET without a body, which wrk formats once and for all."""
    mix = load.request_mix
    return len(mix) == 1 and mix[0].method == "GET" and not has_body(mix[0])


def request_script(load: Load) -> str:
    """Return the script that has wrk send the requests of a load; a plain request is formatted only once."""
    if is_plain(load):
        sent = sent_headers(load, load.request_mix[0])
        return "".join(f"wrk.headers[{_lua_string(name)}] = {_lua_string(value)}\n" for name, value in sent)
    formats = [
        f"   requests[{number}] = wrk.format({_format_arguments(load, request)})\n"
        for number, request in enumerate(load.request_mix, 1)
    ]
    limits = ", ".join(f"{limit:.17g}" for limit in _limits(load.request_mix))
    return _START.replace("LIMITS", limits) + "".join(formats) + _DRAW


def sent_headers(load: Load, request: Request) -> Iterator[tuple[str, str]]:
    """Yield the headers of a request; `Host` in the spelling by which wrk knows that it need not add its own."""
    for name, value in request.headers.items():
        yield "Host" if name.lower() == "host" else name, str(value)
    if not load.keepalive and not has_header(request.headers, "connection"):
        yield "Connection", "close"


def _format_arguments(load: Load, request: Request) -> str:
    headers = ", ".join(f"[{_lua_string(name)}] = {_lua_string(value)}" for name, value in sent_headers(load, request))
    body = body_file(load, "wrk", request)
    empty = "nil" if request.content_length is None else '""'
    contents = f"content({_lua_string(body)})" if body else empty
    return f"{_lua_string(request.method)}, {_lua_string(request.path)}, {{{headers}}}, {contents}"


def _limits(mix: tuple[Request, ...]) -> Iterator[float]:
    """Yield the cumulative share of the weights up to each request, the last one being 1."""
    total = sum(request.weight for request in mix)
    reached = 0.0
    for request in mix:
        reached += request.weight
        yield reached / total


_ESCAPES: Mapping[str, str] = {'"': '\\"', "\\": "\\\\"}


def _lua_string(text: str) -> str:
    """Return visible ASCII text and blanks, as all parts of requests are, as a string of Lua."""
    return '"' + "".join(_ESCAPES.get(character, character) for character in text) + '"'


SCRIPT = "benchkit.lua"
"""Script with which wrk is started, in its working directory."""


def _measure(output: ToolOutput) -> ParsedOutput:
    from benchkit.loadtools.wrk.measure import measure  # noqa: PLC0415 - numpy is slow to import

    return measure(output)


def _validate(load: Load) -> Iterable[UnsupportedField]:
    yield from whole_seconds(load.duration_s, "duration_s", "wrk")
    yield from whole_seconds(load.timeout_s, "timeout_s", "wrk")
    if load.duration_s is None:
        yield UnsupportedField("duration_s", "wrk runs for a time, not for a count of requests")
    if load.connections < load.threads:
        yield UnsupportedField(
            "threads", f"{load.threads} threads need at least {load.threads} connections, not {load.connections}"
        )
    yield from reserved_arguments(load, "wrk", "-s", "--script")
    if (
        not load.histogram
        and _has_script(load)
        and any(each.startswith(("-s", "--script")) for each in load.extra_args)
    ):
        yield UnsupportedField("extra_args", "wrk takes one script, and benchkit sends these requests by it")


def _has_script(load: Load) -> bool:
    return load.histogram or not is_plain(load) or any(sent_headers(load, load.request_mix[0]))


def _files(load: Load, _target: Target) -> Mapping[str, bytes]:
    if not _has_script(load):
        return {}
    histogram = HISTOGRAM.read_text(encoding="utf-8") if load.histogram else ""
    return {SCRIPT: (request_script(load) + histogram).encode(), **body_files(load, "wrk")}


def _argv(load: Load, target: Target) -> list[str]:
    argv = ["wrk", "-v", f"-t{load.threads}", f"-c{load.connections}", f"-d{load.duration_s:.0f}s", "--latency"]
    if _has_script(load):
        argv += ["-s", SCRIPT]
    if load.timeout_s is not None:
        argv += ["--timeout", f"{load.timeout_s:.0f}s"]
    return [*argv, *load.extra_args, target.origin + (load.request_mix[0].path if is_plain(load) else "")]


TOOL = Tool(
    name="wrk",
    binary="wrk",
    argv=_argv,
    parse=parse,
    measure=_measure,
    options=frozenset({"threads", "duration_s", "keepalive", "timeout_s", "extra_args"}),
    requests=RequestSupport(differing=frozenset({"method", "path", "headers", "body"}), weights="drawn"),
    files=_files,
    validate=_validate,
    protocols=frozenset({"http1", "https1"}),
    tls=TlsSupport(verifies=False, sends_name=False, resumes=True),
    overrun_s=0.1,
)
