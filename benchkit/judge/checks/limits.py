"""Checks that compare one value of a trial with one threshold: rows of a table, and the functions that read the values.

A row says on which side of its limit a value is wrong, and what that means. Its function reads the value from the
evidence, and states value and limit as clauses.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import ge, gt, lt
from typing import Literal, NamedTuple

from benchkit import units
from benchkit.judge.check import ALL, LOAD, RATES, Check, CheckResult, Finding, SkippedCheck
from benchkit.judge.evidence import Evidence, Severity
from benchkit.judge.handshakes import handshakes
from benchkit.judge.usage import (
    STARVED,
    counter_increase,
    crowded_use,
    generator_cores_busy,
    generator_use,
    link_use,
    port_use,
    server_use,
    unknown_links,
)
from benchkit.models.metrics import FAILURES, METRICS, metric_named
from benchkit.models.request import is_expected
from benchkit.models.rows import ClassRow
from benchkit.models.telemetry import SAMPLE_SHARES
from benchkit.models.thresholds import Thresholds


class Consequence(NamedTuple):
    """Consequence of a value beyond its limit."""

    severity: Severity | Literal["disturbance"]
    """`disturbance`: the severity of a disturbance from outside (`Evidence.disturbance`)."""
    metrics: tuple[str, ...]
    means: str
    advice: str


class Reading(NamedTuple):
    """A value of a trial, and the limit for it."""

    value: float
    limit: float
    seen: str
    """The value as a clause."""
    allowed: str
    """The limit as a clause."""
    consequence: Consequence | None = None
    """Consequence of this value where it differs from the row's."""

    @classmethod
    def of_any(cls, count: float, total: float, limit: float, seen: str, consequence: Consequence) -> Reading:
        """Return the reading of a count: any is suspect, and a share of the total above the limit is invalid."""
        allowed = f"none, else suspect; above {100 * limit:.3g} % invalid"
        is_invalid = count > limit * total
        return cls(count, 0, seen, allowed, consequence._replace(severity="invalid") if is_invalid else None)


Readings = Iterator[Reading | SkippedCheck]
"""Values of a trial; none where the check does not apply. A `SkippedCheck` is the result unless a value is wrong."""


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
                findings.append(_finding(each, each.consequence or self.consequence, evidence))
        return skipped if skipped and not findings else findings


def _finding(reading: Reading, consequence: Consequence, evidence: Evidence) -> Finding:
    return Finding(
        severity=evidence.disturbance if consequence.severity == "disturbance" else consequence.severity,
        metrics=consequence.metrics,
        seen=reading.seen,
        threshold=f"limit: {reading.allowed}",
        means=consequence.means,
        advice=consequence.advice,
    )


def _overruns(evidence: Evidence, _thresholds: Thresholds) -> Readings:
    """Read how often a load tool had to be ended.

    Its figures for the window are known all the same. Where its load ended before the window did, or not all
    connections had load, `littles-law` and `missing-connections` say so.
    """
    record = evidence.record
    overruns = sum(each.overruns for each in record.generators)
    turns = f" in {overruns} of {units.counted(len(record.generators) * len(record.slices), 'slice')}"
    seen = f"{record.load.tool} did not end by itself{turns if record.slices else ''}, and was ended"
    yield Reading(overruns, 0, seen, "none")


FAILURE_COLUMNS = tuple(name for name in METRICS if name in FAILURES)
"""Columns of `trials` with failures."""
UNEXPECTED = "answers with a status that the scenario does not expect"
MAX_NAMED = 3
"""Classes of requests that a finding names."""
NOT_REQUESTS = ("errors_connect",)
"""Failures before a request was sent: no tool counts them among its requests."""
FAILED = Consequence(
    "suspect",
    ALL,
    "A failure takes other work than an answer: the rate includes failures.",
    "Read the server's log in the trial's raw files, and lower the load to what the server can handle.",
)


