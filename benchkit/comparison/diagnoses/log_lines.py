"""Diagnosis log-lines: a server states in its log what limits it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping

from benchkit import units
from benchkit.comparison.diagnoses.diagnosis import Diagnosis, Symptom
from benchkit.comparison.diagnoses.evidence import CellEvidence

KNOWN: Mapping[str, str] = {
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
_PATTERNS = {re.compile(pattern): advice for pattern, advice in KNOWN.items()}
PER_TRIAL = 1
"""Lines for each trial, as a mean: a few in a whole run explain no difference of its means."""
SHOWN = 120
"""Characters of a line that are quoted."""


def _find(cell: CellEvidence, _other: CellEvidence) -> Iterator[Symptom]:
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


DIAGNOSIS = Diagnosis("log-lines", _find)
