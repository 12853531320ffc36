"""What is watched on hosts: the vocabulary of the `telemetry` table, which checks, figures and notebooks read.

Names follow Prometheus: what only grows ends in `_total`, so that the increase over a window is the difference of two
samples, whatever gaps lie between; everything else is a state at the instant of the sample. What a host counts begins at
0 with the first sample of its trial; what a service, process or thread counts, with its own start, which is in the trial
too. Every host is looked at once more just before the load begins and just after it ends, so that the last sample before
the window and the first one after it have between them all that the load made counters grow by. Units are the base ones:
seconds, bytes, counts.

An `instance` that is null is the service or host as a whole. A metric has instances or is of the whole, never both in
one trial: its sum over instances is that of the whole.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from benchkit.models.base import Frozen


class TelemetryMetric(Frozen):
    """One kind of measurement: its unit, what its `instance` names (None: it has none), what it is."""

    name: str
    unit: str
    instance: str | None
    text: str

    @property
    def grows(self) -> bool:
        """Whether it is a counter, which only grows."""
        return self.name.endswith("_total")


HOST_METRICS: tuple[TelemetryMetric, ...] = (
    TelemetryMetric(name="cpu_user_s_total", unit="s", instance="core", text="CPU time in user mode, niced included"),
    TelemetryMetric(
        name="cpu_system_s_total", unit="s", instance="core", text="CPU time in the kernel, without interrupts"
    ),
    TelemetryMetric(name="cpu_irq_s_total", unit="s", instance="core", text="CPU time in hard interrupts"),
    TelemetryMetric(name="cpu_softirq_s_total", unit="s", instance="core", text="CPU time in soft interrupts"),
    TelemetryMetric(name="cpu_idle_s_total", unit="s", instance="core", text="time without work"),
    TelemetryMetric(
        name="cpu_iowait_s_total", unit="s", instance="core", text="time without work while a disk was waited for"
    ),
    TelemetryMetric(
        name="cpu_steal_s_total", unit="s", instance="core", text="time that the hypervisor gave to others"
    ),
    TelemetryMetric(
        name="cpu_frequency_hz", unit="Hz", instance="core", text="clock rate, at three points of the window"
    ),
    TelemetryMetric(
        name="cpu_loop_s", unit="s", instance="core", text="CPU time of a small fixed loop: how slow the core is"
    ),
    TelemetryMetric(name="load1", unit="1", instance=None, text="load average over a minute"),
    TelemetryMetric(
        name="memory_available_bytes", unit="B", instance=None, text="memory that can be had without swapping"
    ),
    TelemetryMetric(name="memory_used_bytes", unit="B", instance=None, text="memory less what is available"),
    TelemetryMetric(name="disk_read_bytes_total", unit="B", instance="device", text="read from disks"),
    TelemetryMetric(name="disk_written_bytes_total", unit="B", instance="device", text="written to disks"),
    TelemetryMetric(name="net_received_bytes_total", unit="B", instance="interface", text="received, headers included"),
    TelemetryMetric(name="net_sent_bytes_total", unit="B", instance="interface", text="sent, headers included"),
    TelemetryMetric(name="net_received_packets_total", unit="1", instance="interface", text="packets received"),
    TelemetryMetric(name="net_sent_packets_total", unit="1", instance="interface", text="packets sent"),
    TelemetryMetric(name="net_received_drops_total", unit="1", instance="interface", text="received packets dropped"),
    TelemetryMetric(
        name="net_sent_drops_total", unit="1", instance="interface", text="packets dropped before they were sent"
    ),
    TelemetryMetric(name="context_switches_total", unit="1", instance=None, text="context switches of all cores"),
    TelemetryMetric(name="interrupts_total", unit="1", instance=None, text="interrupts of all cores"),
    TelemetryMetric(
        name="tcp_sockets", unit="1", instance="state", text="established, in_use, orphaned, time_wait, allocated"
    ),
    TelemetryMetric(name="tcp_retransmits_total", unit="1", instance=None, text="segments sent again (RetransSegs)"),
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
        name="cgroup_throttled_total", unit="1", instance=None, text="periods cut by the CPU quota (nr_throttled)"
    ),
    TelemetryMetric(name="cgroup_throttled_s_total", unit="s", instance=None, text="time waited for the CPU quota"),
)
"""Of a host as a whole; `service` is null."""

SERVICE_METRICS: tuple[TelemetryMetric, ...] = (
    TelemetryMetric(
        name="cpu_s_total", unit="s", instance=None, text="CPU time of the process tree, ended children included"
    ),
    TelemetryMetric(
        name="process_cpu_s_total", unit="s", instance="pid", text="CPU time of a living process of the tree"
    ),
    TelemetryMetric(
        name="thread_cpu_s_total", unit="s", instance="tid", text="CPU time of a thread (load generators only)"
    ),
    TelemetryMetric(name="processes", unit="1", instance=None, text="processes of the tree"),
    TelemetryMetric(name="threads", unit="1", instance=None, text="threads of the tree"),
    TelemetryMetric(name="rss_bytes", unit="B", instance=None, text="resident memory of the tree"),
    TelemetryMetric(name="open_files", unit="1", instance=None, text="open file descriptors of the tree"),
    TelemetryMetric(name="voluntary_switches_total", unit="1", instance=None, text="context switches to wait"),
    TelemetryMetric(
        name="involuntary_switches_total", unit="1", instance=None, text="context switches forced by the kernel"
    ),
    TelemetryMetric(
        name="accept_queue", unit="1", instance="socket", text="connections that wait to be accepted (Recv-Q)"
    ),
    TelemetryMetric(name="accept_queue_limit", unit="1", instance="socket", text="most that may wait (Send-Q)"),
    TelemetryMetric(name="connections_established", unit="1", instance="port", text="at three points of the window"),
    TelemetryMetric(
        name="requests_total", unit="1", instance="process", text="requests served, by the server's own count"
    ),
    TelemetryMetric(name="connections_accepted_total", unit="1", instance="process", text="by the server's own count"),
    TelemetryMetric(name="goroutines", unit="1", instance=None, text="Go: goroutines"),
    TelemetryMetric(name="heap_bytes", unit="B", instance="process", text="Go, Node: live heap"),
    TelemetryMetric(name="gc_total", unit="1", instance="process", text="Go, Node: garbage collections"),
    TelemetryMetric(name="gc_pause_s_total", unit="s", instance="process", text="Go, Node: time stopped for them"),
    TelemetryMetric(
        name="nginx_connections", unit="1", instance="state", text="active, reading, writing, waiting (stub_status)"
    ),
    TelemetryMetric(
        name="folder_bytes", unit="B", instance="folder", text="disk space of its own folder after the window"
    ),
    TelemetryMetric(
        name="event_loop_lag_s", unit="s", instance="process", text="Node: 99th percentile of the loop's delay"
    ),
)
"""Of a service (a process tree); load generators are services named by `generator_service`."""

SAMPLE_SHARES = (0.25, 0.5, 0.75)
"""When connections are counted and clock rates looked at, as parts of the measured window."""
SAMPLE_TIMES_S = (0.25, 1.0, 4.0, 16.0, 64.0, 256.0)
"""The same where nobody knows how long the window will be: those that come within it."""

TELEMETRY_METRICS: Mapping[str, TelemetryMetric] = {metric.name: metric for metric in (*HOST_METRICS, *SERVICE_METRICS)}


AGENT_SERVICE = "agent"
"""The name under which the telemetry has what benchkit itself takes on a host."""


def generator_service(number: int) -> str:
    """The name under which the telemetry has a load generator; numbers count from 1 over all load hosts."""
    return f"generator-{number}"


def reducer_service(number: int) -> str:
    """The name of what reads the rows of a load generator, beside it on its host."""
    return f"reducer-{number}"


def is_of_load_tool(service: str) -> bool:
    """Whether the telemetry has a load generator, or what reads its rows, under this name."""
    return _OF_LOAD_TOOL.fullmatch(service) is not None


_OF_LOAD_TOOL = re.compile(r"(generator|reducer)-[0-9]+")