def _failures(evidence: Evidence, thresholds: Thresholds) -> Readings:
    """Read socket errors, timeouts and error statuses, relative to all attempts.

    Answers that differ only in length are no errors, although ab counts them as failed.
    """
    failures = {column: number for column in FAILURE_COLUMNS if (number := evidence.number(column)) is not None}
    is_unknown = False
    if evidence.classes:
        failures.pop("non_2xx", None)
        failures[UNEXPECTED] = float(sum(each.other_statuses for each in evidence.classes))
    expected = {request.expect.status for request in evidence.record.load.request_mix}
    if not all(status is None or is_expected(status, {None}) for status in expected) and failures.pop("non_2xx", 0.0):
        unexpected = _unexpected_statuses(evidence, expected)
        failures |= {} if unexpected is None else {UNEXPECTED: unexpected}
        is_unknown = unexpected is None
    failures |= _other_failures(evidence, has_kinds=bool(failures))
    requests = evidence.number("requests")
    if not failures or requests is None:
        yield SkippedCheck(why="the tool does not count failures")
        return
    failed = sum(failures.values())
    attempts = max(requests + sum(failures.get(column, 0.0) for column in NOT_REQUESTS), failed)
    kinds = ", ".join(
        f"{units.count(number)} {metric_named(kind).title}" for kind, number in failures.items() if number
    )
    share = f"{100 * failed / attempts if attempts else 0.0:.3g} % of all attempts"
    yield Reading.of_any(failed, attempts, thresholds.errors, f"{kinds}: {share}{_failed_classes(evidence)}", FAILED)
    if is_unknown:
        yield SkippedCheck(why="answers other than 2xx are expected, and the tool does not count each status")


def _unexpected_statuses(evidence: Evidence, expected: Collection[int | None]) -> float | None:
    """Return the number of answers whose status no request expects; None where the tool does not count each status."""
    counts = [result.status for _, result in evidence.record.outputs]
    if not counts or not all(counts):
        return None
    return float(
        sum(number for count in counts for status, number in count.items() if not is_expected(int(status), expected))
    )


def _failed_classes(evidence: Evidence) -> str:
    """Return the classes of requests with most failures as a clause; empty without classes."""
    failed = Counter({each.request_class: each.errors + each.other_statuses for each in evidence.classes})
    totals = {each.request_class: each.requests + each.errors for each in evidence.classes}
    named = [
        f"{100 * number / totals[name]:.3g} % of {name}" for name, number in failed.most_common(MAX_NAMED) if number
    ]
    return f" ({', '.join(named)})" if named else ""


def _other_failures(evidence: Evidence, *, has_kinds: bool) -> dict[str, float]:
    """Return the failures that have no column, or all failures of a tool that reports no kinds (siege)."""
    results = [result for _, result in evidence.record.outputs]
    other = [result.errors.other for result in results if result.errors.other is not None]
    if has_kinds:
        return {"other failures": float(sum(other))} if other else {}
    failed = [result.failed - (result.failed_length or 0) for result in results if result.failed is not None]
    return {"failed requests": float(sum(failed))} if failed else {}


def _answers_of_other_sizes(evidence: Evidence, thresholds: Thresholds) -> Readings:
    """Read the largest share of answers to a class of requests that have another size than expected."""
    limit = thresholds.other_sizes
    shares = [(each, (each.other_sizes or 0) / each.requests) for each in evidence.classes if each.requests]
    wrong = [f"{units.share(share)} of {_sizes(each, evidence)}" for each, share in shares if share > limit]
    if wrong:
        rest = units.counted(len(wrong) - MAX_NAMED, "more class", "more classes")
        more = f", and of {rest}" if len(wrong) > MAX_NAMED else ""
        seen = f"answers have other sizes than expected: {'; '.join(wrong[:MAX_NAMED])}{more}"
        yield Reading(max(share for _, share in shares), limit, seen, f"{units.share(limit)} of the answers to a class")


def _sizes(row: ClassRow, evidence: Evidence) -> str:
    sizes = [
        each.expect.size
        for each in evidence.record.load.requests
        if each.class_name == row.request_class and each.expect.size is not None
    ]
    expected = f"{min(low for low, _ in sizes):,} to {max(high for _, high in sizes):,}"
    return f"{row.request_class}, with {row.size_low:,} to {row.size_high:,} bytes, not {expected}"


