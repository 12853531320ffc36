"""Measurement of every request of wrk, from the histogram that `histogram.lua` prints, with wrk's additions removed.

Behaviour of wrk, read from its source (4.0.0, 4.1.0 and 4.2.0 alike: src/stats.c, wrk.c, script.c):

- Every answer's time, in whole microseconds, is counted in an array with a cell for each up to the timeout. A longer
  time is an error of the kind `timeout` instead; so is one that the clock (gettimeofday) makes negative.
- Before it prints, and before it calls done(), it adds samples for coordinated omission to that array. The interval is
  e = runtime_us ÷ (requests ÷ connections), in integers and with the connections of its option. A time n adds samples
  at n - e, n - 2e, … as long as they are above e. Nothing is added where there are fewer requests than connections.
- It reads the array upwards and adds only to lower times, which it has read before. So the additions depend on measured
  times alone: corrected(m) = raw(m) + raw(m + e) + raw(m + 2e) + …, for m above e. Therefore
  raw(m) = corrected(m) - corrected(m + e).
- Its lowest and highest time stay those measured. Additions below the lowest are seen neither in its figures nor in
  Lua. They need a lowest time above e, although even the mean of a closed loop is below e.

Raw counts + timeouts = requests, exactly, whether or not other requests failed. Requests still open at the end and
errors of connect, read and write are in neither; an answer with an error status is in both.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from benchkit.errors import ParseError
from benchkit.loadtools.measurement import Counters, LatencySeries, Measurement
from benchkit.loadtools.text import excerpt
from benchkit.loadtools.tool import ParsedOutput
from benchkit.models.histogram import Histogram, Integers
from benchkit.models.load_result import Errors, LoadResult, Note

DIGITS = 5
"""Exact up to 0.26 s, then steps of 2, 4, 8 µs up to 2.1 s. wrk prints coarser ones: 10 µs, then 10 ms."""
RESOLUTION_S = 1e-6

_BLOCK = re.compile(
    r"^--- benchkit latency histogram 1\n(.*?)^--- end of benchkit latency histogram([^\n]*)$",
    re.DOTALL | re.MULTILINE,
)
_COUNTER = re.compile(r"([a-z_]{3,20}) ([0-9]{1,15})")
_CELLS = re.compile(r"@?[0-9]{1,15}(?: @?[0-9]{1,15})*")
_COUNTERS = (
    *("duration_us", "requests", "bytes"),
    *("errors_connect", "errors_read", "errors_write", "errors_status", "errors_timeout"),
    *("values", "counts", "sum_us"),
)


@dataclass(frozen=True, eq=False)
class WrkHistogram:
    """The block that the script prints: exact counters, and the histogram with wrk's additions."""

    counters: Mapping[str, int]
    values: Integers
    """Microseconds, ascending."""
    counts: Integers


def measure(text: str, summary: LoadResult) -> ParsedOutput:
    """Return wrk's summary with the script's exact figures in place of the printed ones, and the measured latencies.

    Raises ParseError.
    """
    measured = measurement(text, summary)
    notes = {note.code: note for note in (*summary.notes, *measured.notes)}
    if "wrk-corrected" not in {note.code for note in measured.notes}:
        notes.pop("wrk-corrected", None)  # the summary's note: this version corrects, but it added no samples
    stated = {name: getattr(summary, name) for name in ("tool_version", "target", "connections", "threads")}
    complete = summary.complete and measured.complete
    exact = measured.result(duration_s=measured.duration_s, failed=None)
    return ParsedOutput(
        exact.model_copy(update={**stated, "complete": complete, "notes": tuple(notes.values())}), measured
    )


def measurement(text: str, summary: LoadResult) -> Measurement:
    """Return what wrk measured, from its output with the script's block: the series raw and corrected.

    Raises ParseError where the block is missing or damaged, or where block and summary are of different runs.
    """
    block = read_block(text)
    requests = block.counters["requests"]
    if summary.connections is None:
        raise ParseError("the output does not state the number of connections", where="wrk")
    if summary.requests is not None and summary.requests != requests:
        raise ParseError(f"{summary.requests} requests in the summary, {requests} in the histogram", where="wrk")
    interval = expected_interval_us(block.counters["duration_us"], requests, summary.connections)
    raw = without_additions(block.values, block.counts, interval)
    recorded = int(raw.sum())
    measured = np.flatnonzero(raw)
    histograms: dict[LatencySeries, Histogram] = {
        "raw": Histogram.from_microseconds(block.values[measured], raw[measured], digits=DIGITS),
        "corrected": Histogram.from_microseconds(block.values, block.counts, digits=DIGITS),
    }
    counters = Counters(
        requests=requests,
        recorded=recorded,
        bytes_total=block.counters["bytes"],
        non_2xx=block.counters["errors_status"],
        errors=Errors(**{kind: block.counters[f"errors_{kind}"] for kind in ("connect", "read", "write", "timeout")}),
    )
    return Measurement(
        tool="wrk",
        histograms=histograms if recorded else {},
        counters=counters,
        resolution_s=RESOLUTION_S,
        covers="request",
        complete=summary.complete and recorded + block.counters["errors_timeout"] == requests,
        duration_s=block.counters["duration_us"] / 1e6,
        notes=tuple(_notes(block, counters, interval)),
    )


