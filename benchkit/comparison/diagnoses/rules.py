"""Known causes of differences between two cells, as a table of rules with their evidence.

The table has the text and the next step of each symptom, and a function that finds the service and the figures. In a
closed loop, requests on N connections at a rate X take N/X each, whatever they wait for (Little's law). So a latency
near N/X shows a queue, and no other cause.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping

import numpy as np

from benchkit import units
from benchkit.comparison.diagnoses.evidence import (
    MARGIN,
    CellEvidence,
    Diagnosis,
    Symptom,
    all_above,
    is_as_busy,
    mean,
    stands_out,
)
from benchkit.judge.load_curve import DELAYED_S
from benchkit.models.metrics import CPU
from benchkit.registry import Registry
from benchkit.stats.samples import Reals, log_left

LEAST_OPENED = 0.5
"""Connections per request, from which on most requests open one."""


def _opened(cell: CellEvidence) -> float | None:
    """Return the connections to upstream servers that a request opens; None: no upstream, or unknown."""
    behind = [name for name in cell.services if name != cell.entry]
    if not behind:
        return None
    accepted = [mean(cell.per_request("connections_accepted_total", name)) for name in behind]
    if known := [number for number in accepted if number is not None]:
        return max(known)
    opened = mean(cell.per_request("tcp_active_opens_total", host_wide=True))
    opened_by_load = 1.0 if cell.shares_load_host and not cell.keeps_connections else 0.0
    return None if opened is None else opened - opened_by_load


def _upstream_connections(cell: CellEvidence, other: CellEvidence) -> Iterator[Symptom]:
    number = _opened(cell)
    if number is not None and stands_out(number, _opened(other), LEAST_OPENED):
        yield Symptom(service=cell.entry, evidence=f"{number:.2f} connections per request")


MOST_PASSED_ON = 0.5
"""Requests to all upstream servers, per request of the load, up to which a cache gives most answers."""


def _passed_on(cell: CellEvidence) -> dict[str, float]:
    """Return the requests to each upstream server per request of the load, where they are known."""
    found = {name: mean(cell.per_request("requests_total", name)) for name in cell.services if name != cell.entry}
    return {name: share for name, share in found.items() if share is not None}


def _cached_answers(cell: CellEvidence, other: CellEvidence) -> Iterator[Symptom]:
    passed_on, others = _passed_on(cell), _passed_on(other)
    share = sum(passed_on.values())
    if passed_on and share <= MOST_PASSED_ON and MARGIN * share < (sum(others.values()) if others else 1.0):
        names = " and ".join(passed_on)
        yield Symptom(
            service=cell.entry,
            text=f"answers without {names}, as a cache does",
            evidence=f"{units.share(share)} of the requests reached {names}",
        )


MOST_DELAYED = 0.5
"""Share of delayed requests above which they are the main mode of the latencies, which a queue explains as well."""
LEAST_IDLE = 0.5
"""Share of the waits for sockets from which on a traced server is idle while requests wait."""


def _nagle(cell: CellEvidence, other: CellEvidence) -> Iterator[Symptom]:
    late, others = (each.latency.share(*DELAYED_S) for each in (cell, other))
    is_second_mode = late <= MOST_DELAYED and cell.is_far_from_queue(*DELAYED_S) and cell.latency.is_peak(*DELAYED_S)
    idle = cell.idle_share
    is_idle = idle is None or idle >= LEAST_IDLE
    if cell.keeps_connections and is_second_mode and is_idle and stands_out(late, others, 0.0):
        low, high = (units.seconds(end) for end in DELAYED_S)
        traced = "" if idle is None else f"; {units.share(idle)} of its threads' waits are for sockets, not the CPU"
        yield Symptom(evidence=f"{units.share(late)} of the requests take {low} to {high}{traced}")


REPEATED_S = ((1.0, 1.25), (3.0, 3.25))
"""Latencies after one and two lost attempts: Linux repeats a SYN after 1 s (TCP_TIMEOUT_INIT, RFC 6298), then after
twice that time."""
LEAST_REPEATED = 0.0005
"""Share of requests in a peak. It is small, as a load that keeps its connections makes few attempts to connect."""
DROPPED = ("listen_overflows_total", "listen_drops_total", "req_queue_full_drops_total")


def _syn_retransmits(cell: CellEvidence, other: CellEvidence) -> Iterator[Symptom]:
    peaks = [
        peak
        for peak in REPEATED_S
        if cell.is_far_from_queue(*peak) and cell.latency.is_peak(*peak, least=LEAST_REPEATED)
    ]
    lost, others = (sum(mean(c.per_second(name, host_wide=True)) or 0.0 for name in DROPPED) for c in (cell, other))
    if peaks and stands_out(lost, others, 0.0):
        shares = " and ".join(f"{units.share(cell.latency.share(*peak))} take {peak[0]:g} s" for peak in peaks)
        text = f"of the requests, {shares}; {units.rate(lost)} attempts a second were dropped"
        yield Symptom(service=cell.entry, evidence=text)


LEAST_THROTTLED = 0.1
"""Share of throttled periods below which a quota hardly limits the rate."""
TIMES_THROTTLED = 2.0
"""Ratio to the other cell's share that is a symptom: quotas may throttle both cells."""
FULL_QUOTA = 0.8
"""Used share of a quota smaller than the other cell's, from which on it limits the rate."""
PERIODS = (("quota_throttled_total", "quota_periods_total"), ("cgroup_throttled_total", "cgroup_periods_total"))
"""Counters of throttled periods and of all periods: of the services' own cgroups, and of their hosts' cgroups."""


