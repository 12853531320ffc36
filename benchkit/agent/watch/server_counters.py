"""What servers count themselves, read from the page that each has for that; a function for each kind of page."""

from __future__ import annotations

import json
import re
from typing import Callable, Dict, NamedTuple, Optional

from benchkit.agent.watch.collector import UnseenError, Values


class Asked(NamedTuple):
    """How often a page was asked for, and over how many connections."""

    requests: int
    connections: int


Read = Callable[[bytes, Asked], Values]
"""(page, what was asked for it to be had) → values. Raises UnseenError."""

NGINX = re.compile(
    rb"Active connections: (?P<active>\d+)\s+"
    rb"server accepts handled requests(?: request_time)?\s+(?P<accepts>\d+) (?P<handled>\d+) (?P<requests>\d+)(?: \d+)?\s+"
    rb"Reading: (?P<reading>\d+) Writing: (?P<writing>\d+) Waiting: (?P<waiting>\d+)"
)
"""ngx_http_stub_status_module; Tengine adds a column."""


def expvar(page: bytes, _asked: Asked) -> Values:
    """The page of a Go backend of ours: `requests`, and `runtime` as runtime/metrics has it."""
    document = _mapping(_document(page))
    runtime = _mapping(document.get("runtime", {}))
    found: Values = {}
    _put(found, "requests_total", None, document.get("requests"))
    _put(found, "goroutines", None, runtime.get("goroutines"))
    _put(found, "heap_bytes", None, runtime.get("heap_live_bytes"))
    _put(found, "gc_total", None, runtime.get("gc_cycles"))
    _put(found, "gc_pause_s_total", None, runtime.get("gc_pause_s"))
    return found


def node(page: bytes, _asked: Asked) -> Values:
    """The page of the Node backend: the same for each worker, and the delay of its event loop."""
    found: Values = {}
    for pid, each in _mapping(_mapping(_document(page)).get("workers", {})).items():
        worker = _mapping(each)
        _put(found, "requests_total", pid, worker.get("requests"))
        _put(found, "heap_bytes", pid, worker.get("heap_bytes"))
        _put(found, "gc_total", pid, worker.get("gc_total"))
        _put(found, "gc_pause_s_total", pid, worker.get("gc_pause_s"))
        _put(found, "event_loop_lag_s", pid, worker.get("event_loop_lag_p99_s"))
    return found


def nginx(page: bytes, asked: Asked) -> Values:
    """stub_status, less what asking for it adds: requests, and the connection over which it is asked now."""
    match = NGINX.search(page)
    if match is None:
        raise UnseenError(f"not the page of stub_status: {page[:60]!r}")
    count = {name: int(value) for name, value in match.groupdict().items()}
    return {
        ("requests_total", None): count["requests"] - asked.requests,
        ("connections_accepted_total", None): count["accepts"] - asked.connections,
        ("nginx_connections", "active"): count["active"] - 1,
        ("nginx_connections", "reading"): count["reading"],
        ("nginx_connections", "writing"): count["writing"] - 1,
        ("nginx_connections", "waiting"): count["waiting"],
    }


KINDS: Dict[str, Read] = {"expvar": expvar, "node": node, "nginx": nginx}


def _document(page: bytes) -> object:
    try:
        return json.loads(page)
    except ValueError as error:
        raise UnseenError(f"not JSON: {error}") from None


def _mapping(value: object) -> Dict[str, object]:
    if not isinstance(value, dict):
        raise UnseenError(f"no JSON object: {str(value)[:60]}")
    return value


def _put(found: Values, metric: str, instance: Optional[str], value: object) -> None:
    """Take a figure; one that is missing, as in a release of Go that does not have it, is left out."""
    if isinstance(value, (int, float)):
        found[metric, instance] = value
