"""Results that somebody else published: the output of a load tool, or the rows of a table.

A table is CSV, Markdown or JSON, with a row for each server, or for each measurement of one. Columns are recognised by
their headings: `framework`, `requests/s`, `Speed (64)` (a rate at 64 connections), `mean (ms)`, `p99`, `connections`,
`throughput (MB/s)`. A time or a size needs a unit, in its heading or in its cells. MB are 1,000,000 bytes, the least
that is meant by it.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from pydantic import Field
from pydantic_core import from_json

from benchkit import units
from benchkit.errors import InputError
from benchkit.models.base import Frozen
from benchkit.models.load_result import LoadResult


class PublishedResult(Frozen):
    """One published measurement; times in seconds, None for what is not stated."""

    name: str
    """Server, or file of the output."""
    tool: str | None = None
    connections: int | None = None
    rps: float | None = None
    requests: int | None = None
    duration_s: float | None = None
    bytes_per_s: float | None = None
    mean_s: float | None = None
    max_s: float | None = None
    percentiles: Mapping[float, float] = Field(default_factory=dict, description="seconds by percentage: {99: 0.002}")
    resolution_s: float | None = Field(default=None, description="step in which times are stated")
    corrected: bool | None = Field(default=None, description="true: its times are corrected by the tool; None: unknown")
    failures: int | None = None
    complete: bool = True

    @property
    def label(self) -> str:
        """Name, with the connections where they are known."""
        return (
            self.name if self.connections is None else f"{self.name}, {units.counted(self.connections, 'connection')}"
        )


def result_of_output(name: str, output: LoadResult, connections: int | None = None) -> PublishedResult:
    """Return the output of a load tool; `connections` where it does not state them."""
    errors = output.errors
    counts = [errors.connect, errors.read, errors.write, errors.timeout, errors.other, output.non_2xx]
    known = [count for count in counts if count is not None]
    failures = sum(known) if known else output.failed
    if output.failed is not None:  # the tool's own sum, of which other lengths are no failures
        failures = max(failures or 0, output.failed - (output.failed_length or 0))
    return PublishedResult(
        name=name,
        tool=output.tool,
        connections=output.connections or connections,
        rps=output.rps,
        requests=output.requests,
        duration_s=output.duration_s,
        bytes_per_s=output.bytes_per_s,
        mean_s=output.latency.mean_s,
        max_s=output.latency.max_s,
        percentiles={float(percent): time for percent, time in output.latency.percentiles.items()},
        resolution_s=output.latency.resolution_s,
        corrected=output.latency.corrected,
        failures=failures,
        complete=output.complete,
    )


_NAMES = re.compile(r"name|framework|server|benchmark|cell(_id)?|test|library", re.IGNORECASE)
_RATE_AT = re.compile(
    r"(?:rps|qps|speed|req(?:uest)?s?\s*/\s*s(?:ec)?)?\s*[(\[@]?\s*(?:c\s*=\s*)?(\d+)\s*[)\]]?", re.IGNORECASE
)
_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "sec": 1.0}
_UNIT = re.compile(r"(?:[\s(_\[]|^)(ns|us|µs|μs|ms|s|sec)[)\]]?$", re.IGNORECASE)
_TIME = re.compile(r"([\d.,]+)\s*(ns|us|µs|μs|ms|s|sec)", re.IGNORECASE)
_NUMBER = re.compile(r"([\d.,]*\d)\s*([kKmM])?")
_PREFIXES = {"k": 1e3, "m": 1e6}
_MEAN = re.compile(r"(latency[\s_]*)?(mean|avg|average)([\s_]*(latency|time))?", re.IGNORECASE)
_MAX = re.compile(r"(latency[\s_]*)?max(imum)?([\s_]*latency)?", re.IGNORECASE)
_PERCENTILE = re.compile(
    r"(?:latency[\s_]*)?(?:p|percentile)[\s_]*(\d{2}(?:\.\d+)?)(?:[\s_]*latency)?|(\d{2}(?:\.\d+)?) ?%", re.IGNORECASE
)
_IS_PERCENTILE = re.compile(r"p[\d.]+")
_BYTES = re.compile(
    r"(?:throughput|transfer|bandwidth)(?:[\s_]*rate)?(?:\s*/\s*s(?:ec)?)?\s*(?:[(\[]((?:[kmg]i?)?)b(?:ytes)?(?:\s*/\s*s(?:ec)?)?[)\]])?"
    r"|bytes\s*/\s*s(?:ec)?",
    re.IGNORECASE,
)
_SIZE = re.compile(r"([\d.,]*\d)\s*([kmg]i?)?b(?:ytes)?(?:\s*/\s*s(?:ec)?)?", re.IGNORECASE)
_SIZES = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "ki": 2.0**10, "mi": 2.0**20, "gi": 2.0**30}
_NUMBERS: Mapping[str, re.Pattern[str]] = {
    "rps": re.compile(r"rps|qps|req(uest)?s?[\s_]*(/|per)[\s_]*s(ec(ond)?)?|throughput|speed|rate", re.IGNORECASE),
    "connections": re.compile(r"connections|concurrency|clients", re.IGNORECASE),
    "requests": re.compile(r"(total[\s_]*)?requests", re.IGNORECASE),
    "failures": re.compile(r"errors?|failures?|failed", re.IGNORECASE),
}


@dataclass(frozen=True)
class _Column:
    """A column that is used: the field that it fills, and how its cells are read."""

    field: str
    """Field of `PublishedResult`, or a percentile as `p99`."""
    connections: int | None = None
    """Of a rate: the connections that its heading names."""
    kind: Literal["number", "time", "size"] = "number"
    scale: float | None = None
    """Seconds of a time, or bytes of a size, without a unit; None: its heading names none."""

    def read(self, cell: str) -> float | None:
        """Return the number in a cell, times in seconds and sizes in bytes; None where there is none."""
        if self.kind == "number":
            return _number(cell)
        return _time(cell, self.scale) if self.kind == "time" else _size(cell, self.scale)


class PublishedTable(NamedTuple):
    """The results of a table, and the headings of the columns that no result uses."""

    results: Sequence[PublishedResult]
    unused: Sequence[str]


def read_table(text: str, where: str) -> PublishedTable:
    """Return the results of a table. Raises InputError where it is none, or has no column with a rate."""
    heads, rows = _rows(text)
    if not rows:
        raise InputError(
            "neither output of a load tool nor a table", where=where, hint="give CSV, Markdown or JSON with a heading"
        )
    columns = {head: column for head in heads if (column := _bytes_column(head, rows) or _column(head)) is not None}
    if not any(column.field == "rps" for column in columns.values()):
        raise InputError(
            "no column of the table is a rate",
            where=where,
            why=f"its columns are {', '.join(heads)}",
            hint="name it `requests/s`, or `Speed (64)` for a rate at 64 connections",
        )
    others = [head for head in heads if head not in columns]
    texts = [head for head in others if any(_number(row[head]) is None for row in rows)]
    named = next((head for head in others if _NAMES.fullmatch(head)), texts[0] if texts else None)
    results = [
        result
        for number, row in enumerate(rows, start=1)
        for result in _results(f"row {number}" if named is None else row[named].strip(), row, columns)
    ]
    return PublishedTable(results, [head for head in others if head and head != named])


def _results(name: str, row: Mapping[str, str], columns: Mapping[str, _Column]) -> Iterator[PublishedResult]:
    """Yield the results of a row: one for each number of connections that has a column of its own, else one."""
    read = [(column, column.read(row[head].strip())) for head, column in columns.items()]
    for column, value in read:
        if column.connections is not None and value:
            yield PublishedResult(name=name, connections=column.connections, rps=value)
    common = {column.field: value for column, value in read if column.connections is None and value is not None}
    if "rps" in common:
        yield PublishedResult(
            name=name,
            rps=common["rps"],
            mean_s=common.get("mean_s"),
            max_s=common.get("max_s"),
            percentiles={float(field[1:]): value for field, value in common.items() if _IS_PERCENTILE.fullmatch(field)},
            connections=_whole(common.get("connections")),
            requests=_whole(common.get("requests")),
            failures=_whole(common.get("failures")),
            bytes_per_s=common.get("bytes_per_s"),
        )


def _bytes_column(head: str, rows: Sequence[Mapping[str, str]]) -> _Column | None:
    """Return how a column of bytes per second is read; None for others, such as a throughput in requests."""
    match = _BYTES.fullmatch(head)
    if match is None:
        return None
    unit = "" if head.lower().startswith("bytes") else match[1]
    scale = None if unit is None else _SIZES[unit.lower()]
    has_units = any(_SIZE.fullmatch(row[head].strip()) for row in rows)
    return _Column("bytes_per_s", kind="size", scale=scale) if has_units or scale is not None else None


def _column(head: str) -> _Column | None:
    if match := _RATE_AT.fullmatch(head):
        return _Column("rps", connections=int(match[1]))
    for field, pattern in _NUMBERS.items():
        if pattern.fullmatch(head):
            return _Column(field)
    unit = _UNIT.search(head)
    bare = _UNIT.sub("", head).strip()
    scale = _UNITS[unit[1].lower()] if unit else None
    for field, pattern in (("mean_s", _MEAN), ("max_s", _MAX)):
        if pattern.fullmatch(bare):
            return _Column(field, kind="time", scale=scale)
    match = _PERCENTILE.fullmatch(bare)
    return _Column(f"p{match[1] or match[2]}", kind="time", scale=scale) if match else None


def _whole(number: float | None) -> int | None:
    return None if number is None else round(number)


def _number(cell: str) -> float | None:
    match = _NUMBER.fullmatch(cell.replace("*", "").strip())
    number = None if match is None else _parse(match[1])
    return None if match is None or number is None else number * _PREFIXES.get((match[2] or "").lower(), 1.0)


def _time(cell: str, scale: float | None) -> float | None:
    """Return a time in seconds; None for a cell without one, and where neither cell nor heading has a unit."""
    match = _TIME.fullmatch(cell)
    if match is not None:
        number = _parse(match[1])
        return None if number is None else number * _UNITS[match[2].lower()]
    number = _number(cell)
    return None if number is None or scale is None else number * scale


def _size(cell: str, scale: float | None) -> float | None:
    """Return a size in bytes; None for a cell without one, and where neither cell nor heading has a unit."""
    match = _SIZE.fullmatch(cell)
    if match is not None:
        number = _parse(match[1])
        return None if number is None else number * _SIZES[(match[2] or "").lower()]
    number = _number(cell)
    return None if number is None or scale is None else number * scale


def _parse(digits: str) -> float | None:
    """Return a number without separators of thousands: commas before three digits, or several points."""
    if re.fullmatch(r"\d{1,3}(,\d{3})+(\.\d+)?", digits):
        plain = digits.replace(",", "")
    elif re.fullmatch(r"\d{1,3}(\.\d{3}){2,}", digits):
        plain = digits.replace(".", "")
    else:
        plain = digits.replace(",", ".")
    return float(plain) if re.fullmatch(r"\d*\.?\d+|\d+\.", plain) else None


def _rows(text: str) -> tuple[list[str], list[dict[str, str]]]:
    """Return the headings and the rows of a table; no rows for other text."""
    if text.lstrip().startswith(("[", "{")):
        return _json_rows(text)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    table = [line for line in lines if line.startswith("|")]
    if table:
        cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in table]
        cells = [row for row in cells if not all(re.fullmatch(r":?-*:?", cell) for cell in row)]
    else:
        delimiter = max(",;\t", key=lines[0].count) if lines else ","
        cells = [row for row in csv.reader(io.StringIO("\n".join(lines)), delimiter=delimiter) if row]
    if not cells or len(cells[0]) <= 1:
        return [], []
    heads = [head.strip() for head in cells[0]]
    return heads, [dict(zip(heads, row, strict=False)) for row in cells[1:] if len(row) >= len(heads)]


def _json_rows(text: str) -> tuple[list[str], list[dict[str, str]]]:
    try:
        document = from_json(text)
    except ValueError:
        return [], []
    rows = document if isinstance(document, list) else next((v for v in document.values() if isinstance(v, list)), [])
    found = [
        {str(key): "" if value is None else str(value) for key, value in row.items()}
        for row in rows
        if isinstance(row, dict)
    ]
    heads = list(dict.fromkeys(key for row in found for key in row))
    return heads, [{head: row.get(head, "") for head in heads} for row in found]
