"""Text shared by all parsers: bytes to lines, tokens to figures, times and errors of requests.

A figure is parsed only where the whole token is one: `12.3`, never `12,3`, `nan` or `12.3x`. Any other token gives
`None`, so that a damaged output loses a value and never gets a wrong one.
"""

from __future__ import annotations

import codecs
import csv
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, NamedTuple, overload

from pydantic import Field

from benchkit.errors import ParseError
from benchkit.models.load_result import Covers, Errors, Latency, Note

MAX_LINE = 4096
"""Longest line that is parsed; lines with figures are far shorter."""
MAX_EXCERPT = 100
"""Longest excerpt of a tool's output in a message, in characters."""
_NOT_A_NUMBER = re.compile(r"[+-]?(?:nan|inf)\s?[a-z%]{0,4}", re.IGNORECASE)
"""Text that C and Go print for a value that is not a number; wrk2 adds a unit."""

_NUMBER = re.compile(r"(?:[0-9]{1,18}|[0-9]{1,3}(?:,[0-9]{3}){1,5}(?=\.))(?:\.[0-9]{1,18})?(?:e[+-][0-9]{2})?")
_COUNT = re.compile(r"[0-9]{1,18}|[0-9]{1,3}(?:,[0-9]{3}){1,5}")
_CLOCK = re.compile(r"(?:([0-9]{1,6})h(?=[0-9]+m))?(?:([0-9]{1,2})m)?([0-9]{1,2}(?:\.[0-9]{1,9})?)s")
_PERCENTILE = re.compile(r"p?\(?([0-9]{1,3}(?:[._][0-9]{1,18})?)(?:th|%|\))?")
_SCALED = re.compile(r"([0-9]{1,18}(?:\.([0-9]{1,18}))?)\s?([^0-9\s.,]{0,9})")

SECONDS: Mapping[str, float] = {
    "ns": 1e-9,
    "us": 1e-6,
    "\u00b5s": 1e-6,  # micro sign
    "\u03bcs": 1e-6,  # Greek mu
    "?s": 1e-6,  # a micro sign lost in encoding: no other unit of time has a letter outside ASCII
    "\ufffds": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "m": 60.0,
    "h": 3600.0,
}
"""Seconds in a unit of time, by the abbreviations that load tools print."""
BINARY_SIZES: Mapping[str, float] = {
    "B": 1,
    "bytes": 1,
    **{f"{prefix}{unit}": 1024.0**power for power, prefix in enumerate("KMGTP", 1) for unit in ("B", "iB")},
    "kB": 1024,
}
"""Bytes in a unit of size, for the tools whose KB are 1024."""
DECIMAL_SIZES: Mapping[str, float] = {
    "B": 1,
    **{f"{prefix}B": 1000.0**power for power, prefix in enumerate("kMGTP", 1)},
    "KB": 1000,
}
"""Bytes in a unit of size, for the tools whose kB are 1000."""


def decode(data: bytes) -> str:
    """Return the text of an output file: UTF-8, or the encoding of its byte order mark (PowerShell writes UTF-16).

    Invalid bytes become U+FFFD, which no figure contains.
    """
    is_utf_16 = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return data.decode("utf-16" if is_utf_16 else "utf-8-sig", errors="replace")


_COLOURS = re.compile(r"\x1b(?:\[[0-9;:?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])")
_LINE_ENDS = re.compile(r"\r\n|[\n\r\v\f]")
_TIME = r"[0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]{1,9})?(?:Z|[+-][0-9]{2}:?[0-9]{2})?"
_PREFIXES = (
    re.compile(r"[\w.-]{1,80} *\|(?: |$)"),  # docker compose
    re.compile(rf"\[?(?:[0-9]{{4}}[-/][0-9]{{2}}[-/][0-9]{{2}}[T ])?{_TIME}\]?(?: std(?:out|err) [FP])?(?:[ \t]|$)"),
)
PREFIXED = 0.6
"""Least share of the lines that have a prefix: headings of the author stand between the lines of a log."""


class PreparedText(NamedTuple):
    """A text that formats read, and notes on what was removed from it."""

    text: str
    notes: tuple[Note, ...]


def prepare(text: str) -> PreparedText:
    """Return a text without colours, and without the timestamps and prefixes of docker compose before its lines.

    Its lines end with a line feed.
    """
    lines, notes = split_lines(text), []
    if "\x1b" in text:
        notes.append(Note(code="colours-removed", message="colour codes of a terminal were removed"))
    for prefix in _PREFIXES:
        filled = [line for line in lines if line.strip()]
        having = [match for line in filled if (match := prefix.match(line))]
        if len(having) >= max(3, PREFIXED * len(filled)):
            lines = [prefix.sub("", line, count=1) for line in lines]
            message = f"a prefix of each line was removed: {excerpt(having[0][0])!r}"
            notes.append(Note(code="prefix-removed", message=message))
    return PreparedText("\n".join(lines), tuple(notes))