def _quota_periods(cell: CellEvidence, other: CellEvidence) -> Iterator[Symptom]:
    share, others = _throttled(cell), _throttled(other)
    quota, others_quota, used = _quota(cell), _quota(other), mean(cell.cores_used)
    is_equal = math.isfinite(quota) and quota == others_quota  # a quota of both cells explains no difference
    seen = []
    if share >= LEAST_THROTTLED and share >= TIMES_THROTTLED * others and not is_equal:
        seen.append(f"{units.share(share)} of the quota's periods end throttled")
    if used is not None and quota < others_quota and used >= FULL_QUOTA * quota:
        seen.append(f"it uses {units.ratio(used)} of the {quota:g} CPUs of its quota")
    if seen:
        yield Symptom(evidence="; ".join(seen))


def _quota(cell: CellEvidence) -> float:
    """Return the CPU quota that all services of a cell share; infinite: none is recorded."""
    return min((each.quota or math.inf for record in cell.records for each in record.services), default=math.inf)


def _throttled(cell: CellEvidence) -> float:
    """Return the largest share of periods that ended throttled; 0 without a quota."""
    found = [0.0]
    for throttled, periods in PERIODS:
        of_hosts = throttled.startswith("cgroup")
        for service in (None,) if of_hosts else cell.services:
            stopped, all_of_them = (cell.per_second(each, service, host_wide=of_hosts) for each in (throttled, periods))
            if len(stopped) == len(all_of_them) and all_of_them.sum() > 0:
                found.append(float(stopped.sum() / all_of_them.sum()))
    return max(found)


LEAST_WAITING = 1.0
"""Goroutines that wait for a lock at any time, as a mean."""


def _lock_waits(cell: CellEvidence, other: CellEvidence) -> Iterator[Symptom]:
    others = mean(other.per_second("mutex_wait_s_total"))
    for name in cell.services:
        waiting = mean(cell.per_second("mutex_wait_s_total", name))
        if waiting is not None and stands_out(waiting, others, LEAST_WAITING):
            wait = mean(cell.per_request("mutex_wait_s_total", name)) or 0.0
            evidence = f"{units.seconds(wait)} for each request; {waiting:.1f} goroutines wait at any time"
            yield Symptom(service=name, evidence=evidence)


MOST_OF_ONE = 0.8
"""Share of the workers' CPU time that one of them uses alone."""


