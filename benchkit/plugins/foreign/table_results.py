"""The results in published tables.

A table is CSV, Markdown, drawn or JSON, with a row for each server, or for each measurement of one. Columns are
recognised by their headings: `framework`, `requests/s`, `Speed (64)` (a rate at 64 connections), `mean (ms)`, `p99`,
`connections`, `throughput (MB/s)`. A time or a size needs a unit, in its heading or in its cells. MB are 1,000,000
bytes, the smaller of its two meanings. Columns whose cells name rates are servers. Several columns of rates are servers
or tests. Columns such as `Run 2` are repetitions of each row.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NoReturn

from benchkit.errors import InputError
from benchkit.plugins.foreign import published_numbers as numbers
from benchkit.plugins.foreign.output_marks import marks_of_text
from benchkit.plugins.foreign.published import PublishedResult, PublishedTable
from benchkit.plugins.foreign.published_columns import (
    PublishedColumn,
    column_of,
    connections_of,
    has_time_unit,
    is_bare_number,
    is_index,
    is_mean,
    is_name,
    is_repetition,
    is_summary,
    is_sweep,
    is_test,
    owner_of,
    words_of,
)
from benchkit.plugins.foreign.published_json import KEY, OUTER_KEY, json_table
from benchkit.plugins.foreign.published_numbers import (
    PER_SECOND,
    SECONDS,
    Decimal,
    decimal_of,
    has_figure_in_brackets,
    is_size,
    read_number,
    read_rate,
)
from benchkit.plugins.foreign.published_tables import RawTable, tables_of

_MULTIPLEXED = re.compile(r"(?<![a-z0-9])(?:h2c?|h3|http[/ ]?[23]|quic|grpc)(?![a-z0-9])", re.IGNORECASE)
_COLUMN = "column"
"""Heading of the names of servers that stood in the first row."""
_CHANGE = re.compile(
    r"diff|delta|change|ratio|improve|vs\.?\b|winner|diferen|écart|измен|разниц|差异|提升|[Δ%±]", re.IGNORECASE
)
"""Heading of a column that compares others."""
_SHARE = re.compile(r"[\d.,]+ ?(?:%|[mnuμ]?s|[x\u00d7])")
_DATED = re.compile(
    r"(?:start |end |unix )?(?:date|time|timestamp|started|time started)|file|commit|seed|rank|排名", re.IGNORECASE
)
"""Heading of a column that is no condition of a measurement, but its date, file, commit or rank."""
_USERS = re.compile(r"\b(?:vus?|(?:virtual )?users?)\b|用户|ユーザー", re.IGNORECASE)
"""Users of a load tool, which may wait between their requests."""
_AT = re.compile(r"\b(\d[\d,]*) (?:concurrent )?(?:connections|conns|clients)\b", re.IGNORECASE)
_AT_OF_ROW = re.compile(r"[(\[]c ?=? ?(\d+)[)\]]", re.IGNORECASE)
"""Connections in the name of a server or test: `GET (c64)`."""
_RATES_IN = re.compile(rf"\bin {PER_SECOND.pattern}", re.IGNORECASE)
"""Statement that bare numbers are rates: `results are in req/s`."""
_ACHIEVED = re.compile(r"achieved\b", re.IGNORECASE)
"""Heading of a rate beside which another one is the target rate."""
_TIMES_IN = re.compile(
    rf"\b(?:latenc\w+|response times?)\b[^.|]{{0,80}}?\bin ({'|'.join(map(re.escape, SECONDS))})\b", re.IGNORECASE
)
_VALUE = {"value", "values", "result", "wert", "valeur", "valor", "valore", "значение", "值", "数值", "结果", "値"}
"""Headings of the only column of figures, which name no server."""
_SENTENCE = 60
"""Longest cell that may be a name, in characters."""


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
    tables = tables if is_json else _joined([_upright(table) for table in tables])
    read = [_read(table, text, where) for table in tables]
    results = [result for table in read for result in table.results]
    if not results:
        _raise_no_rate(tables, where)
    several = sum(bool(table.results) for table in read) > 1
    places = [{(each.name, each.test, each.connections, each.streams) for each in table.results} for table in read]
    known = Counter(place for of_table in places for place in of_table)
    is_apart = [all(known[place] == 1 for place in of_table) for of_table in places]
    titles = [table.title or f"table {number}" if several else None for number, table in enumerate(tables, start=1)]
    named = [
        result
        if title is None or (result.test and alone)
        else result.model_copy(update={"test": ", ".join(filter(None, (title, result.test)))})
        for title, table, alone in zip(titles, read, is_apart, strict=True)
        for result in table.results
    ]
    return PublishedTable(named, [head for table in read if table.results for head in table.unused])


def _raise_no_rate(tables: Sequence[RawTable], where: str) -> NoReturn:
    heads = [(table, head) for table in tables for head in table.heads]
    rates = [(table, head) for table, head in heads if _is_rate_alone(column_of(head, []))]
    if rates:
        cell = next((row[head] for table, head in rates for row in table.rows if row[head]), None)
        raise InputError(
            f"no cell of {rates[0][1]!r} is a rate",
            where=where,
            why="all are empty" if cell is None else f"one is {cell!r}",
            hint="a rate is a number, such as `12345`, `12.3k` or `12,345 req/s`",
        )
    raise InputError(
        "no column of the table is a rate" if len(tables) == 1 else f"no column of {len(tables)} tables is a rate",
        where=where,
        why=f"its columns are {', '.join(head for _, head in heads)}",
        hint="name it `requests/s`, or `Speed (64)` for a rate at 64 connections",
    )


def _upright(table: RawTable) -> RawTable:
    """Return a table with a row for each server, where its first column has headings and its first row has servers."""
    corner, *servers = table.heads
    figures = [row[corner] for row in table.rows]
    at = [_connections(head) for head in servers]
    is_turned = (
        len(set(figures)) == len(figures)
        and all(read_number(head) is None and read_rate(head) is None for head in figures)
        and any((column := column_of(head, [])) is not None and column.field == "rps" for head in figures)
        and (all(at) or not any((column := column_of(head, [])) and column.field == "rps" for head in servers))
    )
    if not is_turned:
        return table
    first = "connections" if all(at) else _COLUMN
    rows = [
        {first: str(number or _server(server, table)), **{row[corner]: row[server] for row in table.rows}}
        for server, number in zip(servers, at if all(at) else [None] * len(servers), strict=True)
    ]
    kept = [row for row in rows if not _CHANGE.search(row[first])]
    return RawTable([first, *figures], kept, table.title, table.before)


def _connections(head: str) -> int | None:
    column = column_of(head, [])
    return connections_of(head) or (column.connections if column else None)


def _server(head: str, table: RawTable) -> str:
    return table.title if table.title and words_of(head).lower() in _VALUE else head


def _joined(tables: Sequence[RawTable]) -> list[RawTable]:
    """Return the tables; several of one row, with the same headings under one title, become one."""
    joined: list[RawTable] = []
    for table in tables:
        last = joined[-1] if joined else None
        if last is not None and len(table.rows) == 1 and (last.heads, last.title) == (table.heads, table.title):
            joined[-1] = RawTable(last.heads, [*last.rows, *table.rows], last.title, last.before)
        else:
            joined.append(table)
    return joined


def _columns(
    table: RawTable, cells: Mapping[str, Sequence[str]], about: str, *, is_json: bool
) -> tuple[dict[str, PublishedColumn], Decimal]:
    """Return the columns that are used, and the decimal separator of the table."""
    columns = {head: column for head in table.heads if (column := column_of(head, cells[head])) is not None}
    units = {column.scale for column in columns.values() if column.kind == "time" and column.field != "duration_s"}
    if match := _TIMES_IN.search(about):
        units = {SECONDS[match[1].lower()]}
    unit = next(iter(units - {None})) if len(units - {None}) == 1 else None  # `avg_ms,p50,p99`
    columns = {
        head: replace(column, scale=unit) if column.kind == "time" and column.scale is None else column
        for head, column in columns.items()
    }
    if any((column := column_of(row[table.heads[0]], [])) and column.kind == "time" for row in table.rows):
        columns = {head: column for head, column in columns.items() if column.connections is None}  # also of times
    if not any(
        head == "" or is_name(head) or is_test(head) or (head in columns and not is_bare_number(head))
        for head in table.heads
    ):
        columns = {head: column for head, column in columns.items() if not is_bare_number(head)}
    rates_as_printed = [cells[head] for head, column in columns.items() if column.kind == "rate"]
    decimal: Decimal = "." if is_json else decimal_of(_figures(table, columns), rates_as_printed)
    columns = _target_and_averages(columns, cells, decimal)
    has_rate = any(column.field == "rps" for column in columns.values())
    columns = {
        head: column
        for head, column in columns.items()
        if not any(cells[head]) or any(column.read(cell, decimal) is not None for cell in cells[head])
    }
    others = [head for head in table.heads if head not in columns]
    columns |= _rates_by_cells(table, cells, others, decimal, has_rate=has_rate)
    columns |= _rates_by_owner(columns)
    return _first_of_each(columns), decimal


def _read(table: RawTable, text: str, where: str) -> PublishedTable:
    cells = {head: [row[head] for row in table.rows] for head in table.heads}
    about = " ".join((table.title or "", table.before))
    is_json = text.lstrip().startswith(("[", "{"))
    columns, decimal = _columns(table, cells, about, is_json=is_json)
    names = [head for head in table.heads if head not in columns]
    rates = [number for number, head in enumerate(table.heads) if head in columns and columns[head].kind == "rate"]
    first = 0 if is_json else min(rates, default=0)
    left = [head for head in table.heads[:first] if head in names] if first else names
    named, tested = _labels(table, names, left, cells, decimal)
    loads = [head for head, column in columns.items() if column.field in {"connections", "streams"}]
    conditions = [] if named is None else _conditions(table, [named, *filter(None, (tested,)), *loads], left)
    steps = {
        head: min(
            numbers.step_of(cell, column.scale, decimal)
            for cell in cells[head]
            if column.read(cell, decimal) is not None
        )
        for head, column in columns.items()
        if re.fullmatch(r"mean_s|p[\d.]+", column.field) and any(cells[head])
    }
    servers = [head for head, column in columns.items() if column.field == "server"]
    is_whole = all(
        not float(value) % 1
        for head, column in columns.items()
        if column.field == "duration_s"
        for cell in cells[head]
        if (value := column.read(cell, decimal)) is not None
    )
    results: list[PublishedResult] = []
    for number, row in enumerate(_measured(_filled(table, named, tested), named), start=1):
        figures = {head: column.read(row[head], decimal) for head, column in columns.items()}
        label = row[named] if named is not None and row[named] else f"row {number}"
        test = row[tested] if tested is not None and row[tested] and row[tested] != label else None
        under = [
            row[head] if read_number(row[head]) is None else f"{head} {row[head]}" for head in conditions if row[head]
        ]
        test = ", ".join(filter(None, (test, *under))) or None
        if servers:
            results += [
                PublishedResult(
                    rps=figures[head],
                    **_place(head, label, test, None if loads else number, named),
                    **_counts(columns, figures),
                )
                for head in servers
                if figures[head] is not None
            ]
        else:
            step = max((step for head, step in steps.items() if figures[head] is not None), default=0.0)
            read = _results(label, test, columns, figures, is_whole=is_whole)
            results += [each.model_copy(update={"resolution_s": step or None}) for each in read]
    context, marks = f"{where} {table.title or ''}", marks_of_text(about)
    at = _stated_connections(_AT, table.title) or marks.connections
    waits = any(_USERS.search(" ".join((head, *cells[head]))) for head in loads) or (
        named is None and any(column.field == "rps" and is_sweep(head) for head, column in columns.items())
    )
    marked = [
        each.model_copy(
            update={
                "is_multiplexed": _MULTIPLEXED.search(f"{context} {each.test or ''}") is not None,
                "is_open": marks.is_open or waits,
                "connections": each.connections or _stated_connections(_AT_OF_ROW, each.label) or at,
            }
        )
        for each in results
    ]
    used = {named, tested, KEY, OUTER_KEY, _COLUMN, *conditions}
    unused = [head for head in names if head and head not in used]
    unused += [head for head in columns if servers and head not in {*servers, *loads}]
    unused += [
        f"{head} of {row[named] if named else f'row {number}'}: {row[head]}"
        for number, row in enumerate(table.rows, start=1)
        for head, column in columns.items()
        if column.kind == "rate" and re.match(r"[^(]*\d", row[head]) and column.read(row[head], decimal) is None
    ]
    additions = [
        head
        for head, column in columns.items()
        if column.kind == "rate" and any(map(has_figure_in_brackets, cells[head]))
    ]
    return PublishedTable(marked, [*unused, *(f"{head} (in brackets)" for head in additions)])


def _stated_connections(pattern: re.Pattern[str], text: str | None) -> int | None:
    stated = {int(found.replace(",", "")) for found in pattern.findall(text or "")}
    return stated.pop() if len(stated) == 1 else None


def _target_and_averages(
    columns: Mapping[str, PublishedColumn], cells: Mapping[str, Sequence[str]], decimal: Decimal
) -> dict[str, PublishedColumn]:
    """Return the columns; counts with decimals are mean rates, and rates beside an achieved one are target rates."""

    def has_decimals(head: str) -> bool:
        read = [columns[head].read(cell, decimal) for cell in cells[head]]
        return any(value is not None and not math.isclose(value, round(value)) for value in read)

    rates = {head for head, column in columns.items() if _is_rate_alone(column)}
    achieved = {head for head in rates if _ACHIEVED.match(words_of(head))}
    changed = {
        head: PublishedColumn("rps", kind="rate")
        for head, column in columns.items()
        if column.field == "requests" and has_decimals(head)
    }
    if len(achieved) == 1:
        changed |= {head: replace(columns[head], field="target_rate") for head in rates - achieved}
    return changed | dict(columns) | changed  # mean rates first


def _filled(table: RawTable, *labels: str | None) -> Sequence[Mapping[str, str]]:
    """Return the rows; an empty label in the first column becomes the label above, which heads a group."""
    first = table.heads[0]
    if first not in labels:
        return table.rows
    filled: list[Mapping[str, str]] = []
    for row in table.rows:
        filled.append(row if row[first] or not filled else {**row, first: filled[-1][first]})
    return filled


def _measured(rows: Sequence[Mapping[str, str]], named: str | None) -> Sequence[Mapping[str, str]]:
    """Return the rows without summaries: `Average` below servers, or below `1`, `2` and `3`.

    If all rows are summaries, as in wrk's statistics, the row of means is returned.
    """
    if named is None:
        return rows
    means = [row for row in rows if is_mean(row[named])]
    return [row for row in rows if not is_summary(row[named])] or means or rows


def _first_of_each(columns: Mapping[str, PublishedColumn]) -> dict[str, PublishedColumn]:
    """Return the first column of each figure: `Total req/s` before `Req/s avg`, headings with `/s` before others."""
    named = sorted(columns.items(), key=lambda item: PER_SECOND.search(words_of(item[0])) is None)
    first = {column.field: head for head, column in reversed(named)}
    return {
        head: column
        for head, column in columns.items()
        if first[column.field] == head or column.field == "server" or column.repeats or column.connections is not None
    }


def _conditions(table: RawTable, known: Sequence[str], heads: Sequence[str]) -> list[str]:
    """Return the other columns that distinguish rows of the same server and load: their values are tests."""
    chosen: list[str] = []

    def kinds(of: Sequence[str]) -> int:
        return len({tuple(row[head] for head in of) for row in table.rows})

    for head in heads:
        counts = all(read_number(row[head]) is not None for row in table.rows) if not head else is_index(head)
        if counts or head in {*known, KEY, OUTER_KEY} or _DATED.fullmatch(words_of(head)):
            continue
        if kinds([*known, *chosen, head]) > kinds([*known, *chosen]):
            chosen.append(head)
    return chosen


def _figures(table: RawTable, columns: Mapping[str, PublishedColumn]) -> Iterator[str]:
    for row in table.rows:
        yield from (row[head] for head, column in columns.items() if column.field != "test")
        if not columns:
            yield from row.values()


def _rates_by_cells(
    table: RawTable, cells: Mapping[str, Sequence[str]], heads: Sequence[str], decimal: Decimal, *, has_rate: bool
) -> dict[str, PublishedColumn]:
    """Return columns whose headings name no figure: repetitions of each row, or servers whose cells name rates."""
    repeats = [
        head
        for head in heads
        if is_repetition(head)
        and not has_time_unit(head)
        and any(PublishedColumn("rps", kind="rate").read(cell, decimal) is not None for cell in cells[head])
    ]
    about = " ".join((table.title or "", table.before, *table.heads))
    at = {head: number for head in heads if (number := connections_of(head)) is not None}
    if at and not has_rate and (PER_SECOND.search(about) or _are_rates(cells, list(at), decimal)):
        return {head: PublishedColumn("rps", connections=number, kind="rate") for head, number in at.items()}
    if len(repeats) > 1 and (has_rate or PER_SECOND.search(about) or _are_rates(cells, repeats, decimal)):
        return {head: PublishedColumn("rps", kind="rate", repeats=True) for head in repeats}
    if has_rate:
        return {}
    rates = [head for head in heads if _are_rates(cells, [head], decimal)]
    if not rates and _RATES_IN.search(about):
        rates = [head for head in heads if head and not is_summary(head) and _are_numbers(cells[head], decimal)]
    if len(rates) == 1 and not is_repetition(rates[0]):
        return {rates[0]: PublishedColumn("rps", kind="rate")}
    field = "rps" if rates and all(map(is_repetition, rates)) else "server"
    return {head: PublishedColumn(field, kind="rate", repeats=field == "rps") for head in rates}


def _are_rates(cells: Mapping[str, Sequence[str]], heads: Sequence[str], decimal: Decimal) -> bool:
    stated = [cell for head in heads for cell in cells[head] if cell]
    return bool(stated) and 2 * sum(read_rate(cell, decimal) is not None for cell in stated) > len(stated)


def _are_numbers(column: Sequence[str], decimal: Decimal) -> bool:
    return any(column) and all(not cell or read_number(cell, decimal) is not None for cell in column)


def _labels(
    table: RawTable, heads: Sequence[str], left: Sequence[str], cells: Mapping[str, Sequence[str]], decimal: Decimal
) -> tuple[str | None, str | None]:
    """Return the columns with the names of servers and of tests: by heading, else by the texts `left` of figures."""
    texts = [
        head
        for head in left
        if head != KEY
        and any(_is_label(cell, decimal, is_first=head == table.heads[0]) for cell in cells[head])
        and max(map(len, cells[head]), default=0) <= _SENTENCE
    ]
    tested = next((head for head in heads if is_test(head)), KEY if KEY in table.heads else None)
    outer = OUTER_KEY if OUTER_KEY in table.heads else None
    named = next((head for head in sorted(heads, key=_COLUMN.__eq__) if is_name(head)), outer)
    if named is None and tested == KEY and not texts:
        return KEY, None
    if named is None:
        varied = [head for head in texts if head != tested and (len(set(cells[head])) > 1 or len(table.rows) == 1)]
        named = varied[0] if varied else tested
    return named, None if tested == named else tested


def _is_label(cell: str, decimal: Decimal, *, is_first: bool) -> bool:
    """Return whether a cell may be a name; a number or size may be one in the first column only: `64Mi`."""
    if re.search(r"[^\W\d_]", cell) is None or _SHARE.fullmatch(cell):
        return False
    return is_first or (read_number(cell, decimal) is None and not is_size(cell))


def _rates_by_owner(columns: Mapping[str, PublishedColumn]) -> dict[str, PublishedColumn]:
    """Return several columns of rates as columns of the servers or tests that their headings name."""
    heads = [head for head, column in columns.items() if _is_rate_alone(column)]
    owners = {owner_of(head) for head in heads}
    if len(heads) == 1 or "" in owners or len(owners) < len(heads):
        return {}
    return {head: replace(columns[head], field="server") for head in heads}


def _is_rate_alone(column: PublishedColumn | None) -> bool:
    """Return whether a column is of rates of any scale, without connections or repetitions."""
    return column is not None and replace(column, scale=None) == PublishedColumn("rps", kind="rate")


def _place(head: str, label: str, test: str | None, number: int | None, named: str | None) -> dict[str, Any]:
    """Return the server, test and repetition of a cell in a table with several columns of rates."""
    owner = owner_of(head) or words_of(head)
    if named is not None and is_name(named):
        return {"name": label, "test": ", ".join(filter(None, (test, owner)))}
    if named is None or is_index(named) or is_repetition(label):
        return {"name": owner, "test": test, "repetition": number}
    return {"name": owner, "test": ", ".join(filter(None, (test, label)))}


def _counts(columns: Mapping[str, PublishedColumn], figures: Mapping[str, float | None]) -> dict[str, int | None]:
    return {
        column.field: _whole(figures[head])
        for head, column in columns.items()
        if column.field in {"connections", "streams"}
    }


def _results(
    name: str,
    test: str | None,
    columns: Mapping[str, PublishedColumn],
    figures: Mapping[str, float | None],
    *,
    is_whole: bool,
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
    if "rps" not in common and not several and common.get("requests") and common.get("duration_s"):
        common["rps"] = common["requests"] / common["duration_s"]
    for number, (column, value) in enumerate(several, start=1):
        if value:
            yield PublishedResult(
                name=name,
                test=test,
                rps=value,
                connections=column.connections or _whole(common.get("connections")),
                streams=_streams(common.get("streams")),
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
    success = common.get("success_share")
    times = {field: value for field, value in common.items() if value and re.fullmatch(r"p[\d.]+", field)}
    return PublishedResult(
        name=name,
        test=test,
        rps=common["rps"],
        mean_s=common.get("mean_s") or None,
        max_s=common.get("max_s") or None,
        percentiles={float(field[1:]): value for field, value in times.items()},
        connections=_whole(common.get("connections")),
        streams=_streams(common.get("streams")),
        target_rate=common.get("target_rate") or None,
        rate_ratio=common.get("rate_ratio"),
        requests=_whole(common.get("requests", answered or None)),
        duration_s=common.get("duration_s"),
        duration_step_s=1.0 if is_whole and "duration_s" in common else 0.0,
        failures=_whole(total),
        failure_share=common.get("failure_share", None if success is None else 1 - success),
        errors_connect=_whole(common.get("errors_connect")),
        statuses=statuses,
        reconnects=_whole(common.get("reconnects")),
        dropped=_whole(common.get("dropped")),
        bytes_per_s=common.get("bytes_per_s"),
    )


def _streams(number: float | None) -> int | None:
    """Return stated requests in flight on a connection; a pipeline of one says nothing of the streams of HTTP/2."""
    return None if number is None or number <= 1 else round(number)


def _whole(number: float | None) -> int | None:
    return None if number is None else round(number)