def _resumed_handshakes(evidence: Evidence, thresholds: Thresholds) -> Readings:
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


def _fewest_connections(evidence: Evidence, thresholds: Thresholds) -> Readings:
    """Read the established connections on the loaded port in each sample, which should be those requested.

    It applies only to kept connections at full speed. Some short connections are always being opened, and a tool with a
    target rate opens only those that it needs. In a window that ends after a number of requests, samples in its last
    tenth do not count. Such a window may be too short for more than one sample. Connections of slow and broken clients
    are deducted. The kernel has no table of QUIC connections: a server may state them on its page, which is read with
    each sample.
    """
    record, limit = evidence.record, thresholds.connections
    if not record.keeps_connections or not evidence.closed_loop:
        return
    is_quic, is_timed = record.protocol == "h3", record.load.duration_s is not None
    metric, instance = (
        ("quic_connections", None) if is_quic else ("connections_established", _port(record.target or ""))
    )
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
    noise = 0 if record.noise is None else round(record.noise.connections)
    fewest, requested, planned = (
        max(0.0, min(samples) - noise),
        record.load.connections,
        len(SAMPLE_SHARES) if is_timed and not is_quic else 1,
    )
    seen = (
        f"{units.count(fewest)} of {units.count(requested)} connections were established in one of "
        f"{units.counted(len(samples), 'sample')}"
        f"{f', without {units.count(noise)} of slow and broken clients' if noise else ''}"
    )
    yield Reading(fewest, limit * requested, seen, units.share(limit))
    if len(samples) < planned:
        yield SkippedCheck(why=f"the connections were counted in {len(samples)} of {planned} samples")


def _least_noise(evidence: Evidence, thresholds: Thresholds) -> Readings:
    """Read what slow and broken clients held and sent, each relative to what the cell asks for."""
    wanted, limit = evidence.record.load.noise, thresholds.connections
    if wanted is None or not wanted.is_any or evidence.record.imported is not None:
        return
    did = evidence.record.noise
    if did is None:
        yield SkippedCheck(why="what the slow and broken clients did is not recorded")
        return
    parts = [
        (did.slow_readers, wanted.slow_readers, "connections of slow readers were open"),
        (did.read_bytes, min(wanted.slow_readers, 1), "bytes were read by slow readers"),
        (did.half_open, wanted.half_open, "connections with half of a request were open"),
        (did.malformed, int(wanted.malformed * did.observed_s), "malformed requests were sent"),
    ]
    problems = [(did.refused, "could not be opened"), (did.closed, "were closed by the server")]
    why = "".join(f"; {units.counted(number, 'connection')} {what}" for number, what in problems if number)
    for amount, asked, what in parts:
        if asked:
            yield Reading(amount, limit * asked, f"{amount:.4g} of {asked} {what}{why}", units.share(limit))


def _port(target: str) -> str:
    authority = target.partition("://")[2].partition("/")[0]
    return authority.rpartition(":")[2]


def _ports_in_use(evidence: Evidence, thresholds: Thresholds) -> Readings:
    """Read the sockets of the load host that has the fewest local ports left for connections to one address.

    A tool that finds no port gets EADDRNOTAVAIL, which it counts as a failed connect if it counts any. Kept connections
    that were opened without a failure need no more ports: their TIME_WAIT sockets are of earlier trials. A connection
    of QUIC leaves no socket.
    """
    failed, limit = evidence.number("errors_connect"), thresholds.ports
    if evidence.record.protocol == "h3" or (evidence.record.keeps_connections and not failed):
        return
    uses = {host: port_use(evidence, host) for host in evidence.load_hosts}
    known = [(*use, host) for host, use in uses.items() if use is not None]
    used, ports, host = max(known, key=lambda each: each[0] / each[1], default=(0, 1, ""))
    failures = f", and {units.count(failed)} connects failed" if failed else ""
    seen = f"{units.count(used)} of the {units.count(ports)} local ports of {host} were in use{failures}"
    yield Reading(used, limit * ports, seen, units.share(limit))
    unknown = ", ".join(host for host, use in uses.items() if use is None)
    if unknown:
        yield SkippedCheck(why=f"unknown: the sockets, the port range or the failed connects of {unknown}")