def split_lines(text: str) -> list[str]:
    """Return the lines of `text` without colours; a carriage return ends a line, and any blank is a space.

    The last item is the text after the last line end: empty where the text is whole, else a line that may be truncated.
    """
    return _LINE_ENDS.split(_COLOURS.sub("", text).replace("\u00a0", " ").replace("\u202f", " "))


def csv_rows(lines: Iterable[str], delimiter: str = ",") -> Iterator[list[str]]:
    """Yield the cells of each row of CSV. Raises ParseError for a cell without an end, behind a lone quotation mark."""
    try:
        yield from csv.reader(lines, delimiter=delimiter)
    except csv.Error as error:
        raise ParseError("this CSV cannot be read", why=str(error), hint="is a quotation mark missing?") from None


def line_with(*patterns: str) -> re.Pattern[str]:
    """Return the pattern of a line that begins as one of `patterns`, also where it is indented."""
    return re.compile(rf"^[ \t]*(?:{'|'.join(patterns)})", re.MULTILINE)


def has_line(*patterns: str) -> Callable[[str], bool]:
    """Return the recogniser of texts with a line that begins as one of `patterns`."""
    return has_any(line_with(*patterns))


def has_any(*marks: re.Pattern[str]) -> Callable[[str], bool]:
    """Return the recogniser of texts in which one of these patterns is found."""
    return lambda text: any(mark.search(text) for mark in marks)


def is_not_a_number(token: str) -> bool:
    """Return whether a token is what C and Go print for a value that is not a number."""
    return _NOT_A_NUMBER.fullmatch(token) is not None


def parse_number(token: str | None) -> float | None:
    """Return a plain decimal number, finite and not negative; `None` for any other token.

    Commas before a decimal point group its digits; without a point they may be the decimal mark of a locale.
    """
    return float(token.replace(",", "")) if token is not None and _NUMBER.fullmatch(token) else None


def parse_count(token: str | None) -> int | None:
    """Return a whole number below 10^18, as `12345` or `12,345`; `None` for any other token."""
    return int(token.replace(",", "")) if token is not None and _COUNT.fullmatch(token) else None


def parse_scaled(token: str | None, units: Mapping[str, float]) -> tuple[float, float] | None:
    """Return (value, step) of a number with its unit (`1.21s`, `17.76 GB`) in the base unit; `None` for other tokens.

    The step is the value of one unit in the last digit: 0.01 s for `1.21s`.
    """
    match = _SCALED.fullmatch(token) if token is not None else None
    if match is None or match[3] not in units:
        return None
    unit = units[match[3]]
    return of_unit(float(match[1]), unit), of_unit(math.pow(10, -len(match[2] or "")), unit)


def parse_quantity(token: str | None, units: Mapping[str, float]) -> float | None:
    """Return a number with its unit in the base unit, as `parse_scaled` does, without its step."""
    scaled = parse_scaled(token, units)
    return None if scaled is None else scaled[0]


def parse_time(token: str | None) -> float | None:
    """Return the seconds of a time with its unit (`1.21s`, `0.90m`); `None` for any other token."""
    return parse_quantity(token, SECONDS)


def parse_duration(token: str) -> float | None:
    """Return the seconds of a duration as Go prints it (`1m30.5s`, `145.082066ms`, `0s`); None for any other token."""
    if match := _CLOCK.fullmatch(token):
        hours, minutes, seconds = (float(part or 0) for part in match.groups())
        return hours * 3600 + minutes * 60 + seconds
    return parse_time(token) if token.endswith("s") else None


Count = Annotated[int, Field(ge=0, lt=1 << 63)]
"""A count in a document of JSON."""

Figure = Annotated[float, Field(ge=0, allow_inf_nan=False)]
"""A figure in a document of JSON."""


def implied_duration(requests: int | None, rate: float | None) -> float | None:
    """Return the seconds by which a tool divides its requests to get its rate; None where one of them is missing."""
    return float(f"{requests / rate:.9g}") if requests and rate else None


@overload
def of_unit(value: float, unit: float) -> float: ...
@overload
def of_unit(value: float | None, unit: float) -> float | None: ...
def of_unit(value: float | None, unit: float) -> float | None:
    """Return `value` times `unit`, without the noise of binary fractions; None stays None."""
    return value if value is None or unit == 1 else float(f"{value * unit:.15g}")