def _one_worker(cell: CellEvidence, other: CellEvidence) -> Iterator[Symptom]:
    most = max((each.busiest / each.workers for each in other.workers), default=0.0)
    for each in cell.workers:
        share = each.busiest / each.workers
        several = [record.parallelism != 1 for record in cell.service_records(each.service)]
        is_uneven = share >= MOST_OF_ONE and MARGIN * (1 - share) < 1 - most
        if is_uneven and several and all(several):  # nginx with one worker has a process for its cache, too
            evidence = f"one of {each.workers} workers used {units.share(share)} of their CPU time"
            yield Symptom(service=each.service, evidence=evidence)


ONE_THREAD = (0.9, 1.05)
"""CPU cores that a service uses if one thread is always busy and the others are idle."""
MORE_CORES = 1.3
"""Ratio of the other cell's cores, from which on one thread is a limit."""


def _one_thread(cell: CellEvidence, other: CellEvidence) -> Iterator[Symptom]:
    used, others = mean(cell.cores_used), mean(other.cores_used)
    for name in cell.services:
        of_service = cell.per_second("cpu_s_total", name)
        allowed = min((len(each.cpus) for each in cell.service_records(name)), default=1)
        if not len(of_service) or used is None or others is None or allowed <= 1 or others < MORE_CORES * used:
            continue
        if ONE_THREAD[0] <= of_service.min() and of_service.max() <= ONE_THREAD[1]:
            evidence = (
                f"it used {units.ratio(float(of_service.mean()))} of {allowed} CPUs, and the other cell "
                f"{units.ratio(others)}"
            )
            yield Symptom(
                service=name,
                text="works on one thread",
                evidence=evidence,
                next_step="Start as many workers as it has CPUs.",
            )


def _one_busy(cell: CellEvidence, other: CellEvidence) -> Iterator[Symptom]:
    yield from _one_worker(cell, other)
    yield from _one_thread(cell, other)


KNOWN_LINES: Mapping[str, str] = {
    r"\d* ?worker_connections are not enough": "Raise `worker_connections` of nginx.",
    r"(?:accept\d?|socket|open)\S*:? ?.{0,80}[Tt]oo many open files": "Raise the limit of open files (`nofile`).",
    r"no live upstreams while connecting to upstream": "Look at the upstream's log: it failed, and nginx stopped using it.",
    r"upstream timed out": "Look at what the upstream waits for.",
    r"connect\(\) .{0,120}Cannot assign requested address": "Keep connections to the upstream: ports ran out.",
    r"an upstream response is buffered to a temporary file": "Raise `proxy_buffers` of nginx.",
    r"a client request body is buffered to a temporary file": "Raise `client_body_buffer_size` of nginx.",
    r"server reached (?:pm\.max_children|MaxRequestWorkers) setting": "Allow more workers.",
    r"[Oo]ut of memory|ENOMEM|JavaScript heap out of memory": "Give the server more memory.",
}
"""Patterns of lines that servers write, with the next step."""
_PATTERNS = {re.compile(pattern): advice for pattern, advice in KNOWN_LINES.items()}
PER_TRIAL = 1
"""Fewest lines per trial, as a mean: a few in a whole run explain no difference of means."""
SHOWN = 120
"""Characters of a line that are quoted."""


def _log_lines(cell: CellEvidence, _other: CellEvidence) -> Iterator[Symptom]:
    found: Counter[tuple[str, re.Pattern[str]]] = Counter()
    first: dict[tuple[str, re.Pattern[str]], str] = {}
    for service, line in cell.log_lines():
        for pattern in _PATTERNS:
            if match := pattern.search(line):
                found[service, pattern] += 1
                first.setdefault((service, pattern), match[0][:SHOWN])
    for (service, pattern), times in found.most_common():
        if times >= PER_TRIAL * len(cell.records):
            yield Symptom(
                service=service,
                text=f"states \N{LEFT DOUBLE QUOTATION MARK}{first[service, pattern]}\N{RIGHT DOUBLE QUOTATION MARK}",
                evidence=f"{units.counted(times, 'line')} in its log",
                next_step=_PATTERNS[pattern],
            )


