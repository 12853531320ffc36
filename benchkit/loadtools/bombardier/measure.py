"""Measurement of every request of bombardier, from its output through `TEMPLATE`: the number at each microsecond."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from benchkit.errors import ParseError
from benchkit.loadtools.measurement import Counters, Measurement
from benchkit.loadtools.text import errors_of, excerpt
from benchkit.loadtools.tool import ParsedOutput, ToolOutput
from benchkit.models.histogram import Histogram
from benchkit.models.load_result import Latency, Note
from benchkit.units import counted

DIGITS = 5
RESOLUTION_S = 1e-6
CLASSES = ("1", "2", "3", "4", "5")
"""Classes of statuses in the order in which they are printed; the last figure is of requests without an answer."""

_BLOCK = re.compile(
    r"^--- benchkit counters of bombardier 1\n"
    r"duration_ns ([0-9]{1,18})\nbytes ([0-9]{1,18})\nstatus ([0-9]{1,18}(?: [0-9]{1,18}){5})\n"
    r"((?:error [0-9]{1,18} [0-9a-f]*\n)*)((?:share [0-9.]{1,8} [0-9]{1,15}\n)*)((?:[0-9]{1,15} [0-9]{1,15}\n)*)"
    r"--- end of benchkit counters of bombardier$",
    re.MULTILINE,
)


@dataclass(frozen=True)
class BombardierCounters:
    """The figures that the template prints; times are microseconds."""

    duration_s: float
    bytes_read: int
    statuses: Mapping[str, int]
    """Answers by the first digit of their status, those that occurred."""
    unanswered: int
    errors: Mapping[str, int]
    shares: Mapping[float, int]
    """Time that a share of the requests did not exceed."""
    times: Mapping[int, int]
    """Requests by their time; empty where the longest is beyond `LONGEST_US`."""

    @property
    def requests(self) -> int:
        """All requests, those without an answer included: each has a time."""
        return sum(self.statuses.values()) + self.unanswered


def measure(output: ToolOutput) -> ParsedOutput:
    """Return what bombardier measured. Raises ParseError where its counters are missing or contradict each other."""
    counters = read_counters(output.stdout)
    measured = _measurement(counters, sum(counters.statuses.values()))
    result = measured.result(duration_s=counters.duration_s, failed=counters.unanswered)
    if counters.requests and not counters.times:
        return ParsedOutput(result.model_copy(update={"latency": _latency(counters)}), None)
    return ParsedOutput(result, measured)


def read_counters(text: str) -> BombardierCounters:
    """Return the counters. Raises ParseError where they are missing, incomplete or contradict each other."""
    blocks = _BLOCK.findall(text)
    if len(blocks) != 1:
        raise ParseError("bombardier did not print all its counters", where="bombardier", hint="did it end by itself?")
    duration_ns, length, statuses, errors, shares, times = blocks[0]
    numbers = [int(number) for number in statuses.split()]
    counters = BombardierCounters(
        duration_s=int(duration_ns) / 1e9,
        bytes_read=int(length),
        statuses={name: number for name, number in zip(CLASSES, numbers, strict=False) if number},
        unanswered=numbers[-1],
        errors=dict(_read_errors(errors)),
        shares={float(share): int(time) for _, share, time in map(str.split, shares.splitlines())},
        times={int(time): int(number) for time, number in map(str.split, times.splitlines())},
    )
    counted_times = sum(counters.times.values())
    if counters.times and counted_times != counters.requests:
        raise ParseError(f"{counters.requests} requests, but {counted_times} times", where="bombardier")
    return counters


def _read_errors(lines: str) -> Iterator[tuple[str, int]]:
    for line in lines.splitlines():
        _, number, message = line.split(" ")
        yield bytes.fromhex(message).decode(errors="replace"), int(number)


def _measurement(counters: BombardierCounters, answered: int) -> Measurement:
    cells = np.array(sorted(counters.times.items()), np.int64).reshape(-1, 2)
    return Measurement(
        tool="bombardier",
        histograms={"raw": Histogram.from_microseconds(*cells.T, digits=DIGITS)} if counters.times else {},
        counters=Counters(
            requests=answered,
            recorded=counters.requests,
            bytes_total=counters.bytes_read,
            non_2xx=answered - counters.statuses.get("2", 0),
            errors=errors_of(counters.errors, max(0, counters.unanswered - sum(counters.errors.values()))),
        ),
        resolution_s=RESOLUTION_S,
        covers="connect+request",
        complete=True,
        duration_s=counters.duration_s,
        notes=tuple(_notes(counters)),
    )


def _latency(counters: BombardierCounters) -> Latency:
    """Return the latency from percentiles alone, where the template printed no number at each microsecond."""
    return Latency(
        max_s=counters.shares[1.0] / 1e6 if 1.0 in counters.shares else None,
        percentiles={f"{100 * share:.10g}": time / 1e6 for share, time in counters.shares.items() if share < 1},
        resolution_s=RESOLUTION_S,
        covers="connect+request",
        corrected=False,
    )


def _notes(counters: BombardierCounters) -> Iterator[Note]:
    if counters.requests and not counters.times:
        message = f"a request took {counters.shares.get(1.0, 0) / 1e6:.3g} s: bombardier printed percentiles alone"
        yield Note(code="bombardier-percentiles", message=message)
    if counters.unanswered:
        message = f"the latencies include {counted(counters.unanswered, 'request')} without an answer"
        yield Note(code="bombardier-unanswered", message=message)
    if counters.errors:
        kinds = "; ".join(f"{n} times {excerpt(message)}" for message, n in list(counters.errors.items())[:3])
        yield Note(code="bombardier-errors", message=f"errors: {kinds}")
