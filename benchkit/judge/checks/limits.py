"""Checks that compare one value of a trial with one threshold, as a table.

A row says on which side of its limit a value is wrong, and what that means. Its function in
`benchkit.judge.checks.readings` reads the value from the evidence.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import ge, gt, lt
from typing import Literal

from benchkit.judge.check import ALL, LOAD, RATES, SERVER_CPU, Check, CheckResult, Finding, SkippedCheck
from benchkit.judge.checks.readings import (
    DROPPED_DATAGRAMS,
    FAILED,
    OVERFLOW,
    TOO_MANY_IN_FLIGHT,
    Consequence,
    Readings,
    answers_in_slices,
    answers_of_other_sizes,
    cpu_of_generators,
    cpu_of_servers,
    dropped_datagrams,
    escaped_children,
    failed_requests,
    fewest_connections,
    longest_gaps,
    lost_connections,
    ports_in_use,
    requests_in_flight,
    resumed_handshakes,
    use_of_links,
)
from benchkit.judge.evidence import Evidence
from benchkit.models.thresholds import Thresholds


@dataclass(frozen=True)
class Limit:
    """A check that compares values of a trial with their limit."""

    code: str
    because: str
    read: Callable[[Evidence, Thresholds], Readings]
    is_beyond: Callable[[float, float], bool]
    """Comparison that is true of a wrong value and its limit: `gt` or `ge` for an upper limit, `lt` for a lower one."""
    consequence: Consequence
    reads: Literal["load", "hosts", "servers"] = "load"

    def of_trial(self, evidence: Evidence, thresholds: Thresholds) -> CheckResult:
        """Return a finding for each value of a trial beyond its limit."""
        findings: list[Finding] = []
        skipped: SkippedCheck | None = None
        for each in self.read(evidence, thresholds):
            if isinstance(each, SkippedCheck):
                skipped = each
            elif self.is_beyond(each.value, each.limit):
                severity, metrics, means, advice = each.consequence or self.consequence
                findings.append(
                    Finding(
                        severity=evidence.disturbance if severity == "disturbance" else severity,
                        metrics=metrics,
                        seen=each.seen,
                        threshold=f"limit: {each.allowed}",
                        means=means,
                        advice=advice,
                    )
                )
        return skipped if skipped and not findings else findings


LIMITS = (
    Limit("errors", "requests failed", failed_requests, gt, FAILED),
    Limit(
        "escaped-children",
        "the CPU time of some children is missing",
        escaped_children,
        gt,
        Consequence(
            "suspect",
            SERVER_CPU,
            "The CPU time covers its process tree only, and may be many times too small.",
            "Use a host where benchkit may create control groups (root, or a delegated group), which count all.",
        ),
        reads="servers",
    ),
    Limit(
        "other-sizes",
        "its answers have other sizes than expected",
        answers_of_other_sizes,
        gt,
        Consequence(
            "suspect",
            ALL,
            "A server that sends more or less does other work than the one of the log.",
            "Compare an answer with the log: its data, and compression (headers: {Accept-Encoding: gzip}).",
        ),
    ),
    Limit(
        "handshake-share",
        "TLS sessions were resumed though full handshakes were asked for",
        resumed_handshakes,
        gt,
        Consequence(
            "invalid",
            ALL,
            "A resumed handshake costs a part of a full one, so these figures do not hold for full handshakes.",
            "Turn session tickets and the cache of sessions off in the server's configuration.",
        ),
        reads="servers",
    ),
    Limit(
        "missing-connections",
        "there were fewer connections than requested",
        fewest_connections,
        lt,
        Consequence(
            "invalid",
            ALL,
            "The server was measured under another load than the cell states.",
            "Check the open-file limits and the ports of the load host, and the tool's errors.",
        ),
        reads="servers",
    ),
    Limit(
        "ports-exhausted",
        "the client ran out of local ports",
        ports_in_use,
        ge,
        Consequence(
            "invalid",
            LOAD,
            "The load host waited for free ports, so the rate is limited by its sockets in TIME_WAIT.",
            "Widen net.ipv4.ip_local_port_range, set net.ipv4.tcp_tw_reuse, or add load hosts.",
        ),
    ),
    Limit(
        "accept-overflow",
        "the kernel dropped connections or answered them with SYN cookies",
        lost_connections,
        gt,
        OVERFLOW,
        reads="servers",
    ),
    Limit(
        "udp-drops",
        "the kernel dropped datagrams of HTTP/3",
        dropped_datagrams,
        gt,
        DROPPED_DATAGRAMS,
        reads="hosts",
    ),
    Limit(
        "generator-saturated",
        "the load tool was the limit",
        cpu_of_generators,
        ge,
        Consequence(
            "invalid",
            LOAD,
            "The load tool was the limit, so the rate and the latencies are the tool's and not the server's.",
            "Give it more cores, threads or processes, add a load host, or lower the server's CPU.",
        ),
    ),
    Limit(
        "link-saturated",
        "the network was the limit",
        use_of_links,
        ge,
        Consequence(
            "invalid",
            LOAD,
            "The network was the limit, so the rate is the link's and the latencies are its queue's.",
            "Use a faster link or smaller answers; CPU per request stays comparable.",
        ),
        reads="hosts",
    ),
    Limit(
        "littles-law",
        "the tool's own figures contradict each other",
        requests_in_flight,
        gt,
        TOO_MANY_IN_FLIGHT,
    ),
    Limit(
        "stalled",
        "a host stopped for a while",
        longest_gaps,
        gt,
        Consequence(
            "disturbance",
            ALL,
            "The host, or all of its processes, stopped: the window was shorter than the tool assumes.",
            "Check whether the machine was suspended, migrated or out of memory, and run again.",
        ),
        reads="hosts",
    ),
    Limit(
        "server-idle",
        "the server was not the limit, so its rate is not its capacity",
        cpu_of_servers,
        lt,
        Consequence(
            "invalid",
            RATES,
            "The server was not the limit: something else limited the rate, which is not the server's capacity.",
            "Find what it waits for: a lock, a delay, too few connections, the generator, the network.",
        ),
        reads="servers",
    ),
    Limit(
        "few-requests-in-slice",
        "slices are too short for the load",
        answers_in_slices,
        lt,
        Consequence(
            "invalid",
            LOAD,
            "What connections wait for at the start and end of a slice is a large part of it.",
            "Use longer slices (slice_s), fewer connections, or design: blocks.",
        ),
    ),
)
"""The table: code, clause after "The number is wrong because", value, comparison, consequence."""

LIMIT_CHECKS: Mapping[str, Check] = {
    row.code: Check(row.code, row.because, of_trial=row.of_trial, reads=row.reads) for row in LIMITS
}
