"""Results that somebody else published: the output of a load tool, or the rows of tables.

A table is CSV, Markdown, drawn or JSON, with a row for each server, or for each measurement of one. Columns are
recognised by their headings: `framework`, `requests/s`, `Speed (64)` (a rate at 64 connections), `mean (ms)`, `p99`,
`connections`, `throughput (MB/s)`. A time or a size needs a unit, in its heading or in its cells. MB are 1,000,000
bytes, the least that is meant by it. Columns whose cells name rates are servers, and columns such as `Run 2` are
repetitions of each row.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from pydantic import Field

from benchkit import units
from benchkit.errors import InputError
from benchkit.models.base import Frozen
from benchkit.models.load_result import LoadResult, Note
from benchkit.plugins.foreign.output_marks import marks_of
from benchkit.plugins.foreign.published_columns import (
    Column,
    column_of,
    is_index,
    is_name,
    is_repetition,
    is_test,
    words_of,
)
from benchkit.plugins.foreign.published_json import KEY, json_table
from benchkit.plugins.foreign.published_numbers import PER_SECOND, Decimal, decimal_of, read_number, read_rate
from benchkit.plugins.foreign.published_tables import RawTable, tables_of


class PublishedResult(Frozen):
    """One published measurement; times in seconds, None for what is not stated."""

    name: str
    """Server, or file of the output."""
    test: str | None = Field(default=None, description="what was asked of it: rates of one test alone are compared")
    repetition: int | None = Field(default=None, description="number of the row or column, where they are repetitions")
    tool: str | None = None
    connections: int | None = None
    streams: int | None = Field(
        default=None, description="requests in flight on each connection: pipelined, or streams"
    )
    is_multiplexed: bool = Field(default=False, description="true: over HTTP/2 or 3, whose streams may not be stated")
    target_rate: float | None = Field(default=None, description="rate that the tool held, in requests per second")
    rate_ratio: float | None = Field(default=None, description="achieved rate as a share of the target rate")
    is_open: bool = Field(default=False, description="true: requests were due at a rate, answered or not (open model)")
    rps: float | None = None
    requests: int | None = None
    duration_s: float | None = None
    duration_step_s: float = Field(default=0.0, description="step in which the duration is stated")
    bytes_per_s: float | None = None
    mean_s: float | None = None
    max_s: float | None = None
    percentiles: Mapping[float, float] = Field(default_factory=dict, description="seconds by percentage: {99: 0.002}")
    resolution_s: float | None = Field(default=None, description="step in which times are stated")
    corrected: bool | None = Field(default=None, description="true: its times are corrected by the tool; None: unknown")
    failures: int | None = None
    errors_connect: int | None = None
    statuses: Mapping[str, int] = Field(default_factory=dict, description="answers by class of status: {'2xx': 12}")
    reconnects: int | None = None
    dropped: int | None = Field(default=None, description="requests or iterations that were due and not started")
    complete: bool = True
    notes: tuple[Note, ...] = ()

    @property
    def label(self) -> str:
        """Name, with the test and the connections where they are known."""
        connections = None if self.connections is None else units.counted(self.connections, "connection")
        return ", ".join(filter(None, (self.name, self.test, connections)))


WHOLE_SECONDS_STEP_S = 2.0
"""Step of a duration that is rounded down to whole seconds: it may be a second more, and half a step is allowed."""


def result_of_output(name: str, output: LoadResult, text: str = "") -> PublishedResult:
    """Return the output of a load tool; `text` is that of this run alone, which says more of the load than figures."""
    errors, marks = output.errors, marks_of(output.tool, text)
    counts = [errors.connect, errors.read, errors.write, errors.timeout, errors.other, output.non_2xx]
    known = [count for count in counts if count is not None]
    failures = sum(known) if known else output.failed
    if output.failed is not None:  # the tool's own sum, of which other lengths are no failures
        failures = max(failures or 0, output.failed - (output.failed_length or 0))
    connections = output.connections
    if connections and output.threads and output.tool in {"wrk", "wrk2"}:  # each thread has as many
        connections = connections // output.threads * output.threads
    protocol = output.negotiated.protocol if output.negotiated else None
    return PublishedResult(
        name=name,
        tool=output.tool,
        connections=connections or None,
        streams=marks.streams,
        is_multiplexed=protocol in {"h2", "h2c"} or output.tool == "h2load",
        target_rate=marks.target_rate,
        rate_ratio=marks.rate_ratio,
        is_open=marks.is_open,
        rps=output.rps,
        requests=output.requests,
        duration_s=output.duration_s,
        duration_step_s=WHOLE_SECONDS_STEP_S if any(note.code == "whole-seconds" for note in output.notes) else 0.0,
        bytes_per_s=output.bytes_per_s,
        mean_s=output.latency.mean_s,
        max_s=output.latency.max_s,
        percentiles={float(percent): time for percent, time in output.latency.percentiles.items()},
        resolution_s=output.latency.resolution_s,
        corrected=output.latency.corrected,
        failures=failures,
        errors_connect=errors.connect,
        dropped=output.dropped if marks.dropped is None else marks.dropped,
        complete=output.complete,
        notes=output.notes,
    )


_MULTIPLEXED = re.compile(r"(?<![a-z0-9])(?:h2c?|h3|http[/ ]?[23]|quic|grpc)(?![a-z0-9])", re.IGNORECASE)
_SENTENCE = 60
"""Characters of a cell that is no name."""


class PublishedTable(NamedTuple):
    """The results of a table, and the headings of the columns that no result uses."""

    results: Sequence[PublishedResult]
    unused: Sequence[str]


def read_table(text: str, where: str) -> PublishedTable:
    """Return the results of all tables of a text. Raises InputError where it has none, or none with a rate."""
    is_json = text.lstrip("\ufeff \t\r\n").startswith(("[", "{"))
    document = json_table(text) if is_json else None
    tables = ([document] if document else []) if is_json else tables_of(text)
    if not tables:
        raise InputError(
            "neither output of a load tool nor a table",
            where=where,
            hint="give CSV, Markdown or JSON with a heading, of which a column is a rate",
        )
    read = [_read(table, text, where) for table in tables]
    results = [result for table in read for result in table.results]
    if not results:
        raise InputError(
            "no column of the table is a rate" if len(tables) == 1 else f"no column of {len(tables)} tables is a rate",
            where=where,
            why=f"its columns are {', '.join(head for table in tables for head in table.heads)}",
            hint="name it `requests/s`, or `Speed (64)` for a rate at 64 connections",
        )
    several = sum(bool(table.results) for table in read) > 1
    titles = [table.title or f"table {number}" if several else None for number, table in enumerate(tables, start=1)]
    named = [
        result if title is None or result.test else result.model_copy(update={"test": title})
        for title, table in zip(titles, read, strict=True)
        for result in table.results
    ]
    return PublishedTable(named, [head for table in read if table.results for head in table.unused])


def _read(table: RawTable, text: str, where: str) -> PublishedTable:
    cells = {head: [row[head] for row in table.rows] for head in table.heads}
    columns = {head: column for head in table.heads if (column := column_of(head, cells[head])) is not None}
    decimal: Decimal = "." if text.lstrip().startswith(("[", "{")) else decimal_of(_figures(table, columns))
    others = [head for head in table.heads if head not in columns]
    columns |= _rates_by_cells(table, cells, others, decimal, has_rate=any(c.field == "rps" for c in columns.values()))
    names = [head for head in others if head not in columns]
    named, tested = _labels(table, names, cells, decimal)
    servers = [head for head, column in columns.items() if column.field == "server"]
    is_whole = all(
        not float(value) % 1
        for head, column in columns.items()
        if column.field == "duration_s"
        for cell in cells[head]
        if (value := column.read(cell, decimal)) is not None
    )
    results: list[PublishedResult] = []
    for number, row in enumerate(table.rows, start=1):
        figures = {head: column.read(row[head], decimal) for head, column in columns.items()}
        label = row[named] if named and row[named] else f"row {number}"
        test = row[tested] if tested and row[tested] != label else None
        if servers:
            is_repeated = named is None or is_index(named) or is_repetition(label)
            common = {} if is_repeated else {"test": label}
            repetition = {"repetition": number} if is_repeated else {}
            results += [
                PublishedResult(
                    name=words_of(head), rps=figures[head], **common, **repetition, **_plain_counts(columns, figures)
                )
                for head in servers
                if figures[head] is not None
            ]
        else:
            results += _results(label, test, columns, figures, is_whole=is_whole)
    context = _MULTIPLEXED.search(f"{where} {table.title or ''}") is not None
    marked = [
        each.model_copy(update={"is_multiplexed": True}) if context or _MULTIPLEXED.search(each.test or "") else each
        for each in results
    ]
    used = {named, tested, KEY}
    return PublishedTable(marked, [head for head in names if head and head not in used])


def _figures(table: RawTable, columns: Mapping[str, Column]) -> Iterator[str]:
    for row in table.rows:
        yield from (row[head] for head, column in columns.items() if column.field != "test")
        if not columns:
            yield from row.values()


def _rates_by_cells(
    table: RawTable, cells: Mapping[str, Sequence[str]], heads: Sequence[str], decimal: Decimal, *, has_rate: bool
) -> dict[str, Column]:
    """Return columns whose headings name no figure: repetitions of each row, or servers whose cells name rates."""
    repeats = [
        head for head in heads if is_repetition(head) and sum(read_number(c, decimal) is not None for c in cells[head])
    ]
    about = " ".join((table.title or "", table.before, *table.heads))
    if len(repeats) > 1 and (has_rate or PER_SECOND.search(about) or _are_rates(cells, repeats, decimal)):
        return {head: Column("rps", kind="rate", repeats=True) for head in repeats}
    if has_rate:
        return {}
    rates = [head for head in heads if _are_rates(cells, [head], decimal)]
    if len(rates) == 1 and not is_repetition(rates[0]):
        return {rates[0]: Column("rps", kind="rate")}
    field = "rps" if rates and all(map(is_repetition, rates)) else "server"
    return {head: Column(field, kind="rate", repeats=field == "rps") for head in rates}


def _are_rates(cells: Mapping[str, Sequence[str]], heads: Sequence[str], decimal: Decimal) -> bool:
    stated = [cell for head in heads for cell in cells[head] if cell]
    return bool(stated) and 2 * sum(read_rate(cell, decimal) is not None for cell in stated) > len(stated)


def _labels(
    table: RawTable, heads: Sequence[str], cells: Mapping[str, Sequence[str]], decimal: Decimal
) -> tuple[str | None, str | None]:
    """Return the columns with the names of servers and of tests."""
    texts = [
        head
        for head in heads
        if head != KEY
        and any(cell and read_number(cell, decimal) is None for cell in cells[head])
        and max(map(len, cells[head]), default=0) <= _SENTENCE
    ]
    tested = next((head for head in heads if is_test(head)), KEY if KEY in table.heads else None)
    named = next((head for head in heads if is_name(head)), None)
    if named is None and tested == KEY and not texts:
        return KEY, None
    if named is None:
        named = next((head for head in texts if head != tested), None) or tested
    return named, None if tested == named else tested


def _plain_counts(columns: Mapping[str, Column], figures: Mapping[str, float | None]) -> dict[str, int | None]:
    return {
        column.field: _whole(figures[head])
        for head, column in columns.items()
        if column.field in {"connections", "streams"}
    }


def _results(
    name: str, test: str | None, columns: Mapping[str, Column], figures: Mapping[str, float | None], *, is_whole: bool
) -> Iterator[PublishedResult]:
    """Yield the results of a row: one for each number of connections or repetition that has a column, else one."""
    several = [
        (column, figures[head]) for head, column in columns.items() if column.connections is not None or column.repeats
    ]
    common = {
        column.field: value
        for head, column in columns.items()
        if (value := figures[head]) is not None and column.connections is None and not column.repeats
    }
    for number, (column, value) in enumerate(several, start=1):
        if value:
            yield PublishedResult(
                name=name,
                test=test,
                rps=value,
                connections=column.connections or _whole(common.get("connections")),
                streams=_whole(common.get("streams")),
                repetition=number if column.repeats else None,
            )
    if "rps" in common and not any(column.repeats for column, _ in several):
        yield _result(name, test, common, is_whole=is_whole)


def _result(name: str, test: str | None, common: Mapping[str, float], *, is_whole: bool) -> PublishedResult:
    statuses = {
        field.removeprefix("status_"): round(value) for field, value in common.items() if field.startswith("status_")
    }
    answered = sum(statuses.values())
    parts = [value for field, value in common.items() if field.startswith("errors_")]
    if statuses:
        parts.append(statuses.get("4xx", 0) + statuses.get("5xx", 0))
    total = max(common.get("failures", 0.0), sum(parts)) if parts or "failures" in common else None
    times = {field: value for field, value in common.items() if value and re.fullmatch(r"p[\d.]+", field)}
    return PublishedResult(
        name=name,
        test=test,
        rps=common["rps"],
        mean_s=common.get("mean_s") or None,
        max_s=common.get("max_s") or None,
        percentiles={float(field[1:]): value for field, value in times.items()},
        connections=_whole(common.get("connections")),
        streams=_whole(common.get("streams")),
        target_rate=common.get("target_rate") or None,
        rate_ratio=common.get("rate_ratio"),
        requests=_whole(common.get("requests", answered or None)),
        duration_s=common.get("duration_s"),
        duration_step_s=1.0 if is_whole and "duration_s" in common else 0.0,
        failures=_whole(total),
        errors_connect=_whole(common.get("errors_connect")),
        statuses=statuses,
        reconnects=_whole(common.get("reconnects")),
        dropped=_whole(common.get("dropped")),
        bytes_per_s=common.get("bytes_per_s"),
    )


def _whole(number: float | None) -> int | None:
    return None if number is None else round(number)


def tests_apart(tables: Mapping[str, PublishedTable]) -> list[list[PublishedResult]]:
    """Return the results of several files, those of tables with the name of their file as test."""
    several = sum(any(each.tool is None for each in table.results) for table in tables.values()) > 1
    return [
        [
            each.model_copy(update={"test": ", ".join(filter(None, (Path(file).name.partition(".")[0], each.test)))})
            if several and each.tool is None
            else each
            for each in table.results
        ]
        for file, table in tables.items()
    ]
