"""Checks that compare one value of a trial with one threshold: functions that read the values, and a table.

A row of the table says on which side of its limit a value is wrong, and what that means.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from operator import ge, gt, lt
from typing import Literal, NamedTuple

from benchkit import units
from benchkit.judge.check import ALL, LOAD, Check, CheckResult, Finding, SkippedCheck
from benchkit.judge.evidence import Evidence, Severity
from benchkit.judge.usage import (
    counter_increase,
    generator_cores_busy,
    generator_use,
    handshakes,
    is_load_crowded,
    link_use,
    unknown_links,
)
from benchkit.models.metrics import FAILURES, METRICS, metric_named
from benchkit.models.request import is_expected
from benchkit.models.telemetry import SAMPLE_SHARES
from benchkit.models.thresholds import Thresholds

SeverityOrDisturbance = Severity | Literal["disturbance"]
"""`disturbance`: the severity of a disturbance from outside (`Evidence.disturbance`)."""


class Reading(NamedTuple):
    """A value of a trial, and the limit for it."""

    value: float
    limit: float
    seen: str
    """The value as a clause."""
    allowed: str
    """The limit as a clause."""
    severity: SeverityOrDisturbance | None = None
    """Severity of this value where it differs from the row's."""
    means: str | None = None
    """Consequence of this value where it differs from the row's."""

    @classmethod
    def of_any(cls, count: float, total: float, limit: float, seen: str) -> Reading:
        """Return the reading of a count: any is suspect, and a share of the total above the limit is invalid."""
        allowed = f"none, else suspect; above {100 * limit:.3g} % invalid"
        return cls(count, 0, seen, allowed, "invalid" if count > limit * total else "suspect")


Readings = Iterator[Reading | SkippedCheck]
"""Values of a trial; none where the check does not apply. A `SkippedCheck` is the result unless a value is wrong."""


def limit_check(  # noqa: PLR0917 - the columns of a table
    code: str,
    because: str,
    read: Callable[[Evidence, Thresholds], Readings],
    is_beyond: Callable[[float, float], bool],
    severity: SeverityOrDisturbance,
    metrics: tuple[str, ...],
    means: str,
    advice: str,
    reads: Literal["load", "hosts", "servers"] = "load",
) -> Check:
    """Return a check that compares values of a trial with their limit.

    `is_beyond` is true of a wrong value and its limit: `gt` or `ge` for an upper limit, `lt` for a lower one.
    """

    def of_trial(evidence: Evidence, thresholds: Thresholds) -> CheckResult:
        readings = list(read(evidence, thresholds))
        findings = [
            Finding(
                severity=evidence.disturbance if (found := each.severity or severity) == "disturbance" else found,
                metrics=metrics,
                seen=each.seen,
                threshold=f"limit: {each.allowed}",
                means=each.means or means,
                advice=advice,
            )
            for each in readings
            if isinstance(each, Reading) and is_beyond(each.value, each.limit)
        ]
        skipped = [each for each in readings if isinstance(each, SkippedCheck)]
        return skipped[-1] if skipped and not findings else findings

    return Check(code, because, of_trial=of_trial, reads=reads)


FAILURE_COLUMNS = tuple(name for name in METRICS if name in FAILURES)
UNEXPECTED = "answers with a status that the scenario does not expect"


