"""The reducer's file: a load tool's rows, one per request, as a histogram and exact counts. Pure.

The reducer (`backends/reduce`) reads the rows on the load host, so that they need not be stored. What the rows of a
tool mean is with the tool: `rows` in its `TOOL`.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Annotated, Literal

import numpy as np
from hdrh.codec import (  # type: ignore[import-untyped] # the library has no types
    HdrCookieException,
    HdrHistogramEncoder,
    HdrLengthException,
)
from hdrh.histogram import HdrHistogram  # type: ignore[import-untyped] # the library has no types
from pydantic import Field, ValidationError

from benchkit.errors import ParseError
from benchkit.loadtools.measurement import ClassCounts, Counters, Measurement, RequestSpan, Second
from benchkit.loadtools.text import Count, excerpt
from benchkit.loadtools.tool import ParsedOutput, RequestRows
from benchkit.models.base import Frozen
from benchkit.models.histogram import NS_PER_S, Histogram
from benchkit.models.load import Load
from benchkit.models.load_result import Errors, LoadResult, Note
from benchkit.validation import first_fault

LOWEST_US, HIGHEST_US, DIGITS = 1, 3_600_000_000, 4
"""Layout of its histogram; backends/reduce/tally.go has the reasons."""

SERIES_DIGITS = 2
"""Significant digits of the histograms of single seconds (backends/reduce/series.go)."""

CLASS_DIGITS = 3
"""Significant digits of the histograms of classes (backends/reduce/class.go)."""

_MAX_PAYLOAD = 40 + 9 * 400_000
"""Most bytes that a histogram can have: a header, and the longest number for each bucket of the layout."""

NO_SUMMARY = "no-summary"
"""Code of the note on a result that is made of rows alone."""


class UnreadRows(Frozen):
    """Number of rows that could not be read, and the beginning of the first."""

    count: Count
    first: str | None


class ReducedLatency(Frozen):
    """Exact times in nanoseconds, and a histogram in microseconds, in HdrHistogram's compressed V2 encoding."""

    histogram_us: str = Field(max_length=2 * _MAX_PAYLOAD, repr=False)
    min_ns: Count
    max_ns: Count
    sum_ns: Count


class SecondCounts(Frozen):
    """Counts of requests that started, ended and failed in a second; a histogram of the times of the ended ones.

    The histogram has the indexes and counts of HdrHistogram's buckets for `SERIES_DIGITS`, in microseconds.
    """

    started: Count
    ended: Count
    errors: Count
    bars: tuple[tuple[Annotated[int, Field(ge=0, lt=1 << 16)], Annotated[int, Field(gt=0)]], ...]


class SecondSeries(Frozen):
    """The seconds of a run, from the first request on."""

    seconds: tuple[SecondCounts, ...]
    beyond: Count
    """Number of starts and ends after the last second that a series can have."""


class ReducedClass(Frozen):
    """The requests of one class."""

    number: Annotated[int, Field(alias="class", ge=1, le=255)]
    latency: ReducedLatency | None
    status: Mapping[str, Count]
    bytes: tuple[Count, Count] | None
    """Fewest and most bytes of a response."""
    other_sizes: Count
    errors: Count


class OtherText(Frozen):
    """Text that the tool printed apart from its rows."""

    bytes: Count
    dropped: Count


class ReducerOutput(Frozen):
    """The reducer's file, field by field."""

    reduction: Literal[1]
    tool: Literal["ab", "h2load", "hey", "k6", "openloop", "siege", "vegeta"]
    ended: Literal["whole", "cut", "damaged"]
    """The last row: complete, cut, or damaged."""
    rows: Count
    unread: UnreadRows
    resolution_ns: Annotated[int, Field(gt=0)]
    latency: ReducedLatency | None
    lag: ReducedLatency | None = None
    """Times by which requests were sent after they were due; latencies then count from when they were due."""
    status: Mapping[str, Count]
    errors: Mapping[str, Count]
    other_errors: Count
    bytes_in: Count | None
    bytes_out: Count | None
    span: RequestSpan | None
    seconds: object
    """Requests by the second, which `series` has too."""
    series: SecondSeries | None = None
    """Absent for tools without instants of requests."""
    classes: tuple[ReducedClass, ...] = ()
    """Classes with a request; empty for loads without classes, and of other tools than openloop."""
    rest: OtherText


def read(text: str | bytes) -> ReducerOutput:
    """Return the file as a model. Raises ParseError for any other text, and for a file of another version."""
    try:
        return ReducerOutput.model_validate_json(text)
    except ValidationError as error:
        raise ParseError(
            "not a complete file of benchkit's reducer",
            why=first_fault(error, ReducerOutput),
            hint="did the reducer end by itself, and is it of this version of benchkit?",
        ) from None


def read_file(file: bytes | None, tool: str) -> ReducerOutput:
    """Return the file that the reducer wrote for a tool as a model. Raises ParseError, also for a missing file."""
    if file is None:
        raise ParseError("the reducer's file is missing", where=tool)
    output = read(file)
    if output.tool != tool:
        raise ParseError(f"these are rows of {output.tool}, not of {tool}")
    return output


def measurement(output: ReducerOutput, rows: RequestRows) -> Measurement:
    """Return the measurement of a tool from the reducer's file of its `rows`.

    Raises ParseError for a histogram that cannot be read, or has other counts.
    """
    counters = Counters(
        requests=output.rows,
        recorded=output.rows,
        bytes_total=output.bytes_in,
        status=output.status,
        non_2xx=sum(n for code, n in output.status.items() if code[0] not in "02") if rows.has_status else None,
    )
    return Measurement(
        tool=output.tool,
        histograms={} if output.latency is None else {"raw": _histogram(output.latency, output.rows)},
        counters=counters,
        resolution_s=output.resolution_ns / NS_PER_S,
        covers=rows.covers,
        complete=output.ended == "whole" and not output.unread.count,
        notes=tuple(_notes(output)),
        latency_from="sent" if output.lag is None else "due",
        lag=None if output.lag is None else _histogram(output.lag, output.rows),
        seconds=() if output.series is None else tuple(map(_second, output.series.seconds)),
        classes={each.number: _class(each) for each in output.classes},
        span=output.span,
    )


