"""Counters from servers' own pages: parsers of the formats, and polling in a thread that a slow server may delay."""

from __future__ import annotations

import http.client
import json
import re
import threading
import time
from pathlib import Path
from typing import Callable, Dict, Mapping, NamedTuple, Optional

from benchkit.agent.collector import UnavailableError, Values
from benchkit.agent.common import OperationError
from benchkit.agent.operations import CounterSource
from benchkit.agent.recorder import Recorder, SampleWriter, SamplingSchedule
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
"""(page, the agent's own requests) → values. Raises UnavailableError."""

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
    "event_loop_active_s_total": "event_loop_active_s",
}
QUIC = {"connections_accepted_total": "accepted", "quic_connections": "open"}
"""Metric → name on the page; a value that is missing, as in some releases of Go, is absent."""


def expvar(page: bytes, _own: BenchkitRequests) -> Values:
    """Parse the page of benchkit's Go backends: `runtime` has values of runtime/metrics, `connections` are QUIC's."""
    document = _mapping(_document(page))
    runtime = _mapping(document.get("runtime", {}))
    return {
        **_numbers(document, {"requests_total": "requests"}),
        **_numbers(runtime, GO_RUNTIME),
        **_waits(runtime.get("scheduler_latencies")),
        **_handshakes(document),
        **_numbers(_mapping(document.get("connections", {})), QUIC),
    }


def node(page: bytes, _own: BenchkitRequests) -> Values:
    """Parse the Node backend's page: the same values by worker, and the utilisation of its event loop."""
    document = _mapping(_document(page))
    found = _handshakes(document)
    for pid, worker in _mapping(document.get("workers", {})).items():
        found.update(_numbers(_mapping(worker), NODE_WORKER, pid))
    return found


def nginx(page: bytes, own: BenchkitRequests) -> Values:
    """Parse stub_status and subtract the agent's own requests and connections."""
    match = NGINX.search(page)
    if match is None:
        raise UnavailableError(f"not the page of stub_status: {page[:60]!r}")
    accepted, requests = map(int, match.groups())
    return {
        ("requests_total", None): requests - own.requests,
        ("connections_accepted_total", None): accepted - own.connections,
    }


PARSERS: Dict[str, Parser] = {"expvar": expvar, "node": node, "nginx": nginx}


def handshakes(logs: Mapping[str, str]) -> Values:
    """Return the number of TLS handshakes by kind; each is a line of two bytes in its log. Raises OSError."""
    return {("tls_handshakes_total", kind): Path(path).stat().st_size // LOG_LINE_BYTES for kind, path in logs.items()}


def _handshakes(document: Mapping[str, object]) -> Values:
    counts = _mapping(document.get("tls", {}))
    everything, resumed = counts.get("handshakes"), counts.get("resumed")
    if not isinstance(everything, int) or not isinstance(resumed, int):
        return {}
    return {("tls_handshakes_total", "full"): everything - resumed, ("tls_handshakes_total", "resumed"): resumed}


def _document(page: bytes) -> object:
    try:
        return json.loads(page)
    except ValueError as error:
        raise UnavailableError(f"not JSON: {error}") from None


def _mapping(value: object) -> Dict[str, object]:
    if not isinstance(value, dict):
        raise UnavailableError(f"not a JSON object: {str(value)[:60]}")
    return value


def _waits(histogram: object) -> Values:
    """Return number and sum of a histogram's times, each taken as the middle of its bucket.

    The width of Go's buckets is at most a quarter of their lower end, so the sum is exact to 12.5 %.
    """
    if not isinstance(histogram, list):
        return {}
    waits, seconds = 0, 0.0
    for each in histogram:
        bucket = _mapping(each)
        ends = [end for end in (bucket.get("low_s"), bucket.get("high_s")) if isinstance(end, (int, float))]
        count = bucket.get("count")
        if not ends or not isinstance(count, int):
            raise UnavailableError(f"not a bucket of a histogram: {str(each)[:60]}")
        waits += count
        seconds += count * sum(ends) / len(ends)
    return {("goroutine_waits_total", None): waits, ("goroutine_wait_s_total", None): seconds}


def _numbers(page: Mapping[str, object], names: Mapping[str, str], instance: Optional[str] = None) -> Values:
    values = {metric: page.get(name) for metric, name in names.items()}
    return {(metric, instance): value for metric, value in values.items() if isinstance(value, (int, float))}


class CounterPageClient:
    """The counter page of one server, requested at each interval over one connection."""

    def __init__(self, source: CounterSource) -> None:
        self._path = source.path
        self._connection = HttpConnection(source.at, TIMEOUT_S)
        self.own = BenchkitRequests(0, 0)
        """The agent's own requests and connections in the server's counters."""

    def get(self) -> bytes:
        """Return the page. Raises UnavailableError for another answer, OSError where the server cannot be reached."""
        try:
            return self._get()
        except (OperationError, http.client.HTTPException) as error:
            self.close()
            raise UnavailableError(f"the counter page is no complete HTTP response: {error!r}") from None
        except (UnavailableError, OSError):
            self.close()
            raise

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _get(self) -> bytes:
        if self._connection.sock is None:
            self._connection.connect()
            self.own = BenchkitRequests(self.own.requests, self.own.connections + 1)
        self._connection.request("GET", self._path)
        self.own = BenchkitRequests(self.own.requests + 1, self.own.connections)
        response = self._connection.getresponse()
        if response.status != OK:
            raise UnavailableError(f"the counter page answers {response.status}")
        return read_body(response, PAGE_BYTES)


class CounterPoller(threading.Thread):
    """Polls the counter page of one server."""

    def __init__(self, source: CounterSource, interval_s: float, recorder: Recorder, service: str) -> None:
        super().__init__(name=f"poller {service}", daemon=True)
        self.schedule = SamplingSchedule(interval_s)
        self._page = CounterPageClient(source)
        self._parse = PARSERS[source.kind]
        self._handshake_logs = source.handshake_logs
        self._recorder = recorder
        self._group = recorder.group(service)
        self._failures = 0
        self._last_failure = ""

    def run(self) -> None:
        """Poll at each tick of the schedule."""
        writer = SampleWriter(self._recorder, self.schedule.interval_ns)
        for tick in self.schedule.ticks():
            try:
                content = self._page.get()
                at_ns = time.monotonic_ns()  # a busy server reads its counters just before it answers
                values = {**self._parse(content, self._page.own), **handshakes(self._handshake_logs)}
                writer.write(at_ns, [(self._group, values)], tick)
            except (UnavailableError, OSError) as error:
                self._failures += 1
                self._last_failure = str(error)
        writer.close()
        self._page.close()

    def problem(self) -> Optional[str]:
        """Return the problem of polling as a sentence; None without one."""
        if not self._failures:
            return None
        times = "once" if self._failures == 1 else f"{self._failures} times"
        return f"{self._group.service}: its own counters could not be read {times}: {self._last_failure}"
