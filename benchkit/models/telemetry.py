"""The metrics that are sampled on hosts: names and units of the `telemetry` table for checks, figures and notebooks.

Names follow Prometheus: counters, which only grow, end in `_total`. Their increase over a window is the difference of
two samples, also with gaps between them. All other metrics are states at the instant of the sample. Counters of a host
start at 0 with the first sample of its trial. Counters of a service, process or thread start with it, which is within
the trial too. Every host is sampled additionally just before the load starts and just after it ends. These two samples
enclose the whole increase that the load causes. Units are base units: seconds, bytes, counts.

An `instance` of null is the service or host as a whole. In one trial a metric has either instances or one value for the
whole: the sum over its instances is the value of the whole.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial


@dataclass(frozen=True)
class TelemetryMetric:
    """One metric: its unit, the meaning of its `instance` (None: it has none), and a description."""

    name: str
    unit: str
    instance: str | None
    text: str
    sparse: bool = False
    """True for a figure that costs too much CPU time to be sampled at each edge of a slice. A server's own page is read
    at the interval, and context switches before and after the load."""

    @property
    def grows(self) -> bool:
        """True for a counter, which only grows."""
        return self.name.endswith("_total")


HOST_METRICS: tuple[TelemetryMetric, ...] = (
    TelemetryMetric("cpu_user_s_total", "s", "core", "CPU time in user mode, including nice"),
    TelemetryMetric("cpu_system_s_total", "s", "core", "CPU time in the kernel, without interrupts"),
    TelemetryMetric("cpu_irq_s_total", "s", "core", "CPU time in hard interrupts"),
    TelemetryMetric("cpu_softirq_s_total", "s", "core", "CPU time in soft interrupts"),
    TelemetryMetric("cpu_idle_s_total", "s", "core", "idle time"),
    TelemetryMetric("cpu_iowait_s_total", "s", "core", "idle time while waiting for a disk"),
    TelemetryMetric("cpu_steal_s_total", "s", "core", "time that the hypervisor gave to other guests"),
    TelemetryMetric("cpu_frequency_hz", "Hz", "core", "clock rate, at three points of the window"),
    TelemetryMetric("cpu_loop_s", "s", "core", "CPU time of a small fixed loop: shows slow cores"),
    TelemetryMetric("load1", "1", None, "load average over a minute"),
    TelemetryMetric("memory_used_bytes", "B", None, "memory that is not available"),
    TelemetryMetric("disk_read_bytes_total", "B", "device", "read from disks"),
    TelemetryMetric("disk_written_bytes_total", "B", "device", "written to disks"),
    TelemetryMetric("net_received_bytes_total", "B", "interface", "received, including headers"),
    TelemetryMetric("net_sent_bytes_total", "B", "interface", "sent, including headers"),
    TelemetryMetric("context_switches_total", "1", None, "context switches of all cores"),
    TelemetryMetric("tcp_sockets", "1", "state", "established, in_use, orphaned, time_wait, allocated"),
    TelemetryMetric("tcp_active_opens_total", "1", None, "connections opened by programs of the host (ActiveOpens)"),
    TelemetryMetric("listen_overflows_total", "1", None, "accept queue full (ListenOverflows)"),
    TelemetryMetric("listen_drops_total", "1", None, "connections dropped at a listener (ListenDrops)"),
    TelemetryMetric("req_queue_full_cookies_total", "1", None, "TCPReqQFullDoCookies"),
    TelemetryMetric("req_queue_full_drops_total", "1", None, "TCPReqQFullDrop"),
    TelemetryMetric("cgroup_periods_total", "1", None, "periods of the host's CPU quota (nr_periods)"),
    TelemetryMetric("cgroup_throttled_total", "1", None, "periods throttled by the CPU quota (nr_throttled)"),
    TelemetryMetric("cgroup_throttled_s_total", "s", None, "time throttled by the CPU quota"),
)
"""Metrics of a host as a whole; `service` is null."""

_sparse = partial(TelemetryMetric, sparse=True)

SERVICE_METRICS: tuple[TelemetryMetric, ...] = (
    TelemetryMetric("cpu_s_total", "s", None, "CPU time of its control group, else of its process tree"),
    TelemetryMetric("user_cpu_s_total", "s", None, "its part in user mode; the rest is in the kernel"),
    TelemetryMetric("quota_periods_total", "1", None, "periods of its own CPU quota (nr_periods)"),
    TelemetryMetric("quota_throttled_total", "1", None, "periods throttled by that quota (nr_throttled)"),
    TelemetryMetric("process_cpu_s_total", "s", "pid", "CPU time of a running process of the tree"),
    TelemetryMetric("thread_cpu_s_total", "s", "tid", "CPU time of a thread (load generators only)"),
    TelemetryMetric("run_queue_s_total", "s", None, "time that its threads were ready to run and waited for a CPU"),
    TelemetryMetric("processes", "1", None, "processes of the tree"),
    TelemetryMetric("rss_bytes", "B", None, "resident memory of the tree"),
    _sparse("voluntary_switches_total", "1", None, "voluntary context switches"),
    _sparse("involuntary_switches_total", "1", None, "context switches forced by the kernel"),
    _sparse("storage_written_bytes_total", "B", None, "written to files of disks, not yet to the disk (/proc/PID/io)"),
    TelemetryMetric("accept_queue", "1", "socket", "connections waiting to be accepted (Recv-Q)"),
    TelemetryMetric("accept_queue_limit", "1", "socket", "maximum that may wait (Send-Q)"),
    TelemetryMetric("connections_established", "1", "port", "at three points of the window"),
    _sparse("requests_total", "1", "process", "requests served, as counted by the server"),
    _sparse("connections_accepted_total", "1", "process", "as counted by the server"),
    _sparse("quic_connections", "1", None, "open ones of HTTP/3, as the server counts"),
    _sparse("tls_handshakes_total", "1", "kind", "TLS handshakes, full and resumed, as the server counts"),
    _sparse("goroutines", "1", None, "Go: goroutines"),
    _sparse(
        "goroutine_waits_total",
        "1",
        None,
        "Go: goroutines that were ready to run and waited for a thread, the sample of them that the runtime times",
    ),
    _sparse("goroutine_wait_s_total", "s", None, "Go: sum of these waits (/sched/latencies:seconds)"),
    _sparse("heap_bytes", "B", "process", "Go, Node: live heap"),
    _sparse("gc_total", "1", "process", "Go, Node: garbage collections"),
    _sparse("gc_pause_s_total", "s", "process", "Go, Node: pauses for garbage collection"),
    _sparse("gc_cpu_s_total", "s", "process", "Go: CPU time of garbage collection (/cpu/classes/gc/total)"),
    _sparse("allocated_bytes_total", "B", "process", "Go: allocated on the heap (/gc/heap/allocs)"),
    _sparse("mutex_wait_s_total", "s", "process", "Go: waits of goroutines for locks (/sync/mutex/wait/total)"),
    TelemetryMetric("folder_bytes", "B", "folder", "disk space of its own folder after the window"),
)
"""Metrics of a service (a process tree); load generators are services named by `generator_service`."""

SAMPLE_SHARES = (0.25, 0.5, 0.75)
"""Instants at which connections and clock rates are sampled, as shares of the measured window."""
SAMPLE_TIMES_S = (0.25, 1.0, 4.0, 16.0, 64.0, 256.0)
"""The same instants in seconds, for a window of unknown length: those that it contains are used."""

TELEMETRY_METRICS: Mapping[str, TelemetryMetric] = {metric.name: metric for metric in (*HOST_METRICS, *SERVICE_METRICS)}


AGENT_SERVICE = "agent"
"""Service name of benchkit's own agent in the telemetry."""


def generator_service(number: int) -> str:
    """Return the service name of a load generator in the telemetry; numbers count from 1 over all load hosts."""
    return f"generator-{number}"


def neighbour_service(cell: int, service: str) -> str:
    """Return the name of another cell's service in the telemetry of a sliced trial; cells of a block count from 1."""
    return f"neighbour.{cell}.{service}"


def is_neighbour(service: str) -> bool:
    """Return True for the name of another cell's service, which has no load while the trial has."""
    return _NEIGHBOUR.match(service) is not None


def is_of_load_tool(service: str) -> bool:
    """Return True for the service name of a load generator."""
    return _GENERATOR.fullmatch(service) is not None


_NEIGHBOUR = re.compile(r"neighbour\.[0-9]+\.")
_GENERATOR = re.compile(r"generator-[0-9]+")
