"""The counters on servers' own pages, with a parser for each format of page."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Callable, Dict, Mapping, NamedTuple, Optional

from benchkit.agent.watch.collector import UnavailableError, Values


class BenchkitRequests(NamedTuple):
    """The agent's requests for a page, and its connections."""

    requests: int
    connections: int


LOG_LINE_BYTES = 2
"""Size of a line in the logs of TLS handshakes (`configs/nginx/nginx.conf.j2`)."""

Parser = Callable[[bytes, BenchkitRequests], Values]
"""(page, the agent's own requests) → values. Raises UnavailableError."""

NGINX = re.compile(
    rb"Active connections: (?P<active>\d+)\s+"
    rb"server accepts handled requests(?: request_time)?\s+(?P<accepts>\d+) (?P<handled>\d+) (?P<requests>\d+)(?: \d+)?\s+"
    rb"Reading: (?P<reading>\d+) Writing: (?P<writing>\d+) Waiting: (?P<waiting>\d+)"
)
"""ngx_http_stub_status_module; Tengine adds a column."""


def expvar(page: bytes, _own: BenchkitRequests) -> Values:
    """Parse the page of benchkit's Go backends: `requests`, and `runtime` with values of runtime/metrics."""
    document = _mapping(_document(page))
    runtime = _mapping(document.get("runtime", {}))
    found: Values = {}
    _put(found, "requests_total", None, document.get("requests"))
    _put(found, "goroutines", None, runtime.get("goroutines"))
    _put(found, "heap_bytes", None, runtime.get("heap_live_bytes"))
    _put(found, "gc_total", None, runtime.get("gc_cycles"))
    _put(found, "gc_pause_s_total", None, runtime.get("gc_pause_s"))
    _put_waits(found, runtime.get("scheduler_latencies"))
    _put_handshakes(found, document)
    return found


def node(page: bytes, _own: BenchkitRequests) -> Values:
    """Parse the page of the Node backend: the same for each worker, and the lag of its event loop."""
    found: Values = {}
    document = _mapping(_document(page))
    _put_handshakes(found, document)
    for pid, each in _mapping(document.get("workers", {})).items():
        worker = _mapping(each)
        _put(found, "requests_total", pid, worker.get("requests"))
        _put(found, "heap_bytes", pid, worker.get("heap_bytes"))
        _put(found, "gc_total", pid, worker.get("gc_total"))
        _put(found, "gc_pause_s_total", pid, worker.get("gc_pause_s"))
        _put(found, "event_loop_lag_s", pid, worker.get("event_loop_lag_p99_s"))
    return found


def nginx(page: bytes, own: BenchkitRequests) -> Values:
    """Parse stub_status and subtract the agent's own requests and connections."""
    match = NGINX.search(page)
    if match is None:
        raise UnavailableError(f"not the page of stub_status: {page[:60]!r}")
    count = {name: int(value) for name, value in match.groupdict().items()}
    return {
        ("requests_total", None): count["requests"] - own.requests,
        ("connections_accepted_total", None): count["accepts"] - own.connections,
        ("nginx_connections", "active"): count["active"] - 1,
        ("nginx_connections", "reading"): count["reading"],
        ("nginx_connections", "writing"): count["writing"] - 1,
        ("nginx_connections", "waiting"): count["waiting"],
    }


PARSERS: Dict[str, Parser] = {"expvar": expvar, "node": node, "nginx": nginx}


def handshakes(logs: Mapping[str, str]) -> Values:
    """Return the TLS handshakes by their kind from logs with a line of two bytes for each. Raises OSError."""
    return {("tls_handshakes_total", kind): Path(path).stat().st_size // LOG_LINE_BYTES for kind, path in logs.items()}


def _put_handshakes(found: Values, document: Dict[str, object]) -> None:
    """Store the TLS handshakes of a page; nothing of a server without TLS."""
    if "tls" in document:
        counts = _mapping(document["tls"])
        everything, resumed = counts.get("handshakes"), counts.get("resumed")
        if isinstance(everything, int) and isinstance(resumed, int):
            found["tls_handshakes_total", "full"] = everything - resumed
            found["tls_handshakes_total", "resumed"] = resumed


def _document(page: bytes) -> object:
    try:
        return json.loads(page)
    except ValueError as error:
        raise UnavailableError(f"not JSON: {error}") from None


def _mapping(value: object) -> Dict[str, object]:
    if not isinstance(value, dict):
        raise UnavailableError(f"not a JSON object: {str(value)[:60]}")
    return value


def _put_waits(found: Values, histogram: object) -> None:
    """Store number and sum of the times that a histogram counts, each as the middle of its bucket.

    Go's buckets are at most a quarter wider than their lower end, so that the sum is exact within 12.5 %.
    """
    if not isinstance(histogram, list):
        return
    waits, seconds = 0, 0.0
    for each in histogram:
        bucket = _mapping(each)
        ends = [end for end in (bucket.get("low_s"), bucket.get("high_s")) if isinstance(end, (int, float))]
        count = bucket.get("count")
        if not ends or not isinstance(count, int):
            raise UnavailableError(f"not a bucket of a histogram: {str(each)[:60]}")
        waits += count
        seconds += count * sum(ends) / len(ends)
    found["goroutine_waits_total", None] = waits
    found["goroutine_wait_s_total", None] = seconds


def _put(found: Values, metric: str, instance: Optional[str], value: object) -> None:
    """Store a number; nothing where it is missing, as in some releases of Go."""
    if isinstance(value, (int, float)):
        found[metric, instance] = value
