"""Diagnoses of the work for each request: answers, files, garbage collection, and what logs state."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping

from benchkit import units
from benchkit.comparison.diagnoses.diagnosis import Diagnosis, Symptom
from benchkit.comparison.diagnoses.evidence import MARGIN, CellEvidence, mean, stands_out

MOST_PASSED_ON = 0.5
"""Requests to all servers behind, per request of the load, below which most answers come from elsewhere."""


def _passed_on(cell: CellEvidence) -> dict[str, float]:
    """Return the requests to each server behind per request of the load, where they are known."""
    found = {name: mean(cell.per_request("requests_total", name)) for name in cell.services if name != cell.entry}
    return {name: share for name, share in found.items() if share is not None}


def _cached_answers(cell: CellEvidence, other: CellEvidence) -> Iterator[Symptom]:
    """Yield answers that mostly never come from the server behind."""
    passed_on, others = _passed_on(cell), _passed_on(other)
    share = sum(passed_on.values())
    if passed_on and share <= MOST_PASSED_ON and MARGIN * share < (sum(others.values()) if others else 1.0):
        names = " and ".join(passed_on)
        yield Symptom(
            service=cell.entry,
            text=f"answers without {names}, as a cache does",
            evidence=f"{units.share(share)} of the requests reached {names}",
            next_step="Turn the cache off to compare the servers, or name it where you state the result.",
        )


CACHED_ANSWERS = Diagnosis("cached-answers", _cached_answers)


KNOWN_LINES: Mapping[str, str] = {
    r"\d* ?worker_connections are not enough": "Raise `worker_connections` of nginx.",
    r"(?:accept\d?|socket|open)\S*:? ?.{0,80}[Tt]oo many open files": "Raise the limit of open files (`nofile`).",
    r"no live upstreams while connecting to upstream": "Look at the upstream's log: it failed, and nginx gave it up.",
    r"upstream timed out": "Look at what the upstream waits for.",
    r"connect\(\) .{0,120}Cannot assign requested address": "Keep connections to the upstream: ports ran out.",
    r"an upstream response is buffered to a temporary file": "Raise `proxy_buffers` of nginx.",
    r"a client request body is buffered to a temporary file": "Raise `client_body_buffer_size` of nginx.",
    r"server reached (?:pm\.max_children|MaxRequestWorkers) setting": "Allow more workers.",
    r"[Oo]ut of memory|ENOMEM|JavaScript heap out of memory": "Give the server more memory.",
}
"""Lines that servers write, and what to do."""
_PATTERNS = {re.compile(pattern): advice for pattern, advice in KNOWN_LINES.items()}
PER_TRIAL = 1
"""Lines for each trial, as a mean: a few in a whole run explain no difference of its means."""
SHOWN = 120
"""Characters of a line that are quoted."""


def _log_lines(cell: CellEvidence, _other: CellEvidence) -> Iterator[Symptom]:
    """Yield what a server states in its log about its limits."""
    found: Counter[tuple[str, re.Pattern[str]]] = Counter()
    first: dict[tuple[str, re.Pattern[str]], str] = {}
    for service, line in cell.log_lines():
        for pattern in _PATTERNS:
            match = pattern.search(line)
            if match is not None:
                found[service, pattern] += 1
                first.setdefault((service, pattern), match[0][:SHOWN])
    for (service, pattern), times in found.most_common():
        if times < PER_TRIAL * len(cell.records):
            break
        yield Symptom(
            service=service,
            text=f"states \N{LEFT DOUBLE QUOTATION MARK}{first[service, pattern]}\N{RIGHT DOUBLE QUOTATION MARK}",
            evidence=f"{units.counted(times, 'line')} in its log",
            next_step=_PATTERNS[pattern],
        )


LOG_LINES = Diagnosis("log-lines", _log_lines)


LEAST_COLLECTING = 0.2
"""Share of a server's CPU time from which on garbage collection is a symptom."""