def failed_requests(evidence: Evidence, thresholds: Thresholds) -> Readings:
    """Read socket errors, timeouts and error statuses, relative to all attempts.

    Answers that differ only in length are no errors, although ab counts them as failed. A connect fails before its
    request is sent: no tool counts it among the requests.
    """
    results = [result for _, result in evidence.record.outputs]
    failures = {column: number for column in FAILURE_COLUMNS if (number := evidence.number(column)) is not None}
    expected = {request.expect.status for request in evidence.record.load.request_mix}
    if evidence.classes:
        failures.pop("non_2xx", None)
        failures[UNEXPECTED] = float(sum(each.other_statuses for each in evidence.classes))
    elif failures.get("non_2xx") and not all(status is None or is_expected(status, {None}) for status in expected):
        del failures["non_2xx"]
        if results and all(result.status for result in results):
            statuses = (each for result in results for each in (result.status or {}).items())
            failures[UNEXPECTED] = float(
                sum(number for code, number in statuses if not is_expected(int(code), expected))
            )
        else:
            yield SkippedCheck(why="answers other than 2xx are expected, and the tool does not count each status")
    if failures:
        failures["other failures"] = float(sum(result.errors.other or 0 for result in results))
    elif failed := [result.failed - (result.failed_length or 0) for result in results if result.failed is not None]:
        failures["failed requests"] = float(sum(failed))  # siege counts no kinds
    requests = evidence.number("requests")
    if not failures or requests is None:
        yield SkippedCheck(why="the tool does not count failures")
        return
    total = sum(failures.values())
    attempts = max(requests + failures.get("errors_connect", 0.0), total)
    kinds = ", ".join(
        f"{units.count(number)} {metric_named(kind).title}" for kind, number in failures.items() if number
    )
    share = f"{100 * total / attempts if attempts else 0.0:.3g} % of all attempts"
    yield Reading.of_any(total, attempts, thresholds.errors, f"{kinds}: {share}")


def resumed_handshakes(evidence: Evidence, thresholds: Thresholds) -> Readings:
    """Read the share of resumed handshakes, by the entry's own counters, where none is wanted.

    It matters where each request has a connection of its own; kept connections have a few handshakes at their start.
    """
    record, limit = evidence.record, thresholds.resumed_handshakes
    if record.tls is None or record.tls.resumption or record.load.keepalive:
        return
    counted = handshakes(evidence)
    if counted is None or counted.resumed_share is None:
        yield SkippedCheck(why=f"{evidence.entry} counts no handshakes")
        return
    share = counted.resumed_share
    seen = f"{units.share(share)} of {counted.number:,.0f} TLS handshakes resumed a session"
    yield Reading(share, limit, seen, units.share(limit))


TAIL_SHARE = 0.1
"""Last part of a window that ends after a number of requests: clients that have sent their share disconnect."""


def fewest_connections(evidence: Evidence, thresholds: Thresholds) -> Readings:
    """Read the established connections on the loaded port in each sample, which should be those requested.

    It applies only to kept connections at full speed: a tool with a target rate opens those that it needs. The kernel
    has no table of QUIC connections, which a server may state on its page. A window that ends after a number of
    requests may be too short for more than one sample. Connections of slow and broken clients are deducted.
    """
    record, limit = evidence.record, thresholds.connections
    if not record.keeps_connections or not evidence.closed_loop:
        return
    is_quic, is_timed = record.protocol == "h3", record.load.duration_s is not None
    port = (record.target or "").partition("://")[2].partition("/")[0].rpartition(":")[2]
    metric, instance = ("quic_connections", None) if is_quic else ("connections_established", port)
    samples = [
        value
        for each in evidence.telemetry.series(metric, service=evidence.entry)
        if each.instance == instance
        for value in each.in_window(record.window_s if is_timed else record.window_s * (1 - TAIL_SHARE))
    ]
    if not samples:
        quic = f": {evidence.entry} states none of QUIC, and the kernel knows none" if is_quic else ""
        yield SkippedCheck(why=f"the connections were not counted{quic}")
        return
    fewest, requested = min(samples), record.load.connections
    planned = len(SAMPLE_SHARES) if is_timed and not is_quic else 1
    seen = (
        f"{units.count(fewest)} of {units.count(requested)} connections were established in one of "
        f"{units.counted(len(samples), 'sample')}"
    )
    yield Reading(fewest, limit * requested, seen, units.share(limit))
    if len(samples) < planned:
        yield SkippedCheck(why=f"the connections were counted in {len(samples)} of {planned} samples")


PORT_RANGE = "net.ipv4.ip_local_port_range"
HOLDING_STATES = ("time_wait", "in_use")
"""States of sockets that hold a port: connections, and those that wait for late packets (RFC 9293, 3.5)."""


