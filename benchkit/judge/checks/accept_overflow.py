"""Check accept-overflow: the kernel dropped connections or answered them with SYN cookies."""

from __future__ import annotations

from collections.abc import Iterator

from benchkit import units
from benchkit.judge.check import LOAD, Check, CheckResult, Finding, SkippedCheck
from benchkit.judge.evidence import Evidence, Severity
from benchkit.judge.usage import counter_increase
from benchkit.models.thresholds import Thresholds

DROPPED = ("listen_overflows_total", "listen_drops_total", "req_queue_full_drops_total")
"""The kernel counts a connection that finds the accept queue full as an overflow and as a drop (tcp_v4_syn_recv_sock
and tcp_conn_request in the kernel's net/ipv4). So the largest of these counters is the least number of connections."""
COOKIES = ("req_queue_full_cookies_total",)


def of_trial(evidence: Evidence, thresholds: Thresholds) -> CheckResult:
    """Read the kernel's counters of each server's host over the window, and accept queues at their limit.

    The warning of the kernel's log is quoted beside them and is no finding of its own. It comes once for each listening
    socket, and states neither the number of connections nor the time that the state lasted.
    """
    counted = [
        max((counter_increase(evidence, host, metric) or 0.0 for metric in metrics), default=0.0)
        for host in evidence.server_hosts
        for metrics in (DROPPED, COOKIES)
    ]
    lost, full_queues = sum(counted), list(_full_queues(evidence))
    if not lost and not full_queues:
        unwatched = [host for host in evidence.server_hosts if counter_increase(evidence, host, DROPPED[0]) is None]
        return SkippedCheck(why=f"no telemetry of {', '.join(unwatched)}") if unwatched else ()
    opened = _opened_connections(evidence)
    share = lost / (opened + lost)
    severity: Severity = "invalid" if share > thresholds.dropped_connections else "suspect"
    drops = [f"{units.count(lost)} connections were dropped or answered with a SYN cookie"] if lost else []
    warnings = list(_flood_warnings(evidence))
    return [
        Finding(
            severity=severity,
            metrics=LOAD,
            seen="; ".join([*drops, *full_queues, *warnings]),
            threshold=f"any: suspect; above {100 * thresholds.dropped_connections:.3g} % of {units.count(opened)} opened: "
            "invalid",
            means="Connections waited for the kernel's timers, a second and more each, and not for the server.",
            advice="Raise the server's backlog and net.core.somaxconn, or have it accept faster.",
        )
    ]


CHECK = Check(
    "accept-overflow",
    "the kernel dropped connections or answered them with SYN cookies",
    of_trial=of_trial,
    reads="servers",
)


def _opened_connections(evidence: Evidence) -> float:
    """Estimate the connections that the load opened: one per request where they are not kept."""
    connections = evidence.record.load.connections
    return connections if evidence.record.keeps_connections else max(evidence.number("requests") or 0.0, connections)


def _full_queues(evidence: Evidence) -> Iterator[str]:
    for queue in evidence.telemetry.series("accept_queue"):
        for limit in evidence.telemetry.series("accept_queue_limit", queue.host, queue.service):
            if limit.instance == queue.instance and len(limit.values):
                depth, most = queue.maximum(evidence.window_s), float(limit.values[-1])
                if depth is not None and 0 < most <= depth:
                    name = queue.service or queue.host
                    yield f"the accept queue of {name} was full: {units.count(depth)} waiting, limit {units.count(most)}"


def _flood_warnings(evidence: Evidence) -> Iterator[str]:
    """Yield a sentence on each service whose listening sockets the kernel's log warned of, in the window or before."""
    for warnings in evidence.telemetry.series("syn_flood_warnings_total"):
        if warnings.values[-1] > 0:
            name = warnings.service or warnings.host
            yield f"the kernel's log warned of possible SYN flooding on the port of {name}"