def all_of_unit(values: Mapping[str, float | None], unit: float) -> dict[str, float]:
    """Return the values that are stated, each times `unit`."""
    return {name: of_unit(value, unit) for name, value in values.items() if value is not None}


TIMES: Mapping[str, str] = {
    **dict.fromkeys(("min", "fastest", "shortest"), "min_s"),
    **dict.fromkeys(("mean", "average", "avg"), "mean_s"),
    **dict.fromkeys(("stdev", "stddev"), "stdev_s"),
    **dict.fromkeys(("max", "slowest", "longest"), "max_s"),
}
"""Fields of `Latency` by the names that tools print."""


def latency_by_name(
    times: Mapping[str, float | None], covers: Covers, *, step_s: float | None = None, corrected: bool | None = False
) -> Latency:
    """Return times in seconds by their names: those of `TIMES`, `med`, and percentiles as `99.9`, `p99` or `p(95)`."""
    stated = {name.lower(): time for name, time in times.items() if time is not None}
    ranks = {}
    for name, time in stated.items():
        if match := _PERCENTILE.fullmatch(re.sub(r"^med(ian)?$", "50", name)):
            ranks[f"{float(match[1].replace('_', '.')):g}"] = time
    fields = {TIMES[name]: time for name, time in stated.items() if name in TIMES}
    of_run = {"percentiles": ranks, "resolution_s": step_s, "covers": covers, "corrected": corrected}
    return Latency.model_validate(fields | of_run)


def without_times(latency: Latency) -> Latency:
    """Return the latency of a run that measured none: `None` for the zeros that its tool prints."""
    zeros = {name: getattr(latency, name) or None for name in ("min_s", "mean_s", "stdev_s", "max_s")}
    percentiles = {name: time for name, time in latency.percentiles.items() if time}
    return latency.model_copy(update={**zeros, "percentiles": percentiles, "resolution_s": None})


def count_non_2xx(statuses: Mapping[str, int]) -> int:
    """Return the answers with a status other than 2xx, from counts by status."""
    return sum(number for code, number in statuses.items() if code[0] != "2")


def unread_notes(unread: Sequence[str]) -> Iterator[Note]:
    """Yield the note on lines of a tool's output that could not be read, if there are any."""
    if unread:
        others = f", and {len(unread) - 1} more" if len(unread) > 1 else ""
        yield Note(code="unread", message=f"could not be read: {excerpt(unread[0])}{others}")


def excerpt(line: str) -> str:
    """Return text of a tool for a message: shortened, and without terminal control characters."""
    line = " ".join(line.split())
    line = line if len(line) <= MAX_EXCERPT else line[: MAX_EXCERPT - 3] + "..."
    return "".join(c if c.isprintable() else "\ufffd" for c in line)


def not_output_of(tool: str, lines: Iterable[str]) -> ParseError:
    """Return the error for text that is not an output of `tool`, with its first line."""
    first = next((line for line in lines if line.strip()), None)
    if first is None:
        return ParseError("the output is empty", where=tool, hint="did the tool run, and was its output redirected?")
    return ParseError(
        f"this is not an output of {tool}", why=f"it begins with {excerpt(first)!r}", hint="name the tool that wrote it"
    )


def several_runs(tool: str, line: str) -> ParseError:
    """Return the error for text with a second copy of a line that a run prints once."""
    return ParseError(
        f"at least two runs of {tool} in one text",
        why=f"a second one has the line {excerpt(line)!r}",
        hint="give each in a file of its own; figures of two runs are never mixed",
    )


_KINDS: Mapping[str, re.Pattern[str]] = {  # the first pattern that matches decides
    "timeout": re.compile(r"time-?out|deadline exceeded|timed ?out", re.IGNORECASE),
    "connect": re.compile(
        r"\bdial |connection ?refused|ECONNREFUSED|no such host|ENOTFOUND|UnknownHost|connectex|assign requested address",
        re.IGNORECASE,
    ),
    "write": re.compile(r"\bwrite |broken pipe|EPIPE|can't write", re.IGNORECASE),
    "read": re.compile(
        r"\bread |EOF|connection ?reset|ECONNRESET|RemoteDisconnected|NoHttpResponse|malformed HTTP|server closed"
        r"|before message completed",
        re.IGNORECASE,
    ),
}


def errors_of(messages: Mapping[str, int], others: int = 0) -> Errors:
    """Return counts by kind from counts by message; `others` is the number of failures without a message."""
    counts = {"connect": 0, "read": 0, "write": 0, "timeout": 0, "other": others}
    for message, times in messages.items():
        counts[next((kind for kind, pattern in _KINDS.items() if pattern.search(message)), "other")] += times
    return Errors(**counts)