DROPPED = ("listen_overflows_total", "listen_drops_total", "req_queue_full_drops_total")
"""The kernel counts a connection that finds the accept queue full as an overflow and as a drop (tcp_v4_syn_recv_sock
and tcp_conn_request in the kernel's net/ipv4). So the largest of these counters is the least number of connections."""
COOKIES = ("req_queue_full_cookies_total",)
OVERFLOW = Consequence(
    "suspect",
    LOAD,
    "Connections waited for the kernel's timers, a second and more each, and not for the server.",
    "Raise the server's backlog and net.core.somaxconn, or have it accept faster.",
)


def _lost_connections(evidence: Evidence, thresholds: Thresholds) -> Readings:
    """Read the kernel's counters of each server's host over the window, and accept queues at their limit.

    The connections that the load opened are estimated: one for each request where they are not kept. The warning of the
    kernel's log is quoted beside them and is no finding of its own. It comes once for each listening socket, and states
    neither the number of connections nor the time that the state lasted.
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
    warned = [
        f"the kernel's log warned of possible SYN flooding on the port of {each.service or each.host}"
        for each in evidence.telemetry.series("syn_flood_warnings_total")
        if each.values[-1] > 0  # in the window or before
    ]
    limit, seen = thresholds.dropped_connections, "; ".join([*drops, *full, *warned])
    reading = Reading.of_any(lost, opened + lost, limit, seen, OVERFLOW)
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


UDP_DROPS = ("udp_receive_buffer_errors_total", "udp_send_buffer_errors_total")
DROPS_SUSPECT = Consequence(
    "suspect",
    LOAD,
    "A full socket buffer dropped packets of QUIC: their requests waited until the packets were sent again.",
    "Raise net.core.rmem_max and net.core.wmem_max (tuning udp-buffers), or give the reader of the socket more CPU time.",
)


def _dropped_datagrams(evidence: Evidence, thresholds: Thresholds) -> Readings:
    """Read the datagrams that full buffers of sockets dropped on any host, in a trial of HTTP/3."""
    if evidence.record.protocol != "h3":
        return
    drops: dict[str, float] = {}
    received, unwatched, limit = 0.0, [], thresholds.dropped_datagrams
    for host in evidence.hosts:
        counts = [counter_increase(evidence, host, metric) for metric in ("udp_received_total", *UDP_DROPS)]
        known = [each for each in counts if each is not None]
        if len(known) < len(counts):
            unwatched.append(host)
            continue
        received += known[0]
        drops[host] = sum(known[1:])
    dropped = sum(drops.values())
    total = received + dropped
    where = ", ".join(host for host, number in drops.items() if number)
    seen = f"buffers of sockets dropped {units.count(dropped)} of {units.count(total)} datagrams on {where}"
    yield Reading.of_any(dropped, total, limit, seen, DROPS_SUSPECT)
    if unwatched:
        yield SkippedCheck(why=f"no telemetry of UDP on {', '.join(unwatched)}")


STOP_OTHERS = "Stop what else runs there, or wait until it has ended (--wait-idle)."
GENERATOR_CROWDED = Consequence(
    "disturbance",
    LOAD,
    "Others filled the cores of the load tool, so that it may have been the limit: two servers then look more alike than "
    "they are.",
    STOP_OTHERS,
)
SERVER_CROWDED = Consequence(
    "disturbance",
    RATES,
    "Others took CPU time from the server or from the load tool: with that time, something else may have been the "
    "limit.",
    STOP_OTHERS,
)


def _generator_use(evidence: Evidence, thresholds: Thresholds) -> Readings:
    """Read the CPU use of the busiest generator, thread or load host.

    A thread counts where it owns its connections. In a tool that hands work to any free thread, as Go programs do, one
    busy thread delays no request. Where other programs filled its cores, the finding is a disturbance: it brings a
    ratio closer to one and cannot cause a difference. A limit of one is never exceeded.
    """
    use, limit = generator_use(evidence), thresholds.generator_cpu
    if use is None:
        yield SkippedCheck(why="the CPUs of the load tool are not recorded")
        return
    if limit < 1:
        is_crowded = use.share >= limit and crowded_use(evidence, thresholds) is not None
        yield Reading(use.share, limit, use.text, units.share(limit), GENERATOR_CROWDED if is_crowded else None)
    unwatched = [host for host in evidence.load_hosts if generator_cores_busy(evidence, host) is None]
    if unwatched:
        yield SkippedCheck(why=f"no telemetry for the cores of {', '.join(unwatched)}")


def _server_use(evidence: Evidence, thresholds: Thresholds) -> Readings:
    """Read the CPU use of the busiest part of the stack.

    One full part is enough: a proxy waits while the server behind it works. Only for closed loops at full speed: at a
    target rate a server may well be idle. Other programs may have slowed it where it used most of what they left of its
    cores. They may also where they filled the cores of the load tool, unless the load tool itself waited.
    """
    if not evidence.closed_loop:
        return
    use, use_of_rest = server_use(evidence, deducts_others=False), server_use(evidence)
    limit = thresholds.server_cpu
    if use is None or use_of_rest is None:
        yield SkippedCheck(why="the server's CPU time or its CPUs are not recorded")
        return
    starved_load = (crowded_use(evidence, thresholds) or 0.0) >= STARVED
    is_crowded = STARVED <= use.share < limit and (use_of_rest.share >= limit or starved_load)
    yield Reading(use.share, limit, use.text, units.share(limit), SERVER_CROWDED if is_crowded else None)


def _link_use(evidence: Evidence, thresholds: Thresholds) -> Readings:
    """Read the bytes and packets of the fullest link of known rate, in one direction."""
    use, limit = link_use(evidence), thresholds.link
    if use is not None:
        yield Reading(use.share, limit, use.text, units.share(limit))
    unknown = unknown_links(evidence)
    if unknown:
        yield SkippedCheck(why=unknown)


TOO_MANY_IN_FLIGHT = Consequence(
    "invalid",
    LOAD,
    "More requests were in flight than connections and streams allow: the tool's rate or its latencies are wrong.",
    "Read the tool's raw output, and run the cell with a second tool.",
)
TOO_FEW_IN_FLIGHT = TOO_MANY_IN_FLIGHT._replace(
    means="Not all connections were in use: some hung or were not open, or the load tool could not keep up."
)


def _requests_in_flight(evidence: Evidence, thresholds: Thresholds) -> Readings:
    """Read the difference of rate times mean latency from the requests in flight of a closed loop.

    The mean must come from the raw histogram: wrk 4 prints one that includes its own correction. A mean is known to the
    resolution of the tool. Where connecting is not part of the latency, short connections spend an unknown part of
    their cycle on it. Requests that the end of a window interrupts have no latency. They had been in flight for at
    least half of the mean latency: the mean age in a renewal process (Cox, Renewal Theory, 1962, 5.2).
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
        rounding = rps * (evidence.number("latency_resolution_s") or 0.0) / expected
        window_s = record.slices[0].duration_s if record.slices else evidence.window_s
        cut_off = mean_s / 2 / window_s if in_flight < expected else 0.0
        streams = f" of {units.counted(record.load.streams, 'stream')}" if record.load.streams > 1 else ""
        yield Reading(
            abs(in_flight / expected - 1),
            limit + rounding + cut_off,
            f"{units.requests_per_s(rps)} \N{MULTIPLICATION SIGN} {units.seconds(mean_s)} = {in_flight:.3g} requests in "
            f"flight on {units.count(record.load.connections)} connections{streams}",
            f"a difference of {units.share(limit)}",
            TOO_FEW_IN_FLIGHT if in_flight < expected else TOO_MANY_IN_FLIGHT,
        )