def _collecting_share(cell: CellEvidence, name: str) -> tuple[float | None, str]:
    """Return the share of a service's CPU time that garbage collection uses, and the source of the figure."""
    share = mean(cell.share_of("gc", name))
    if share is not None:
        return share, "by its profile"
    counted = (mean(cell.per_second(each, name)) for each in ("gc_cpu_s_total", "gc_pause_s_total"))
    collecting = next((each for each in counted if each is not None), None)  # Node states its pauses
    used = mean(cell.per_second("cpu_s_total", name))
    return (collecting / used if collecting is not None and used else None), "by its runtime"


def _collects_garbage(cell: CellEvidence, other: CellEvidence) -> Iterator[Symptom]:
    """Yield garbage collection that uses more than a fifth of the CPU time of a server."""
    others = max((_collecting_share(other, name)[0] or 0.0 for name in other.services), default=0.0)
    for name in cell.services:
        share, source = _collecting_share(cell, name)
        if share is not None and stands_out(share, others, LEAST_COLLECTING):
            size = mean(cell.per_request("allocated_bytes_total", name))
            allocated = f"; {units.size(size)} allocated per request" if size is not None else ""
            yield Symptom(
                service=name,
                text="collects garbage for much of its CPU time",
                evidence=f"{units.share(share)} of its CPU time {source}{allocated}",
                next_step="Allocate less for each request, reuse buffers, or raise GOGC.",
            )


GARBAGE_COLLECTION = Diagnosis("garbage-collection", _collects_garbage)


LEAST_WRITTEN_BYTES = 16.0
"""Bytes for each request: the shortest lines of access logs have more."""


def _writes_to_file(cell: CellEvidence, other: CellEvidence) -> Iterator[Symptom]:
    """Yield requests that each write to a file on a disk, as an access log does."""
    others = mean(other.per_request("storage_written_bytes_total"))
    for name in cell.services:
        written = mean(cell.per_request("storage_written_bytes_total", name))
        if written is not None and stands_out(written, others, LEAST_WRITTEN_BYTES):
            yield Symptom(
                service=name,
                text="writes to a file for each request",
                evidence=f"{units.size(written)} per request",
                next_step="Turn its access log off or buffer it (nginx: `access_log off`, or `buffer=64k`).",
            )


FILE_WRITES = Diagnosis("file-writes", _writes_to_file)


SIZE_RATIO = 1.25
"""Ratio of the sizes, headers included, that is a symptom: header fields alone make short answers differ by less."""
LEAST_SIZE_BYTES = 256
"""Difference of the sizes that is a symptom: transferring fewer bytes costs nothing measurable."""


def _answer_sizes(cell: CellEvidence, other: CellEvidence) -> Iterator[Symptom]:
    """Yield answers that are compressed, or of another size."""
    own, theirs = mean(cell.bytes_per_request), mean(other.bytes_per_request)
    if (
        own is None
        or theirs is None
        or abs(own - theirs) < LEAST_SIZE_BYTES
        or max(own, theirs) < SIZE_RATIO * min(own, theirs)
    ):
        return
    encodings = _encodings(cell)
    sizes = f"{units.size(own)} an answer against {units.size(theirs)}"
    if encodings:
        named = " and ".join(sorted(encodings))
        step = "Compare with the same encoding, or state the CPU time that compression takes."
        yield Symptom(service=cell.entry, text=f"compresses its answers ({named})", evidence=sizes, next_step=step)
    elif own > theirs and not _encodings(other):
        step = "Let both servers send the same answer."
        yield Symptom(service=cell.entry, text="sends larger answers", evidence=sizes, next_step=step)


def _encodings(cell: CellEvidence) -> set[str]:
    return {
        value.strip().lower()
        for record in cell.records
        for probe in record.probes
        for name, value in probe.headers
        if name.lower() == "content-encoding"
    }


ANSWER_SIZES = Diagnosis("answer-sizes", _answer_sizes)
