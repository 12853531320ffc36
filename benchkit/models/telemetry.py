"""The metrics that are sampled on hosts: names and units of the `telemetry` table for checks, figures and notebooks.

Names follow Prometheus: counters, which only grow, end in `_total`, so that the increase over a window is the
difference of two samples, also with gaps between them; all other metrics are states at the instant of the sample.
Counters of a host start at 0 with the first sample of its trial; counters of a service, process or thread start with
it, which is within the trial too. Every host is sampled additionally just before the load starts and just after it
ends, so that the last sample before the window and the first one after it enclose the whole increase that the load
causes. Units are base units: seconds, bytes, counts.

An `instance` of null is the service or host as a whole. In one trial a metric has either instances or one value for the
whole: its sum over instances is that of the whole.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from benchkit.models.base import Frozen


class TelemetryMetric(Frozen):
    """One metric: its unit, the meaning of its `instance` (None: it has none), and a description."""

    name: str
    unit: str
    instance: str | None
    text: str
    sparse: bool = False
    """True for a figure that costs too much CPU time to be sampled at each edge of a slice: that of a server's own page
    at the interval, and context switches within a budget."""

    @property
    def grows(self) -> bool:
        """True for a counter, which only grows."""
        return self.name.endswith("_total")


HOST_METRICS: tuple[TelemetryMetric, ...] = (
    TelemetryMetric(name="cpu_user_s_total", unit="s", instance="core", text="CPU time in user mode, including nice"),
    TelemetryMetric(
        name="cpu_system_s_total", unit="s", instance="core", text="CPU time in the kernel, without interrupts"
    ),
    TelemetryMetric(name="cpu_irq_s_total", unit="s", instance="core", text="CPU time in hard interrupts"),
    TelemetryMetric(name="cpu_softirq_s_total", unit="s", instance="core", text="CPU time in soft interrupts"),
    TelemetryMetric(name="cpu_idle_s_total", unit="s", instance="core", text="idle time"),
    TelemetryMetric(name="cpu_iowait_s_total", unit="s", instance="core", text="idle time while waiting for a disk"),
    TelemetryMetric(
        name="cpu_steal_s_total", unit="s", instance="core", text="time that the hypervisor gave to other guests"
    ),
    TelemetryMetric(
        name="cpu_frequency_hz", unit="Hz", instance="core", text="clock rate, at three points of the window"
    ),
    TelemetryMetric(
        name="cpu_loop_s", unit="s", instance="core", text="CPU time of a small fixed loop: shows slow cores"
    ),
    TelemetryMetric(name="load1", unit="1", instance=None, text="load average over a minute"),
    TelemetryMetric(name="memory_available_bytes", unit="B", instance=None, text="memory available without swapping"),
    TelemetryMetric(name="memory_used_bytes", unit="B", instance=None, text="memory that is not available"),
    TelemetryMetric(name="swap_read_bytes_total", unit="B", instance=None, text="paging: read from swap"),
    TelemetryMetric(name="swap_written_bytes_total", unit="B", instance=None, text="paging: written to swap"),
    TelemetryMetric(
        name="major_page_faults_total", unit="1", instance=None, text="page faults that waited for a disk (pgmajfault)"
    ),
    TelemetryMetric(name="disk_read_bytes_total", unit="B", instance="device", text="read from disks"),
    TelemetryMetric(name="disk_written_bytes_total", unit="B", instance="device", text="written to disks"),
    TelemetryMetric(
        name="net_received_bytes_total", unit="B", instance="interface", text="received, including headers"
    ),
    TelemetryMetric(name="net_sent_bytes_total", unit="B", instance="interface", text="sent, including headers"),
    TelemetryMetric(name="net_received_packets_total", unit="1", instance="interface", text="packets received"),
    TelemetryMetric(name="net_sent_packets_total", unit="1", instance="interface", text="packets sent"),
    TelemetryMetric(name="net_received_drops_total", unit="1", instance="interface", text="received packets dropped"),
    TelemetryMetric(name="net_sent_drops_total", unit="1", instance="interface", text="packets dropped before sending"),
    TelemetryMetric(name="context_switches_total", unit="1", instance=None, text="context switches of all cores"),
    TelemetryMetric(name="interrupts_total", unit="1", instance=None, text="interrupts of all cores"),
    TelemetryMetric(
        name="tcp_sockets", unit="1", instance="state", text="established, in_use, orphaned, time_wait, allocated"
    ),
    TelemetryMetric(name="tcp_retransmits_total", unit="1", instance=None, text="retransmitted segments (RetransSegs)"),
    TelemetryMetric(name="listen_overflows_total", unit="1", instance=None, text="accept queue full (ListenOverflows)"),
    TelemetryMetric(
        name="listen_drops_total", unit="1", instance=None, text="connections dropped at a listener (ListenDrops)"
    ),
    TelemetryMetric(name="syn_cookies_sent_total", unit="1", instance=None, text="SYN cookies sent (SyncookiesSent)"),
    TelemetryMetric(name="req_queue_full_cookies_total", unit="1", instance=None, text="TCPReqQFullDoCookies"),
    TelemetryMetric(name="req_queue_full_drops_total", unit="1", instance=None, text="TCPReqQFullDrop"),
    TelemetryMetric(
        name="cgroup_periods_total", unit="1", instance=None, text="periods of the host's CPU quota (nr_periods)"
    ),
    TelemetryMetric(
        name="cgroup_throttled_total", unit="1", instance=None, text="periods throttled by the CPU quota (nr_throttled)"
    ),
    TelemetryMetric(name="cgroup_throttled_s_total", unit="s", instance=None, text="time throttled by the CPU quota"),
)
"""Metrics of a host as a whole; `service` is null."""

SERVICE_METRICS: tuple[TelemetryMetric, ...] = (
    TelemetryMetric(
        name="cpu_s_total", unit="s", instance=None, text="CPU time of the process tree, including ended children"
    ),
    TelemetryMetric(
        name="process_cpu_s_total", unit="s", instance="pid", text="CPU time of a running process of the tree"
    ),
    TelemetryMetric(
        name="thread_cpu_s_total", unit="s", instance="tid", text="CPU time of a thread (load generators only)"
    ),
    TelemetryMetric(name="processes", unit="1", instance=None, text="processes of the tree"),
    TelemetryMetric(name="threads", unit="1", instance=None, text="threads of the tree"),
    TelemetryMetric(name="rss_bytes", unit="B", instance=None, text="resident memory of the tree"),
    TelemetryMetric(name="open_files", unit="1", instance=None, text="open file descriptors of the tree"),
    TelemetryMetric(
        name="voluntary_switches_total", unit="1", instance=None, text="voluntary context switches", sparse=True
    ),
    TelemetryMetric(
        name="involuntary_switches_total",
        unit="1",
        instance=None,
        text="context switches forced by the kernel",
        sparse=True,
    ),
    TelemetryMetric(
        name="accept_queue", unit="1", instance="socket", text="connections waiting to be accepted (Recv-Q)"
    ),
    TelemetryMetric(name="accept_queue_limit", unit="1", instance="socket", text="maximum that may wait (Send-Q)"),
    TelemetryMetric(
        name="syn_flood_warnings_total",
        unit="1",
        instance=None,
        text="kernel's log, where it may be read: `Possible SYN flooding` on its port",
    ),
    TelemetryMetric(name="connections_established", unit="1", instance="port", text="at three points of the window"),
    TelemetryMetric(
        name="requests_total",
        unit="1",
        instance="process",
        text="requests served, as counted by the server",
        sparse=True,
    ),
    TelemetryMetric(
        name="connections_accepted_total", unit="1", instance="process", text="as counted by the server", sparse=True
    ),
    TelemetryMetric(
        name="tls_handshakes_total",
        unit="1",
        instance="kind",
        text="TLS handshakes, full and resumed, as the server counts",
        sparse=True,
    ),
    TelemetryMetric(name="goroutines", unit="1", instance=None, text="Go: goroutines", sparse=True),
    TelemetryMetric(
        name="goroutine_waits_total",
        unit="1",
        instance=None,
        text="Go: goroutines that were ready to run and waited for a thread, the sample of them that the runtime times",
        sparse=True,
    ),
    TelemetryMetric(
        name="goroutine_wait_s_total",
        unit="s",
        instance=None,
        text="Go: sum of these waits (/sched/latencies:seconds)",
        sparse=True,
    ),
    TelemetryMetric(name="heap_bytes", unit="B", instance="process", text="Go, Node: live heap", sparse=True),
    TelemetryMetric(name="gc_total", unit="1", instance="process", text="Go, Node: garbage collections", sparse=True),
    TelemetryMetric(
        name="gc_pause_s_total",
        unit="s",
        instance="process",
        text="Go, Node: pauses for garbage collection",
        sparse=True,
    ),
    TelemetryMetric(
        name="nginx_connections",
        unit="1",
        instance="state",
        text="active, reading, writing, waiting (stub_status)",
        sparse=True,
    ),
    TelemetryMetric(
        name="folder_bytes", unit="B", instance="folder", text="disk space of its own folder after the window"
    ),
    TelemetryMetric(
        name="event_loop_lag_s",
        unit="s",
        instance="process",
        text="Node: 99th percentile of the loop's delay",
        sparse=True,
    ),
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


def reducer_service(number: int) -> str:
    """Return the service name of the process that read the rows of a load generator beside it; in older runs only."""
    return f"reducer-{number}"


def neighbour_service(cell: int, service: str) -> str:
    """Return the name of another cell's service in the telemetry of a sliced trial; cells of a block count from 1."""
    return f"neighbour.{cell}.{service}"


def is_neighbour(service: str) -> bool:
    """Return True for the name of another cell's service, which has no load while the trial has."""
    return _NEIGHBOUR.match(service) is not None


def is_of_load_tool(service: str) -> bool:
    """Return True for the service name of a load generator or of the process that reads its rows."""
    return _OF_LOAD_TOOL.fullmatch(service) is not None


_NEIGHBOUR = re.compile(r"neighbour\.[0-9]+\.")
_OF_LOAD_TOOL = re.compile(r"(generator|reducer)-[0-9]+")