def _gaps(evidence: Evidence, thresholds: Thresholds) -> Readings:
    """Read the longest gap between samples of each host, relative to its sampling interval.

    Slices are sampled at their edges alone, so that a longer slice is the interval.
    """
    slice_s = max((each.duration_s for each in evidence.record.slices), default=0.0)
    unsampled = set(evidence.hosts)
    for watch in evidence.record.watched:
        t_s = evidence.telemetry.sample_times(watch.host)
        if not t_s:
            continue
        unsampled.discard(watch.host)
        start_s, gap_s = _longest_gap(t_s, evidence.window_s)
        interval_s = max(watch.interval_s, slice_s)
        yield Reading(
            gap_s,
            thresholds.gap_intervals * interval_s,
            f"host {watch.host} took no sample for {units.seconds(gap_s)}, starting {start_s:.1f} s into the window",
            f"{thresholds.gap_intervals:g} intervals of {units.seconds(interval_s)}",
        )
    if unsampled:
        yield SkippedCheck(why=f"no telemetry of {', '.join(sorted(unsampled))}")


def _longest_gap(t_s: Sequence[float], window_s: float) -> tuple[float, float]:
    """Return (start, length) of the longest gap that reaches into the window, whose ends count as samples."""
    edges = [min(0.0, t_s[0]), *t_s, max(window_s, t_s[-1])]
    gaps = [(low, high - low) for low, high in pairwise(edges) if high > 0 and low < window_s]
    return max(gaps, key=lambda gap: gap[1])


