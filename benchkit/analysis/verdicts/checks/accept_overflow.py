"""The kernel dropped or cookied connections."""

from __future__ import annotations

from collections.abc import Iterator

from benchkit import units
from benchkit.analysis.verdicts.check import LOAD, Check, CheckResult, Finding, Severity, SkippedCheck
from benchkit.analysis.verdicts.evidence import Evidence
from benchkit.models.thresholds import Thresholds

DROPPED = ("listen_overflows_total", "listen_drops_total", "req_queue_full_drops_total")
"""The kernel counts a connection that finds the accept queue full as an overflow and as a drop: the most of them is how
many there were at least (tcp_v4_syn_recv_sock and tcp_conn_request in the kernel's net/ipv4)."""
COOKIED = ("req_queue_full_cookies_total",)


def of_trial(evidence: Evidence, thresholds: Thresholds) -> CheckResult:
    """What the kernel of each server's host counted over the window, and queues seen full."""
    counted = [
        max((_grown(evidence, host, metric) or 0.0 for metric in metrics), default=0.0)
        for host in evidence.server_hosts
        for metrics in (DROPPED, COOKIED)
    ]
    lost, full = sum(counted), list(_full(evidence))
    if not lost and not full:
        unwatched = [host for host in evidence.server_hosts if _grown(evidence, host, DROPPED[0]) is None]
        return SkippedCheck(why=f"not watched: {', '.join(unwatched)}") if unwatched else ()
    opened = _opened(evidence)
    share = lost / (opened + lost)
    severity: Severity = "invalid" if share > thresholds.dropped_connections else "suspect"
    said = [f"{units.count(lost)} connections were dropped or answered with a cookie"] if lost else []
    return [
        Finding(
            severity=severity,
            metrics=LOAD,
            seen="; ".join([*said, *full]),
            threshold=f"any is suspect, above {100 * thresholds.dropped_connections:.3g} % of "
            f"{units.count(opened)} opened void",
            means="Connections waited for the kernel's timers, a second and more each, and not for the server.",
            advice="Raise the server's backlog and net.core.somaxconn, or have it accept faster.",
        )
    ]


CHECK = Check("accept-overflow", "the kernel dropped or cookied connections", of_trial=of_trial)


def _grown(evidence: Evidence, host: str, metric: str) -> float | None:
    """How much a counter of the host grew over the window; None where it was not watched."""
    found = [each.increase_around(0, evidence.window_s) for each in evidence.telemetry.series(metric, host)]
    return sum(found) if found else None


def _opened(evidence: Evidence) -> float:
    """About how many connections the load opened: one for each request where they are not kept."""
    kept = evidence.record.load.connections
    return kept if evidence.record.load.keepalive else max(evidence.number("requests") or 0.0, kept)


def _full(evidence: Evidence) -> Iterator[str]:
    """Accept queues that a sample found at their limit."""
    window_s = evidence.window_s
    for queue in evidence.telemetry.series("accept_queue"):
        for limit in evidence.telemetry.series("accept_queue_limit", queue.host, queue.service):
            if limit.instance == queue.instance and len(limit.values):
                deepest, most = queue.maximum(window_s), float(limit.values[-1])
                if deepest is not None and 0 < most <= deepest:
                    name = queue.service or queue.host
                    yield f"the accept queue of {name} was full: {units.count(deepest)} waited, its limit is {units.count(most)}"