def ports_in_use(evidence: Evidence, thresholds: Thresholds) -> Readings:
    """Read the sockets of each load host that hold a local port; only where connects failed can ports be missing."""
    failed, limit = evidence.number("errors_connect"), thresholds.ports
    for host in evidence.load_hosts if failed else ():
        series = evidence.telemetry.series("tcp_sockets", host)
        sockets = [each.maximum(evidence.window_s) for each in series if each.instance in HOLDING_STATES]
        port_range = (evidence.facts_of(host).sysctls.get(PORT_RANGE) or "").split()
        if not port_range or None in sockets or len(sockets) < len(HOLDING_STATES):
            yield SkippedCheck(why=f"the sockets or the port range of {host} are unknown")
            continue
        used, ports = sum(each or 0.0 for each in sockets), int(port_range[1]) - int(port_range[0]) + 1
        seen = (
            f"{units.count(used)} of the {units.count(ports)} local ports of {host} were in use, and "
            f"{units.count(failed)} connects failed"
        )
        yield Reading(used, limit * ports, seen, units.share(limit))


DROPPED = ("listen_overflows_total", "listen_drops_total", "req_queue_full_drops_total")
"""The kernel counts a connection that finds the accept queue full as an overflow and as a drop (tcp_v4_syn_recv_sock
and tcp_conn_request in the kernel's net/ipv4). So the largest of these counters is the least number of connections."""
COOKIES = ("req_queue_full_cookies_total",)


def lost_connections(evidence: Evidence, thresholds: Thresholds) -> Readings:
    """Read the kernel's counters of each server's host over the window, and accept queues at their limit.

    The connections that the load opened are estimated: one for each request where they are not kept.
    """
    record = evidence.record
    lost = sum(
        max((counter_increase(evidence, host, metric) or 0.0 for metric in metrics), default=0.0)
        for host in evidence.server_hosts
        for metrics in (DROPPED, COOKIES)
    )
    kept = record.load.connections
    opened = kept if record.keeps_connections else max(evidence.number("requests") or 0.0, kept)
    number = f"{units.count(lost)} of {units.count(opened + lost)}"
    drops = [f"{number} connections were dropped or answered with a SYN cookie"] if lost else []
    full = list(_full_queues(evidence))
    reading = Reading.of_any(lost, opened + lost, thresholds.dropped_connections, "; ".join([*drops, *full]))
    yield reading._replace(value=lost + len(full))
    unwatched = [host for host in evidence.server_hosts if counter_increase(evidence, host, DROPPED[0]) is None]
    if unwatched:
        yield SkippedCheck(why=f"no telemetry of {', '.join(unwatched)}")


def _full_queues(evidence: Evidence) -> Iterator[str]:
    for queue in evidence.telemetry.series("accept_queue"):
        for limit in evidence.telemetry.series("accept_queue_limit", queue.host, queue.service):
            if limit.instance == queue.instance and len(limit.values):
                depth, most = queue.maximum(evidence.window_s), float(limit.values[-1])
                if depth is not None and 0 < most <= depth:
                    name = queue.service or queue.host
                    yield f"the accept queue of {name} was full: {units.count(depth)} waiting, limit {units.count(most)}"


CROWDED = (
    "Other programs kept the load tool's cores busy, so it may have been the limit: two servers then look more alike than "
    "they are."
)


def cpu_of_generators(evidence: Evidence, thresholds: Thresholds) -> Readings:
    """Read the CPU use of the busiest generator, thread or load host.

    A thread counts where it owns its connections. In a tool that hands work to any free thread, as Go programs do, one
    busy thread delays no request. Where other programs filled the tool's cores, the finding is a disturbance: it brings
    a ratio closer to one and cannot cause a difference. A limit of one turns the check off.
    """
    use, limit = generator_use(evidence), thresholds.generator_cpu
    if use is None:
        yield SkippedCheck(why="the CPUs of the load tool are not recorded")
        return
    if limit < 1:
        is_crowded = use.share >= limit and is_load_crowded(evidence, thresholds)
        yield Reading(use.share, limit, use.text, units.share(limit), *(("disturbance", CROWDED) if is_crowded else ()))
    unwatched = [host for host in evidence.load_hosts if generator_cores_busy(evidence, host) is None]
    if unwatched:
        yield SkippedCheck(why=f"no telemetry for the cores of {', '.join(unwatched)}")


