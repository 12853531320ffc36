"""The Lua script with which wrk sends headers, and other requests than one GET. Pure.

wrk calls `setup` for each thread, then `init` in the thread's own state, and `request` for every request (SCRIPTING in
its source). Requests are formatted once, by `wrk.format`, which adds Host, and the Content-Length of a body, also of an
empty one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from benchkit.loadtools.requests import body_file, has_body
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
    """Return the script that has wrk send the requests of a load; a plain one is formatted once, as without it."""
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
    """Yield for each request the end of its part of the numbers from 0 to 1."""
    total = sum(request.weight for request in mix)
    reached = 0.0
    for request in mix:
        reached += request.weight
        yield reached / total


_ESCAPES: Mapping[str, str] = {'"': '\\"', "\\": "\\\\"}


def _lua_string(text: str) -> str:
    """Return visible ASCII text and blanks, as all parts of requests are, as a string of Lua."""
    return '"' + "".join(_ESCAPES.get(character, character) for character in text) + '"'