LEAST_COLLECTING = 0.2
"""Share of a server's CPU time from which on garbage collection is a symptom."""


def _collecting_share(cell: CellEvidence, name: str) -> tuple[float | None, str]:
    """Return the share of a service's CPU time that garbage collection uses, and the source of that figure."""
    share = mean(cell.share_of("gc", name))
    if share is not None:
        return share, "by its profile"
    counted = (mean(cell.per_second(each, name)) for each in ("gc_cpu_s_total", "gc_pause_s_total"))
    collecting = next((each for each in counted if each is not None), None)  # Node states its pauses
    used = mean(cell.per_second("cpu_s_total", name))
    return (collecting / used if collecting is not None and used else None), "by its runtime"


def _garbage_collection(cell: CellEvidence, other: CellEvidence) -> Iterator[Symptom]:
    others = max((_collecting_share(other, name)[0] or 0.0 for name in other.services), default=0.0)
    for name in cell.services:
        share, source = _collecting_share(cell, name)
        if share is not None and stands_out(share, others, LEAST_COLLECTING):
            size = mean(cell.per_request("allocated_bytes_total", name))
            allocated = f"; {units.size(size)} allocated per request" if size is not None else ""
            yield Symptom(service=name, evidence=f"{units.share(share)} of its CPU time {source}{allocated}")


LEAST_WRITTEN_BYTES = 16.0
"""Fewest bytes per request: even a short line of an access log has more."""


def _file_writes(cell: CellEvidence, other: CellEvidence) -> Iterator[Symptom]:
    others = mean(other.per_request("storage_written_bytes_total"))
    for name in cell.services:
        written = mean(cell.per_request("storage_written_bytes_total", name))
        if written is not None and stands_out(written, others, LEAST_WRITTEN_BYTES):
            yield Symptom(service=name, evidence=f"{units.size(written)} per request")


SIZE_RATIO = 1.25
"""Ratio of the sizes, headers included, that is a symptom: header fields alone change a short answer by less."""
LEAST_SIZE_BYTES = 256
"""Difference of the sizes that is a symptom: the cost of fewer bytes is not measurable."""


def _answer_sizes(cell: CellEvidence, other: CellEvidence) -> Iterator[Symptom]:
    own, theirs = mean(cell.bytes_per_request), mean(other.bytes_per_request)
    if own is None or theirs is None or abs(own - theirs) < LEAST_SIZE_BYTES:
        return
    if max(own, theirs) < SIZE_RATIO * min(own, theirs):
        return
    evidence = f"{units.size(own)} per answer against {units.size(theirs)}"
    if encodings := _encodings(cell):
        yield Symptom(
            service=cell.entry,
            text=f"compresses its answers ({' and '.join(sorted(encodings))})",
            evidence=evidence,
            next_step="Compare with the same encoding, or state the CPU time that compression takes.",
        )
    elif own > theirs and not _encodings(other):
        yield Symptom(service=cell.entry, evidence=evidence)


def _encodings(cell: CellEvidence) -> set[str]:
    probes = (probe for record in cell.records for probe in record.probes)
    headers = (header for probe in probes for header in probe.headers)
    return {value.strip().lower() for name, value in headers if name.lower() == "content-encoding"}


def _shared_cores(cell: CellEvidence, _other: CellEvidence) -> Iterator[Symptom]:
    machines = {host.name: host.facts.boot_id or host.name for host in cell.tables.run.manifest.hosts}
    used = {(machines.get(each.host, each.host), cpu) for r in cell.records for each in r.services for cpu in each.cpus}
    loaded = {
        (machines.get(each.host, each.host), cpu) for r in cell.records for each in r.generators for cpu in each.cpus
    }
    cores = {(machines[host.name], cpus) for host in cell.host_records for cpus in host.facts.shared_cores}
    shared = [
        cpus
        for machine, cpus in sorted(cores)
        if (own := {cpu for cpu in cpus if (machine, cpu) in used})
        and {cpu for cpu in cpus if (machine, cpu) in loaded} - own
    ]
    if shared:
        yield Symptom(evidence="; ".join(f"CPUs {' and '.join(map(str, cpus))} are one core" for cpus in shared))


