"""wrk's whole latency histogram, as `histogram.lua` prints it, with and without wrk's own additions.

What wrk does, read from its source (4.0.0, 4.1.0 and 4.2.0 alike: src/stats.c, wrk.c, script.c):

- Every answer's time, in whole microseconds, is counted in an array with a cell for each up to the timeout. A longer
  time is an error of the kind `timeout` instead; so is one that the clock (gettimeofday) makes negative.
- Before it prints, and before it calls done(), it adds samples for coordinated omission to that array: with the
  interval e = runtime_us ÷ (requests ÷ connections), both divisions in integers and the connections those asked for, a
  time n stands for further ones of n - e, n - 2e, … as long as they are above e. Nothing is added where there are fewer
  requests than connections.
- It adds for a time only to lower ones, which it has passed already; so what it adds depends on measured times alone:
  corrected(m) = raw(m) + raw(m + e) + raw(m + 2e) + …, for m above e. Therefore raw(m) = corrected(m) - corrected(m + e).
- The lowest and highest time that it knows stay those measured. What it added below the lowest neither its figures nor
  Lua see; that takes a lowest time above e, where the mean of a closed loop is below e.

Raw counts + timeouts = requests: exactly, whatever else failed. Requests still open at the end and errors of connect,
read and write are in neither; an answer with an error status is in both.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from benchkit.errors import ParseError
from benchkit.load.measurement import Counters, Measurement, Series
from benchkit.load.tools.text import shown
from benchkit.load.tools.wrk.command import SCRIPT
from benchkit.load.tools.wrk.output import read as read_summary
from benchkit.models.histogram import Histogram, Integers
from benchkit.models.load_result import Errors, Note

DIGITS = 5
"""Exact up to 0.26 s, then steps of 2, 4, 8 µs up to 2.1 s: always finer than what wrk prints (10 µs, then 10 ms)."""
RESOLUTION_S = 1e-6

_BLOCK = re.compile(
    r"^--- benchkit latency histogram ([0-9]+)\n(.*?)^--- end of benchkit latency histogram([^\n]*)$",
    re.DOTALL | re.MULTILINE,
)
_COUNTER = re.compile(r"([a-z_]{3,20}) ([0-9]{1,15})")
_CELLS = re.compile(r"@?[0-9]{1,15}(?: @?[0-9]{1,15})*")
_VERSION = "1"
_COUNTERS = (
    *("duration_us", "requests", "bytes"),
    *("errors_connect", "errors_read", "errors_write", "errors_status", "errors_timeout"),
    *("values", "counts", "sum_us"),
)


@dataclass(frozen=True, eq=False)
class WrkHistogram:
    """The block that the script prints: exact counters, and the histogram as wrk has it at the end."""

    counters: Mapping[str, int]
    values: Integers
    """Microseconds, ascending."""
    counts: Integers


def measurement(text: str) -> Measurement:
    """What wrk measured: its output with the script's block, as the series raw and corrected.

    Raises ParseError where there is no block, or a damaged one, or where block and summary are not of one run.
    """
    summary = read_summary(text)
    block = read(text)
    requests = block.counters["requests"]
    if summary.connections is None:
        raise ParseError("the output does not say how many connections were asked for", where="wrk")
    if summary.requests is not None and summary.requests != requests:
        raise ParseError(f"{summary.requests} requests in the summary, {requests} in the histogram", where="wrk")
    interval = expected_interval_us(block.counters["duration_us"], requests, summary.connections)
    raw = without_additions(block.values, block.counts, interval)
    recorded = int(raw.sum())
    counters = Counters(
        requests=requests,
        recorded=recorded,
        bytes_total=block.counters["bytes"],
        non_2xx=block.counters["errors_status"],
        errors=Errors(**{kind: block.counters[f"errors_{kind}"] for kind in ("connect", "read", "write", "timeout")}),
    )
    return Measurement(
        tool="wrk",
        histograms=_histograms(block, raw) if recorded else {},
        counters=counters,
        resolution_s=RESOLUTION_S,
        covers="request",
        complete=summary.ended and recorded + block.counters["errors_timeout"] == requests,
        duration_s=block.counters["duration_us"] / 1e6,
        notes=tuple(_notes(block, counters, interval)),
    )


def read(text: str) -> WrkHistogram:
    """The block in wrk's output. Raises ParseError where there is none, or several, or a damaged one."""
    counters: dict[str, int] = {}
    words: list[str] = []
    for line in _body(text).splitlines():
        match = _COUNTER.fullmatch(line)
        if match and match[1] not in counters:
            counters[match[1]] = int(match[2])
        elif _CELLS.fullmatch(line):
            words += line.split()
        else:
            raise _damaged(line)
    if counters.keys() != set(_COUNTERS):
        raise ParseError("the latency histogram has other counters", where="wrk", why=", ".join(counters))
    cells = list(_cells(words))
    # Cells were cut or damaged unless they add up. Python's integers never wrap around.
    added = {
        "values": len(cells),
        "counts": sum(count for _, count in cells),
        "sum_us": sum(value * count for value, count in cells),
    }
    for name, figure in added.items():
        if counters[name] != figure:
            raise ParseError(f"the latency histogram states {name} {counters[name]} and has {figure}", where="wrk")
    values, counts = np.array(cells, np.int64).reshape(-1, 2).T
    return WrkHistogram(counters, values, counts)