def use_of_links(evidence: Evidence, thresholds: Thresholds) -> Readings:
    """Read the bytes and packets of the fullest link of known rate, in one direction."""
    use = link_use(evidence)
    if use is not None:
        yield Reading(use.share, thresholds.link, use.text, units.share(thresholds.link))
    if unknown := unknown_links(evidence):
        yield SkippedCheck(why=unknown)


TOO_FEW_IN_FLIGHT = "Not all connections were in use: some hung or were not open, or the load tool could not keep up."
UNANSWERED = "Some connections waited for most of a slice: latencies do not include their requests, and are too short."


def requests_in_flight(evidence: Evidence, thresholds: Thresholds) -> Readings:
    """Read the difference of rate times mean latency from the requests in flight of a closed loop.

    The mean must come from the raw histogram: wrk 4 prints one that includes its own correction. A mean is known to the
    resolution of the tool. Requests that the end of a window interrupts have no latency. They had been in flight for at
    least half of the mean latency, the mean age in a renewal process (Cox, Renewal Theory, 1962, 5.2). Each slice opens
    new connections. A server with an unfair lock leaves some of them waiting for a whole slice, at its full rate.
    """
    if not evidence.closed_loop:
        return
    record, row, limit = evidence.record, evidence.row, thresholds.littles_law
    rps, mean_s = evidence.number("rps"), evidence.number("latency_mean_s")
    if not record.keeps_connections and row.latency_covers != "connect+request":
        why = "the tool's latency excludes connecting, which is a part of each short connection's cycle"
        yield SkippedCheck(why=why)
    elif row.latency_corrected is not False:
        yield SkippedCheck(why="the mean latency includes the tool's own correction; a histogram would give it without")
    elif rps is None or mean_s is None:
        yield SkippedCheck(why="the tool reports no rate, or no mean above its resolution")
    else:
        in_flight, expected = rps * mean_s, record.load.in_flight
        is_fewer = in_flight < expected
        rounding = rps * (evidence.number("latency_resolution_s") or 0.0) / expected
        window_s = record.slices[0].duration_s if record.slices else evidence.window_s
        cut_off = mean_s / 2 / window_s if is_fewer else 0.0
        streams = f" of {units.counted(record.load.streams, 'stream')}" if record.load.streams > 1 else ""
        yield Reading(
            abs(in_flight / expected - 1),
            limit + rounding + cut_off,
            f"{units.requests_per_s(rps)} \N{MULTIPLICATION SIGN} {units.seconds(mean_s)} = {in_flight:.3g} requests in "
            f"flight on {units.count(record.load.connections)} connections{streams}",
            f"a difference of {units.share(limit)}",
            severity="suspect" if is_fewer and record.slices else None,
            means=(UNANSWERED if record.slices else TOO_FEW_IN_FLIGHT) if is_fewer else None,
        )


def longest_gaps(evidence: Evidence, thresholds: Thresholds) -> Readings:
    """Read the longest gap between samples of each host, relative to its sampling interval.

    Slices are sampled only at their edges, so the interval is at least the length of a slice.
    """
    slice_s = max((each.duration_s for each in evidence.record.slices), default=0.0)
    unsampled, window_s = set(evidence.hosts), evidence.window_s
    for watch in evidence.record.watched:
        t_s = evidence.telemetry.sample_times(watch.host)
        if not t_s:
            continue
        unsampled.discard(watch.host)
        edges = [min(0.0, t_s[0]), *t_s, max(window_s, t_s[-1])]  # the ends of the window count as samples
        gaps = [(high - low, low) for low, high in pairwise(edges) if high > 0 and low < window_s]
        gap_s, start_s = max(gaps)
        interval_s = max(watch.interval_s, slice_s)
        yield Reading(
            gap_s,
            thresholds.gap_intervals * interval_s,
            f"host {watch.host} took no sample for {units.seconds(gap_s)}, starting {start_s:.1f} s into the window",
            f"{thresholds.gap_intervals:g} intervals of {units.seconds(interval_s)}",
        )
    if unsampled:
        yield SkippedCheck(why=f"no telemetry of {', '.join(sorted(unsampled))}")