CLOCK_RATIO = 1.03
"""Ratio of the clock rates, from which on they explain a difference."""


def _clock_rate(cell: CellEvidence, other: CellEvidence) -> Iterator[Symptom]:
    own, theirs = _clock_rates(cell), _clock_rates(other)
    if all_above(theirs, own, CLOCK_RATIO) and is_as_busy(cell, other):  # idle cores clock down
        is_turbo = any(host.facts.turbo for host in cell.host_records)
        rates = f"{own.mean() / 1e9:.2f} GHz against {theirs.mean() / 1e9:.2f} GHz"
        yield Symptom(evidence=f"{rates}{'; turbo is on' if is_turbo else ''}")


def _clock_rates(cell: CellEvidence) -> Reals:
    rows = cell.tables.telemetry
    rows = rows[(rows["metric"] == "cpu_frequency_hz") & rows["host"].isin(cell.hosts)]
    rows = rows[rows["trial_id"].isin(cell.trials["trial_id"])]
    return rows.groupby("trial_id")["value"].mean().to_numpy(dtype=np.float64)


FAST = 0.05
"""Quantile of the fastest requests, which wait least for other requests."""
LEAST_WAIT_S = 0.0005
"""Shortest wait that is longer than the scheduling of threads."""
TIMES_QUEUE = 2.0
"""Ratio to the longest wait for the CPU. This is connections times CPU time over cores, by the response time law
(Denning and Buzen, The Operational Analysis of Queueing Network Models, 1978)."""


def _waits(cell: CellEvidence, other: CellEvidence) -> Iterator[Symptom]:
    own, theirs = cell.latency.quantile(FAST), other.latency.quantile(FAST)
    queue_s = _cpu_queue_s(cell)
    if own is None or theirs is None or queue_s is None:
        return
    if own - theirs >= LEAST_WAIT_S and own >= TIMES_QUEUE * queue_s:
        delayed = DELAYED_S[0] <= own <= DELAYED_S[1]
        hint = " 40 ms may be delayed acknowledgements: set TCP_NODELAY, or send each answer in one piece."
        yield Symptom(
            evidence=f"its fastest requests take {units.seconds(own)} against {units.seconds(theirs)}; the CPU time of "
            f"requests on all connections explains {units.seconds(queue_s)}",
            next_step=WAITS_STEP + hint if delayed else WAITS_STEP,
        )


WAITS_STEP = (
    "Look for a timer, a call to another server, a lock, a quota, or workers that all connections queue for. With fewer "
    "connections a queue is shorter."
)


def _cpu_queue_s(cell: CellEvidence) -> float | None:
    """Return the time that the cores need for a request of each connection, beside other programs; None: unknown."""
    cores = [
        min(len(service.cpus) or np.inf, service.quota or np.inf) for each in cell.records for service in each.services
    ]
    busy_s = cell.trials["connections"].astype("float64") * cell.trials[CPU].astype("float64")
    for column in ("foreign_share", "stolen_share"):
        busy_s /= np.exp(log_left(cell.trials[column].fillna(0.0).to_numpy(dtype=np.float64)))
    busy_s = busy_s.dropna()
    if not len(busy_s) or not cores or not np.isfinite(cores).all():
        return None
    return float(busy_s.mean()) / min(cores)


SWITCH_RATIO = 3.0
"""Ratio of the switches for each request; their number varies with the load on a core."""
LEAST_SWITCHES = {"voluntary": 0.5, "involuntary": 1.0}
"""Switches for each request. Busy neighbours alone force some."""
SWITCH_S = 5e-6
"""CPU time of a switch, and of filling caches again: 3.8 µs and more (Li, Ding and Shen, Quantifying the Cost of
Context Switch, 2007)."""
LEAST_EXPLAINED = 0.5
"""Share of the difference in CPU time per request that the switches explain. Where a request takes longer, workers
fall idle or are interrupted more often, which explains a few hundredths of it."""