def _body(text: str) -> str:
    """The lines of the only block there is."""
    blocks = _BLOCK.findall(text.replace("\r\n", "\n"))
    if len(blocks) != 1:
        raise ParseError(
            "more than one latency histogram" if blocks else "no latency histogram, or a part of one",
            where="wrk",
            hint=f"was wrk called with -s {SCRIPT.name}, and did it end by itself?",
        )
    version, body, failure = blocks[0]
    if failure:
        raise ParseError("the script failed", where="wrk", why=shown(failure), hint="it needs wrk 4.0 or newer")
    if version != _VERSION:
        raise ParseError(f"a latency histogram of version {version}", where="wrk", why=f"known is {_VERSION}")
    return str(body)


def _cells(words: list[str]) -> Iterator[tuple[int, int]]:
    """(value, count) from the list that the script prints."""
    following: int | None = None
    least = 0
    for word in words:
        if word[0] == "@":
            following = int(word[1:])
            if following < least:
                raise _damaged(word)
        elif following is None or word == "0":
            raise _damaged(word)
        else:
            yield following, int(word)
            following += 1
            least = following


def expected_interval_us(duration_us: int, requests: int, connections: int) -> int | None:
    """The interval by which wrk 4 corrects; None where it adds nothing."""
    each = requests // connections
    return duration_us // each if each else None


def without_additions(values: Integers, corrected: Integers, interval: int | None) -> Integers:
    """The counts that wrk had measured at these values, some of them zero.

    Raises ParseError where wrk cannot have made these counts with this interval.
    """
    if interval is None or not len(values):
        return corrected
    above = values + interval
    place = np.minimum(np.searchsorted(values, above), len(values) - 1)
    raw: Integers = corrected - np.where((values > interval) & (values[place] == above), corrected[place], 0)
    # A count passes all of itself on to the one below, unless that is below the lowest time, which is a measured one.
    below = values - interval
    wrong = (raw < 0) | ((below > interval) & (below >= values[0]) & ~np.isin(below, values))
    wrong[0] |= raw[0] == 0
    if np.any(wrong):
        raise ParseError(
            f"the histogram cannot have been corrected by {interval} µs",
            where="wrk",
            why=f"the count at {values[wrong][0]} µs contradicts it",
            hint="were the connections those of this run?",
        )
    return raw


def _damaged(line: str) -> ParseError:
    return ParseError("the latency histogram is damaged", where="wrk", why=f"at {shown(line)!r}")


def _histograms(block: WrkHistogram, raw: Integers) -> Mapping[Series, Histogram]:
    measured = np.flatnonzero(raw)
    return {
        "raw": Histogram.of_microseconds(block.values[measured], raw[measured], digits=DIGITS),
        "corrected": Histogram.of_microseconds(block.values, block.counts, digits=DIGITS),
    }


def _notes(block: WrkHistogram, counters: Counters, interval: int | None) -> Iterator[Note]:
    timeouts = block.counters["errors_timeout"]
    added = block.counters["counts"] - counters.recorded
    if added:
        yield Note(
            code="wrk-corrected",
            message=f"wrk added {added} samples to {counters.recorded} for coordinated omission, every {interval} µs: "
            "they are in the series `corrected` alone",
        )
    if timeouts:
        yield Note(code="timeouts", message=f"{timeouts} answers came later than the timeout and are in no histogram")
    if counters.recorded + timeouts != counters.requests:
        yield Note(
            code="wrk-unaccounted",
            message=f"{counters.requests} requests, but {counters.recorded} times and {timeouts} timeouts: were "
            "requests pipelined?",
        )
    if interval is not None and len(block.values) and block.values[0] > interval:
        yield Note(code="wrk-hidden", message="wrk hides what it added below the shortest time")