def answers_in_slices(evidence: Evidence, thresholds: Thresholds) -> Readings:
    """Read the mean number of answers in a slice, relative to its connections or streams.

    A slice begins with new connections. If its clock starts before their first answers, it counts too few answers: of a
    slow server fewer than of a fast one. Under a target rate one connection is enough for most requests, so the number
    of connections does not matter.
    """
    slices, requests, load = evidence.record.slices, evidence.number("requests"), evidence.record.load
    if not slices:
        return
    if requests is None:
        yield SkippedCheck(why="the number of requests is unknown")
        return
    needed = thresholds.slice_answers * (load.in_flight if evidence.closed_loop else 1)
    answers, length = requests / len(slices), units.seconds(slices[0].duration_s)
    connections = units.counted(load.connections, "connection")
    yield Reading(answers, needed, f"a slice of {length} has {answers:.1f} answers over {connections}", f"{needed:g}")


LIMITS = (
    limit_check(
        "errors",
        "requests failed",
        failed_requests,
        gt,
        "suspect",
        ALL,
        "A failure is different work from an answer, and the rate includes failures.",
        "Read the server's log in the trial's raw files, and lower the load to what the server can handle.",
    ),
    limit_check(
        "handshake-share",
        "TLS sessions were resumed though full handshakes were asked for",
        resumed_handshakes,
        gt,
        "invalid",
        ALL,
        "A resumed handshake costs less than a full one, so these figures do not hold for full handshakes.",
        "Turn session tickets and the cache of sessions off in the server's configuration.",
        reads="servers",
    ),
    limit_check(
        "missing-connections",
        "there were fewer connections than requested",
        fewest_connections,
        lt,
        "invalid",
        ALL,
        "The server was not measured under the load that the cell states.",
        "Check the open-file limits and the ports of the load host, and the tool's errors.",
        reads="servers",
    ),
    limit_check(
        "ports-exhausted",
        "the client ran out of local ports",
        ports_in_use,
        ge,
        "invalid",
        LOAD,
        "The load host waited for free ports, so the rate is limited by its sockets in TIME_WAIT.",
        "Widen net.ipv4.ip_local_port_range, set net.ipv4.tcp_tw_reuse, or add load hosts.",
    ),
    limit_check(
        "accept-overflow",
        "the kernel dropped connections or answered them with SYN cookies",
        lost_connections,
        gt,
        "suspect",
        LOAD,
        "Connections waited for the kernel's timers, for a second or more each, and not for the server.",
        "Raise the server's backlog and net.core.somaxconn, or have it accept faster.",
        reads="servers",
    ),
    limit_check(
        "generator-saturated",
        "the load tool was the limit",
        cpu_of_generators,
        ge,
        "invalid",
        LOAD,
        "The load tool was the limit, so the rate and the latencies are the tool's and not the server's.",
        "Give it more cores, threads or processes, add a load host, or lower the server's CPU.",
    ),
    limit_check(
        "link-saturated",
        "the network was the limit",
        use_of_links,
        ge,
        "invalid",
        LOAD,
        "The network was the limit, so the rate is the link's and the latencies are its queue's.",
        "Use a faster link or smaller answers; CPU per request stays comparable.",
        reads="hosts",
    ),
    limit_check(
        "littles-law",
        "rate and latencies do not fit the connections",
        requests_in_flight,
        gt,
        "invalid",
        LOAD,
        "More requests were in flight than connections and streams allow: the tool's rate or its latencies are wrong.",
        "Read the tool's raw output, and run the cell with a second tool.",
    ),
    limit_check(
        "stalled",
        "a host stopped for a while",
        longest_gaps,
        gt,
        "disturbance",
        ALL,
        "The host, or all of its processes, stopped: the window was shorter than the tool assumes.",
        "Check whether the machine was suspended, migrated or out of memory, and run again.",
        reads="hosts",
    ),
    limit_check(
        "few-requests-in-slice",
        "slices are too short for the load",
        answers_in_slices,
        lt,
        "invalid",
        LOAD,
        "Waiting at the start and end of a slice is a large part of it.",
        "Use longer slices (slice_s), fewer connections, or design: blocks.",
    ),
)
"""The table: code, clause after "The number is wrong because", readings, comparison, consequence, remedy."""

LIMIT_CHECKS: Mapping[str, Check] = {check.code: check for check in LIMITS}
