"""Counters from servers' own pages: parsers of the formats, and the requests."""

from __future__ import annotations

import http.client
import json
import re
from pathlib import Path
from typing import Any, Callable, Dict, Mapping, NamedTuple, Optional, Sequence

from benchkit.agent.common import OperationError, Values
from benchkit.agent.operations import CounterSource
from benchkit.agent.sockets import HttpConnection, read_body

OK = 200
TIMEOUT_S = 1.0
PAGE_BYTES = 1 << 20


class BenchkitRequests(NamedTuple):
    """The numbers of the agent's own requests and connections for a page."""

    requests: int
    connections: int


LOG_LINE_BYTES = 2
"""Size of a line in a log of TLS handshakes (`configs/nginx/nginx.conf.j2`)."""

Parser = Callable[[bytes, BenchkitRequests], Values]
"""(page, the agent's own requests) → values. Other pages raise AttributeError, KeyError, TypeError or ValueError."""

NGINX = re.compile(
    rb"server accepts handled requests(?: request_time)?\s+(\d+) \d+ (\d+)(?: \d+)?\s+Reading: \d+ Writing: \d+"
)
"""ngx_http_stub_status_module; Tengine adds a column."""

GO_RUNTIME = {
    "goroutines": "goroutines",
    "heap_bytes": "heap_live_bytes",
    "gc_total": "gc_cycles",
    "gc_pause_s_total": "gc_pause_s",
    "gc_cpu_s_total": "gc_cpu_s",
    "allocated_bytes_total": "allocated_bytes",
    "mutex_wait_s_total": "mutex_wait_s",
}
NODE_WORKER = {
    "requests_total": "requests",
    "heap_bytes": "heap_bytes",
    "gc_total": "gc_total",
    "gc_pause_s_total": "gc_pause_s",
}
QUIC = {"connections_accepted_total": "accepted", "quic_connections": "open"}
"""Metric → name on the page; a value that is missing, as in some releases of Go, is absent."""


def expvar(page: bytes, _own: BenchkitRequests) -> Values:
    """Parse the page of benchkit's Go backends: `runtime` has values of runtime/metrics, `connections` are QUIC's."""
    document = json.loads(page)
    runtime = document.get("runtime", {})
    return {
        **_numbers(document, {"requests_total": "requests"}),
        **_numbers(runtime, GO_RUNTIME),
        **_waits(runtime.get("scheduler_latencies") or ()),
        **_handshakes(document),
        **_numbers(document.get("connections", {}), QUIC),
    }


def node(page: bytes, _own: BenchkitRequests) -> Values:
    """Parse the Node backend's page: the same values by worker, and the utilisation of its event loop."""
    document = json.loads(page)
    found = _handshakes(document)
    for pid, worker in document.get("workers", {}).items():
        found.update(_numbers(worker, NODE_WORKER, pid))
    return found


def nginx(page: bytes, own: BenchkitRequests) -> Values:
    """Parse stub_status and subtract the agent's own requests and connections."""
    match = NGINX.search(page)
    if match is None:
        raise ValueError("not the page of stub_status")
    accepted, requests = map(int, match.groups())
    return {
        ("requests_total", None): requests - own.requests,
        ("connections_accepted_total", None): accepted - own.connections,
    }


PARSERS: Dict[str, Parser] = {"expvar": expvar, "node": node, "nginx": nginx}


def handshakes(logs: Mapping[str, str]) -> Values:
    """Return the number of TLS handshakes by kind; each is a line of two bytes in its log. Raises OSError."""
    return {("tls_handshakes_total", kind): Path(path).stat().st_size // LOG_LINE_BYTES for kind, path in logs.items()}


def _handshakes(document: Mapping[str, Any]) -> Values:
    counts = document.get("tls", {})
    if not {"handshakes", "resumed"} <= counts.keys():
        return {}
    full = counts["handshakes"] - counts["resumed"]
    return {("tls_handshakes_total", "full"): full, ("tls_handshakes_total", "resumed"): counts["resumed"]}


def _waits(histogram: Sequence[Mapping[str, Any]]) -> Values:
    """Return number and sum of a histogram's times, each taken as the middle of its bucket.

    The width of Go's buckets is at most a quarter of their lower end, so the sum is exact to 12.5 %.
    """
    seconds = 0.0
    for bucket in histogram:
        ends = [end for end in (bucket["low_s"], bucket["high_s"]) if end is not None]
        seconds += bucket["count"] * sum(ends) / len(ends)
    waits = sum(bucket["count"] for bucket in histogram)
    return {("goroutine_waits_total", None): waits, ("goroutine_wait_s_total", None): seconds} if histogram else {}


def _numbers(page: Mapping[str, Any], names: Mapping[str, str], instance: Optional[str] = None) -> Values:
    values = {metric: page.get(name) for metric, name in names.items()}
    return {(metric, instance): value for metric, value in values.items() if isinstance(value, (int, float))}


class CounterPage:
    """The counter page of one server, requested at each interval over one connection."""

    def __init__(self, source: CounterSource) -> None:
        self._path = source.path
        self._parse = PARSERS[source.kind]
        self._handshake_logs = source.handshake_logs
        self._connection = HttpConnection(source.at, TIMEOUT_S)
        self.close = self._connection.close
        self._own = BenchkitRequests(0, 0)
        """The agent's own requests and connections in the server's counters."""

    def sample(self) -> Values:
        """Return the counters. Raises OperationError where the server cannot be reached or answers otherwise."""
        try:
            return {**self._parse(self._get(), self._own), **handshakes(self._handshake_logs)}
        except (OperationError, OSError, http.client.HTTPException) as error:
            self.close()
            raise OperationError("unavailable", f"its own counters could not be read: {error!r}") from None
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise OperationError(
                "unavailable", f"its counter page has a form that benchkit does not know: {error!r}"
            ) from None

    def _get(self) -> bytes:
        if self._connection.sock is None:
            self._connection.connect()
            self._own = BenchkitRequests(self._own.requests, self._own.connections + 1)
        self._connection.request("GET", self._path)
        self._own = BenchkitRequests(self._own.requests + 1, self._own.connections)
        response = self._connection.getresponse()
        body = read_body(response, PAGE_BYTES)
        if response.status != OK:
            raise OperationError("no-page", f"the counter page answers {response.status}")
        return body
