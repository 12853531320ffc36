"""The file that `backends/reduce` leaves: a load tool's per-request output as a histogram and exact counts.

What is in it, tool by tool, read from their sources:

- hey (`-o csv`): the first million answers, in steps of 0.1 ms; failed requests have no row.
- vegeta: every request, those without an answer (status 0) too, with the time until it failed: vegeta's own figures count
  them so. Error messages stand beside; an answer below 200 or above 399 has its status line there.
- ab (`-g`): every request that ended, in whole milliseconds and without status; failed connections have no row.
- siege (`-v`): every answer, in steps of 10 ms; failed requests have no row, and in JSON mode nothing has.
- h2load (`--log-file`): every request that ended, in microseconds from sending it; failed streams are counted as errors.
"""

from __future__ import annotations

import base64
import binascii
import re
import zlib
from collections.abc import Iterator, Mapping
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
from benchkit.load.measurement import Counters, Measurement
from benchkit.load.tools.go_errors import errors_of
from benchkit.load.tools.text import shown
from benchkit.models.base import Frozen
from benchkit.models.histogram import NS_PER_S, Histogram
from benchkit.models.load_result import Errors, LoadResult, Note
from benchkit.resources import BACKENDS

SOURCE = BACKENDS / "reduce"
"""The Go module of the program that writes the file."""

LOWEST_US, HIGHEST_US, DIGITS = 1, 3_600_000_000, 4
"""The layout of its histogram: backends/reduce/tally.go says why."""

HEY_MAX_RESULTS = 1_000_000
"""`maxRes` in hey's requester/report.go."""

_MAX_PAYLOAD = 40 + 9 * 400_000
"""Bytes: a header, and the longest number for each bucket that the layout has."""
_STATUS_LINE = re.compile(r"[1-9][0-9]{2}(?: .*)?")

Count = Annotated[int, Field(ge=0)]


class Unread(Frozen):
    """Rows that could not be read: how many, and the beginning of the first."""

    count: Count
    first: str | None


class ReducedLatency(Frozen):
    """Times in nanoseconds, exact, but for the histogram: HdrHistogram's compressed V2 encoding, in microseconds."""

    histogram_us: str = Field(max_length=2 * _MAX_PAYLOAD, repr=False)
    min_ns: Count
    max_ns: Count
    sum_ns: Count


class Span(Frozen):
    """From when to when the requests were: nanoseconds since the tool began (`run`) or the epoch (`unix`)."""

    origin: Literal["run", "unix"]
    first_start_ns: int
    last_start_ns: int
    last_end_ns: int


class Seconds(Frozen):
    """Requests by the second, from the span's origin, in which they began (`start`) or ended (`end`)."""

    event: Literal["start", "end"]
    counts: tuple[tuple[int, Count], ...]
    beyond: Count
    """Those too far from the others."""


class Rest(Frozen):
    """What the tool printed beside its rows."""

    bytes: Count
    dropped: Count


class Reduction(Frozen):
    """The file, in its own words."""

    reduction: Literal[1]
    tool: Literal["ab", "h2load", "hey", "siege", "vegeta"]
    ended: Literal["whole", "cut", "damaged", "stopped"]
    rows: Count
    unread: Unread
    resolution_ns: Annotated[int, Field(gt=0)]
    latency: ReducedLatency | None
    status: Mapping[str, Count]
    errors: Mapping[str, Count]
    other_errors: Count
    bytes_in: Count | None
    bytes_out: Count | None
    span: Span | None
    seconds: Seconds | None
    rest: Rest


def read(text: str | bytes) -> Reduction:
    """The file's model. Raises ParseError for what is none, or one of another version."""
    try:
        return Reduction.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ParseError(
            "no file of benchkit's reducer, or a part of one",
            why=": ".join(part for part in (where, first["msg"]) if part),
            hint="did the reducer end by itself, and is it of this version of benchkit?",
        ) from None


def measurement(reduction: Reduction) -> Measurement:
    """What the tool measured. Raises ParseError for a histogram that cannot be read, or is of other rows."""
    transport = {text: n for text, n in reduction.errors.items() if not _STATUS_LINE.fullmatch(text)}
    failed = reduction.status.get("0", 0)
    is_vegeta = reduction.tool == "vegeta"
    counters = Counters(
        requests=None if _capped(reduction) else reduction.rows,
        recorded=reduction.rows,
        bytes_total=reduction.bytes_in,
        status=reduction.status,
        non_2xx=None
        if reduction.tool == "ab"
        else sum(n for code, n in reduction.status.items() if code[0] not in "02"),
        errors=errors_of(transport, max(0, failed - sum(transport.values()))) if is_vegeta else Errors(),
    )
    return Measurement(
        tool=reduction.tool,
        histograms={} if reduction.latency is None else {"raw": _histogram(reduction.latency, reduction.rows)},
        counters=counters,
        resolution_s=reduction.resolution_ns / NS_PER_S,
        covers="request" if reduction.tool == "h2load" else "connect+request",
        complete=reduction.ended == "whole" and not reduction.unread.count,
        duration_s=_duration_s(reduction),
        notes=tuple(_notes(reduction)),
    )