def _context_switches(cell: CellEvidence, other: CellEvidence) -> Iterator[Symptom]:
    cpu_s, others_s = (each.trials[CPU].astype("float64").mean() for each in (cell, other))
    for kind, least in LEAST_SWITCHES.items():
        own, theirs = (each.per_request(f"{kind}_switches_total") for each in (cell, other))
        if not all_above(own, theirs, SWITCH_RATIO) or own.mean() < least:
            continue
        explained_s = SWITCH_S * (own.mean() - theirs.mean())
        is_cause = 0 < LEAST_EXPLAINED * (cpu_s - others_s) <= explained_s
        if is_cause and is_as_busy(cell, other):  # a server without a queue sleeps after each request
            yield Symptom(
                text=f"switches threads often ({kind} context switches)",
                evidence=f"{own.mean():.2f} per request against {theirs.mean():.2f}",
            )


_ALL = (
    Diagnosis(
        "upstream-connections",
        _upstream_connections,
        "opens a connection to its upstream for nearly every request",
        "Keep connections to the upstream: nginx needs `keepalive` there, and before 1.29.7 `proxy_http_version 1.1` with "
        "an empty `Connection` header.",
    ),
    Diagnosis(
        "cached-answers",
        _cached_answers,
        next_step="Turn the cache off to compare the servers, or name it where you state the result.",
    ),
    Diagnosis(
        "nagle",
        _nagle,
        "waits for delayed acknowledgements (Nagle's algorithm)",
        "Send each answer in one piece, or set TCP_NODELAY (nginx: `tcp_nodelay on`).",
    ),
    Diagnosis(
        "syn-retransmits",
        _syn_retransmits,
        "loses attempts to connect, which clients repeat after a second",
        "Raise the listen backlog of the server and net.core.somaxconn.",
    ),
    Diagnosis(
        "quota-periods",
        _quota_periods,
        "is stopped by its CPU quota",
        "Give it a larger quota, or compare at equal quotas.",
    ),
    Diagnosis(
        "lock-waits",
        _lock_waits,
        "waits for a lock",
        "Hold the lock for less time, or divide what it protects; Go's mutex profile names it.",
    ),
    Diagnosis(
        "one-busy",
        _one_busy,
        "leaves the work to one of its workers",
        "Let workers share connections: `reuseport`, or `accept_mutex off` with more connections.",
    ),
    Diagnosis("log-lines", _log_lines),
    Diagnosis(
        "garbage-collection",
        _garbage_collection,
        "collects garbage for much of its CPU time",
        "Allocate less for each request, reuse buffers, or raise GOGC.",
    ),
    Diagnosis(
        "file-writes",
        _file_writes,
        "writes to a file for each request",
        "Turn its access log off or buffer it (nginx: `access_log off`, or `buffer=64k`).",
    ),
    Diagnosis("answer-sizes", _answer_sizes, "sends larger answers", "Let both servers send the same answer."),
    Diagnosis(
        "shared-cores",
        _shared_cores,
        "shares cores with its load (hardware threads of SMT)",
        "Give servers and load CPUs of different cores, or other hosts.",
    ),
    Diagnosis(
        "clock-rate", _clock_rate, "ran at a lower clock rate", "Turn turbo off, and set the governor to `performance`."
    ),
    Diagnosis("waits", _waits, "waits without using the CPU"),
    Diagnosis(
        "context-switches",
        _context_switches,
        next_step="`benchkit run --trace` shows what its threads wait for; fewer threads or larger batches help.",
    ),
)

DIAGNOSES: Registry[Diagnosis] = Registry(
    "benchkit.diagnoses", {each.code: each for each in _ALL}, Diagnosis, lambda each: each.code
)
"""All diagnoses by code, including those of plugins; the most specific come first."""
