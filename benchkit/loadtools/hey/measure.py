"""Measurement of every request of hey, from its output through `TEMPLATE`: times to the nanosecond, and exact counters.

The reducer reads the rows and passes on the counters that follow them. These stay exact beyond the million answers that
hey keeps (requester/report.go): requests, errors, the sums of times and of declared lengths, and the duration.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from pydantic_core import from_json

from benchkit.errors import ParseError
from benchkit.loadtools import reducer_output
from benchkit.loadtools.hey.output import MAX_RESULTS, ROWS
from benchkit.loadtools.measurement import Measurement
from benchkit.loadtools.text import errors_of, excerpt
from benchkit.loadtools.tool import ParsedOutput, ToolOutput
from benchkit.models.base import Frozen
from benchkit.models.load_result import Note
from benchkit.units import counted

_BLOCK = re.compile(
    r"^--- benchkit counters of hey 1\n"
    r"requests ([0-9]{1,18})\nduration_ns ([0-9]{1,18})\nbytes ([0-9]{1,18})\ntime_s ([0-9]{1,18}\.[0-9]{9})\n"
    r"errors ([0-9a-f]*)\n--- end of benchkit counters of hey$",
    re.MULTILINE,
)


class HeyCounters(Frozen):
    """Counters that the template prints after the rows."""

    requests: int
    """All requests, failed ones too."""
    duration_s: float
    bytes_total: int
    """Total length of the bodies whose length was declared."""
    time_s: float
    """Sum of the times of all answers."""
    errors: Mapping[str, int]
    """Failed requests by message."""

    @property
    def failed(self) -> int:
        """Number of requests without an answer."""
        return sum(self.errors.values())


def measure(output: ToolOutput) -> ParsedOutput:
    """Return what hey measured, from the reducer's file and the counters. Raises ParseError."""
    rows = reducer_output.read_file(output.reduction, "hey")
    counters, of_rows = read_counters(output.stdout), reducer_output.measurement(rows, ROWS)
    answers = counters.requests - counters.failed
    if rows.rows != min(answers, MAX_RESULTS):
        raise ParseError(f"{rows.rows} rows of hey, but {answers} answers in its counters", where="hey")
    capped = answers > rows.rows
    exact = of_rows.counters.model_copy(
        update={
            "requests": counters.requests,
            "bytes_total": counters.bytes_total,
            "errors": errors_of(counters.errors),
            "non_2xx": None if capped else of_rows.counters.non_2xx,
        }
    )
    measurement = replace(
        of_rows,
        counters=exact,
        complete=of_rows.complete and not capped,
        duration_s=counters.duration_s,
        notes=tuple(_notes(of_rows, counters, capped=capped)),
    )
    result = measurement.result(duration_s=counters.duration_s, failed=counters.failed)
    latency = result.latency
    if capped:  # the mean of all answers is known; the histogram has the first million
        latency = latency.model_copy(update={"mean_s": counters.time_s / answers})
    result = result.model_copy(update={"latency": latency, "complete": of_rows.complete})
    return ParsedOutput(result, measurement)


def read_counters(text: str) -> HeyCounters:
    """Return the counters after the rows. Raises ParseError where they are missing or incomplete."""
    blocks = _BLOCK.findall(text)
    if len(blocks) != 1:
        raise ParseError(
            "hey did not print all its counters",
            where="hey",
            hint="did it end by itself, and is it version 0.1.0 or newer?",
        )
    requests, duration_ns, length, time_s, errors = blocks[0]
    return HeyCounters(
        requests=int(requests),
        duration_s=int(duration_ns) / 1e9,
        bytes_total=int(length),
        time_s=float(time_s),
        errors=_read_errors(errors),
    )


def _read_errors(encoded: str) -> dict[str, int]:
    """Return the number of times of each error, by message, from JSON in hex."""
    try:
        counts = from_json(bytes.fromhex(encoded))
    except ValueError:
        counts = None
    if not isinstance(counts, dict) or not all(type(n) is int and n > 0 for n in counts.values()):
        raise ParseError("the errors that hey counted cannot be read", where="hey", why=excerpt(encoded))
    return counts


def _notes(of_rows: Measurement, counters: HeyCounters, *, capped: bool) -> Iterator[Note]:
    yield from of_rows.notes
    if capped:
        yield Note(
            code="hey-cap",
            message=f"hey keeps the times of {MAX_RESULTS:,} answers in a process: use more processes. Percentiles, extremes "
            "and statuses are of the first million; counts, rate and mean are of all",
        )
    if counters.errors:
        kinds = "; ".join(f"{n} times {excerpt(message)}" for message, n in list(counters.errors.items())[:3])
        yield Note(code="hey-errors", message=f"{counted(counters.failed, 'request')} failed: {kinds}")