def load_result(reduction: Reduction) -> LoadResult:
    """The result of hey or vegeta, which print nothing but rows. Raises ParseError for another tool's rows.

    `duration_s` is what the tool means by it, as far as its rows say.
    """
    if reduction.tool not in {"hey", "vegeta"}:
        raise ParseError(f"the rows of {reduction.tool} are not its result", hint="parse its summary")
    measured, is_vegeta = measurement(reduction), reduction.tool == "vegeta"
    counters, duration_s = measured.counters, measured.duration_s
    good = sum(n for code, n in reduction.status.items() if code[0] in "23")
    return LoadResult(
        tool=reduction.tool,
        duration_s=duration_s,
        requests=counters.requests,
        rps=counters.requests / duration_s if counters.requests and duration_s else None,
        bytes_total=counters.bytes_total,
        latency=measured.latency(),
        errors=counters.errors,
        status=counters.status,
        non_2xx=counters.non_2xx,
        failed=reduction.rows - good if is_vegeta else None,
        availability=good / reduction.rows if is_vegeta and reduction.rows else None,
        complete=measured.complete and reduction.rows > 0,
        notes=measured.notes,
    )


def _duration_s(reduction: Reduction) -> float | None:
    """Seconds from hey's start to the last answer, or between vegeta's first and last request; ab rounds too much."""
    span = reduction.span
    if span is None or reduction.tool == "ab":
        return None
    ns = span.last_end_ns if reduction.tool == "hey" else span.last_start_ns - span.first_start_ns
    return ns / NS_PER_S


def _capped(reduction: Reduction) -> bool:
    """Whether hey reached the number of results that it keeps, beyond which it drops them."""
    return reduction.tool == "hey" and reduction.rows >= HEY_MAX_RESULTS


def _notes(reduction: Reduction) -> Iterator[Note]:
    if reduction.tool == "hey":
        yield Note(code="hey-csv", message="a row is an answer: failures are not in it")
        if _capped(reduction):
            yield Note(code="hey-cap", message=f"hey keeps {HEY_MAX_RESULTS:,} results: there may have been more")
    if reduction.tool == "siege":
        yield Note(
            code="siege-resolution", message="siege counts times in steps of 10 ms; 0.00 is below that, not none"
        )
    if failed := reduction.status.get("0"):
        yield Note(
            code="vegeta-unanswered",
            message=f"{failed} requests without an answer are in the latencies, as in vegeta's own figures",
        )
    if reduction.unread.count:
        first = shown(reduction.unread.first or "")
        yield Note(code="unread", message=f"{reduction.unread.count} rows could not be read; the first: {first}")
    if reduction.rest.dropped:
        yield Note(code="text-cut", message=f"{reduction.rest.dropped} bytes that stood beside the rows were not kept")
    if reduction.ended != "whole":
        yield Note(code="rows-cut", message=f"the rows did not end where the tool ends them: {reduction.ended}")


def _histogram(latency: ReducedLatency, rows: int) -> Histogram:
    """The histogram of so many rows. The library decodes it, once it is known to be of our layout."""
    try:
        encoded = latency.histogram_us.encode("ascii")
        _refuse_bomb(encoded)
        payload = HdrHistogramEncoder.decode(encoded)
        header = payload.payload
        layout = header.lowest_trackable_value, header.highest_trackable_value, header.significant_figures
        if layout != (LOWEST_US, HIGHEST_US, DIGITS):
            raise ParseError(f"a histogram of another layout: {layout}")
        counts = np.frombuffer(HdrHistogram(*layout, hdr_payload=payload).counts, np.int64)
        indexes = np.flatnonzero(counts)
        histogram = Histogram(indexes, counts[indexes], DIGITS, latency.min_ns, latency.max_ns, latency.sum_ns)
    except (
        HdrCookieException,
        HdrLengthException,
        binascii.Error,
        zlib.error,
        ValueError,
        IndexError,
        OverflowError,
    ) as error:
        raise ParseError("the histogram cannot be decoded", why=str(error) or type(error).__name__) from None
    if histogram.total != rows:
        raise ParseError(f"{rows} rows, but {histogram.total} counts in the histogram")
    return histogram


def _refuse_bomb(encoded: bytes) -> None:
    """Refuse what would unpack to more than any histogram of our layout has."""
    unpacking = zlib.decompressobj()
    unpacking.decompress(base64.b64decode(encoded, validate=True)[8:], _MAX_PAYLOAD)
    if unpacking.unconsumed_tail:
        raise ParseError("the histogram is larger than any histogram is")