EMPTY_SLICES = Consequence(
    "suspect",
    LOAD,
    "The server, or its host, stopped for longer than a slice: the rate includes that, percentiles hardly do.",
    "Look for what stops the server (garbage collection, a lock, swapping), and use longer slices (slice_s).",
)


def _answers_in_slices(evidence: Evidence, thresholds: Thresholds) -> Readings:
    """Read the mean number of answers in a slice, relative to its connections or streams, and the empty slices.

    A slice begins with new connections. Their first answers must come before its clock starts. Otherwise it counts
    fewer answers than the server gives, and of a slow server fewer than of a fast one. Under a target rate one
    connection is enough for most requests, so that the number of connections does not matter. The mean shows whether
    slices are long enough. An empty slice shows that nothing answered for its whole length, which the trial's rate
    includes.
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
    empty = [each.slice for each in evidence.slices if each.requests == 0]
    if empty and answers >= needed:
        first = f"the first of them slice {empty[0]}"
        seen = f"{units.counted(len(empty), 'slice')} of {length} had no answer at all, {first}"
        yield Reading(0, 1, seen, "an answer in every slice", EMPTY_SLICES)


LIMITS = (
    Limit(
        "overran",
        "the load tool did not end by itself after its window",
        _overruns,
        gt,
        Consequence(
            "suspect",
            ALL,
            "Its connections were not all established when its window ended, so that it went on with its load.",
            "Use fewer connections, a longer listen queue of the server, or another load tool, such as wrk.",
        ),
    ),
    Limit("errors", "requests failed", _failures, gt, FAILED),
    Limit(
        "other-sizes",
        "its answers have other sizes than expected",
        _answers_of_other_sizes,
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
        _resumed_handshakes,
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
        _fewest_connections,
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
        "missing-noise",
        "there were fewer slow and broken clients than requested",
        _least_noise,
        lt,
        Consequence(
            "invalid",
            ALL,
            "The server was measured beside fewer slow and broken clients than the cell states.",
            "Check the limits and time-outs of the server, and the open-file limit of the load host; or ask for less.",
        ),
    ),
    Limit(
        "ports-exhausted",
        "the client ran out of local ports",
        _ports_in_use,
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
        _lost_connections,
        gt,
        OVERFLOW,
        reads="servers",
    ),
    Limit(
        "udp-drops",
        "the kernel dropped datagrams of HTTP/3",
        _dropped_datagrams,
        gt,
        DROPS_SUSPECT,
        reads="hosts",
    ),
    Limit(
        "generator-saturated",
        "the load tool was the limit",
        _generator_use,
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
        _link_use,
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
        _requests_in_flight,
        gt,
        TOO_MANY_IN_FLIGHT,
    ),
    Limit(
        "stalled",
        "a host stopped for a while",
        _gaps,
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
        _server_use,
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
        _answers_in_slices,
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