def read_block(text: str) -> WrkHistogram:
    """Return the block in wrk's output. Raises ParseError where it is missing, damaged, or there are several."""
    blocks = _BLOCK.findall(text.replace("\r\n", "\n"))
    if len(blocks) != 1:
        what = "more than one latency histogram" if blocks else "no complete latency histogram"
        raise ParseError(what, where="wrk", hint="was wrk called with -s histogram.lua, and did it end by itself?")
    body, failure = blocks[0]
    if failure:
        raise ParseError("the script failed", where="wrk", why=excerpt(failure), hint="it needs wrk 4.0 or newer")
    counters: dict[str, int] = {}
    cells: list[tuple[int, int]] = []
    value: int | None = None
    for line in body.splitlines():
        match = _COUNTER.fullmatch(line)
        if match and match[1] not in counters:
            counters[match[1]] = int(match[2])
            continue
        if not _CELLS.fullmatch(line):
            raise ParseError("the latency histogram is damaged", where="wrk", why=f"at {excerpt(line)!r}")
        for word in line.split():  # `@value` sets the value of the next count
            if word[0] == "@":
                value = int(word[1:])
            elif value is not None:
                cells.append((value, int(word)))
                value += 1
    # The sums show missing and damaged cells. Python's integers never wrap around.
    sums = {
        "values": len(cells),
        "counts": sum(count for _, count in cells),
        "sum_us": sum(value * count for value, count in cells),
    }
    wrong = [name for name, figure in sums.items() if counters.get(name) != figure]
    values, counts = np.array(cells, np.int64).reshape(-1, 2).T
    if counters.keys() != set(_COUNTERS) or wrong or np.any(np.diff(values) <= 0) or np.any(counts == 0):
        why = (
            f"its cells do not add up to its {wrong[0]}"
            if wrong
            else "counters are missing or unknown, or cells repeat"
        )
        raise ParseError("the latency histogram is damaged", where="wrk", why=why)
    return WrkHistogram(counters, values, counts)


def expected_interval_us(duration_us: int, requests: int, connections: int) -> int | None:
    """Return the interval by which wrk 4 corrects, in microseconds; None where it adds nothing."""
    per_connection = requests // connections
    return duration_us // per_connection if per_connection else None


def without_additions(values: Integers, corrected: Integers, interval: int | None) -> Integers:
    """Return the counts that wrk had measured at these values, some of them zero.

    Raises ParseError where wrk cannot have produced these counts with this interval.
    """
    if interval is None or not len(values):
        return corrected
    above = values + interval
    place = np.minimum(np.searchsorted(values, above), len(values) - 1)
    raw: Integers = corrected - np.where((values > interval) & (values[place] == above), corrected[place], 0)
    # Every count is added whole to the one an interval below, down to the lowest time, which is a measured one.
    below = values - interval
    wrong = (raw < 0) | ((below > interval) & (below >= values[0]) & ~np.isin(below, values))
    wrong[0] |= raw[0] == 0
    if np.any(wrong):
        raise ParseError(
            f"the histogram cannot have been corrected by {interval} µs",
            where="wrk",
            why=f"the count at {values[wrong][0]} µs contradicts it",
            hint="does the summary belong to this run?",
        )
    return raw


def _notes(block: WrkHistogram, counters: Counters, interval: int | None) -> Iterator[Note]:
    timeouts = block.counters["errors_timeout"]
    added = block.counters["counts"] - counters.recorded
    if added:
        yield Note(
            code="wrk-corrected",
            message=f"wrk added {added} samples to {counters.recorded} for coordinated omission, every {interval} µs: "
            "only the series `corrected` has them",
        )
    if timeouts:
        yield Note(code="timeouts", message=f"{timeouts} answers came after the timeout; no histogram has them")
    if counters.recorded + timeouts != counters.requests:
        yield Note(
            code="wrk-unaccounted",
            message=f"{counters.requests} requests, but {counters.recorded} times and {timeouts} timeouts: were "
            "requests pipelined?",
        )