def result_of_rows(
    output: ReducerOutput,
    rows: RequestRows,
    *,
    duration_s: float | None,
    errors: Errors,
    failed: int,
    notes: Iterable[Note],
) -> ParsedOutput:
    """Return the measurement of a tool that prints no summary, with its errors by kind and the time of its rate."""
    measured = measurement(output, rows)
    counters = measured.counters.model_copy(update={"errors": errors})
    measured = replace(measured, counters=counters, notes=(*measured.notes, *notes))
    result = measured.result(duration_s=duration_s, failed=failed)
    return ParsedOutput(result.model_copy(update={"complete": result.complete and output.rows > 0}), measured)


def summary_with_rows(summary: LoadResult, file: bytes | None, rows: RequestRows, load: Load) -> ParsedOutput:
    """Return a tool's summary with its rows: counts of the summary, times of the rows. Raises ParseError.

    Where the tool was ended before it printed a summary, counts are of the rows in the window of its load. The
    last row may then be cut.
    """
    output = read_file(file, summary.tool)
    measured = measurement(output, rows)
    complete = summary.complete and measured.complete
    if summary.requests is None:
        summary = _summary_of_rows(summary, measured, load)
        complete = output.ended != "damaged" and not output.unread.count
    counters = measured.counters
    notes = {note.code: note for note in (*measured.notes, *summary.notes)}
    if summary.requests is not None and counters.recorded != summary.requests:
        message = f"{counters.recorded} of {summary.requests} requests have a time in the histogram"
        notes["histogram-differs"] = Note(code="histogram-differs", message=message)
    exact = {
        "latency": measured.latency(),
        "status": summary.status or counters.status,
        "non_2xx": counters.non_2xx if summary.non_2xx is None else summary.non_2xx,
        "complete": complete,
        "notes": tuple(notes.values()),
    }
    return ParsedOutput(summary.model_copy(update=exact), measured)


def _summary_of_rows(summary: LoadResult, measured: Measurement, load: Load) -> LoadResult:
    """Return the summary that a tool did not print. Raises ParseError where it measured for no known time."""
    if load.duration_s is None:
        raise ParseError(f"{summary.tool} printed no summary, and its load has no duration")
    counted = measured.counters.requests
    message = f"{summary.tool} was ended before it printed its summary: counts and rates are of its rows"
    return summary.model_copy(
        update={
            "duration_s": load.duration_s,
            "requests": counted,
            "rps": counted / load.duration_s,
            "connections": load.connections,
            "bytes_total": measured.counters.bytes_total,
            "notes": (Note(code=NO_SUMMARY, message=message),),
        }
    )


def _second(counts: SecondCounts) -> Second:
    return Second(counts.started, counts.ended, counts.errors, _bars(counts.bars) if counts.bars else None)


def _class(counts: ReducedClass) -> ClassCounts:
    answered = sum(counts.status.values())
    return ClassCounts(
        latency=None if counts.latency is None else _histogram(counts.latency, answered, CLASS_DIGITS),
        status=counts.status,
        errors=counts.errors,
        other_sizes=counts.other_sizes,
        size=counts.bytes,
    )


def _bars(bars: tuple[tuple[int, int], ...]) -> Histogram:
    indexes, counts = (np.array(column, np.int64) for column in zip(*bars, strict=True))
    try:
        return Histogram.of_buckets(indexes, counts, digits=SERIES_DIGITS)
    except ValueError as error:
        raise ParseError("the histogram of a second cannot be read", why=str(error)) from None


def _notes(output: ReducerOutput) -> Iterator[Note]:
    if output.series is not None and output.series.beyond:
        message = f"the table `series` has the first {len(output.series.seconds)} seconds of the run"
        yield Note(code="series-cut", message=message)
    if output.unread.count:
        first = excerpt(output.unread.first or "")
        yield Note(code="unread", message=f"{output.unread.count} rows could not be read; the first: {first}")
    if output.rest.dropped:
        yield Note(code="text-cut", message=f"{output.rest.dropped} bytes of text among the rows were dropped")
    if output.ended != "whole":
        yield Note(code="rows-cut", message=f"the rows are not complete: {output.ended}")


def _histogram(latency: ReducedLatency, rows: int, digits: int = DIGITS) -> Histogram:
    try:
        encoded = latency.histogram_us.encode("ascii")
        payload = HdrHistogramEncoder.decode(encoded)
        header = payload.payload
        layout = header.lowest_trackable_value, header.highest_trackable_value, header.significant_figures
        if layout != (LOWEST_US, HIGHEST_US, digits):
            raise ParseError(f"the histogram has an unknown layout: {layout}")
        counts = np.frombuffer(HdrHistogram(*layout, hdr_payload=payload).counts, np.int64)
        indexes = np.flatnonzero(counts != 0)  # numpy searches truth values several times as fast as numbers
        histogram = Histogram(indexes, counts[indexes], digits, latency.min_ns, latency.max_ns, latency.sum_ns)
    except (HdrCookieException, HdrLengthException, zlib.error, ValueError, IndexError, OverflowError) as error:
        raise ParseError("the histogram cannot be decoded", why=str(error) or type(error).__name__) from None
    if histogram.total != rows:
        raise ParseError(f"{rows} rows, but {histogram.total} counts in the histogram")
    return histogram
