"""Import of published tables: each server, test and number of connections is a cell, and its repetitions are blocks.

A result is stored as a document of its own, which `FORMAT` reads again. So a stored run is built from raw files as any
other is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from benchkit.errors import ParseError
from benchkit.loadtools.formats import AUTO, read_runs
from benchkit.loadtools.output_format import OutputFormat
from benchkit.loadtools.text import decode
from benchkit.models.base import Levels, cell_id
from benchkit.models.load_result import Errors, Latency, LoadResult
from benchkit.plugins.foreign.checks import has_unstated_streams
from benchkit.plugins.foreign.imported import ImportedCell, OutputFile, load_of
from benchkit.plugins.foreign.published import PublishedResult
from benchkit.plugins.foreign.table_checks import copied_percentiles
from benchkit.plugins.foreign.table_results import read_table

TABLE = "table"
"""Stands for the load tool of a table, which is unknown."""
_MARK = '"published_result"'
_OTHER = re.compile(r"[^A-Za-z0-9._+:/@-]+")
_LEVEL_LENGTH = 60


def is_table(tool: str, file: OutputFile) -> bool:
    """Return whether the file is a table: `tool` says so, or is `auto` and no load tool is recognised."""
    return tool == TABLE or (tool == AUTO and not read_runs(decode(file.content), where=file.name))


def cells_of_table(file: OutputFile, levels: Levels, load: Mapping[str, Any]) -> tuple[list[ImportedCell], bool]:
    """Return the cells of a table, and whether its repetitions are blocks that its cells have in common.

    `levels` are of all cells, and `load` has fields that the table does not state. Raises InputError for other text,
    for a row without a rate or a number of connections, and for an invalid load.
    """
    results = _without_copies([each for each in read_table(decode(file.content), file.name).results if each.rps])
    names = _distinct_levels([each.name for each in results])
    tests = _distinct_levels([each.test for each in results if each.test])
    several = {
        "test": len({each.test for each in results}) > 1,
        "connections": len({each.connections for each in results}) > 1,
        "streams": len({each.streams or 1 for each in results}) > 1,
    }
    by_cell: dict[str, tuple[Levels, list[PublishedResult]]] = {}
    for result in results:
        own: dict[str, Any] = {"server": names[result.name]}
        if several["test"]:
            own["test"] = tests.get(result.test or "", "none")
        if several["connections"] and result.connections is not None:
            own["connections"] = result.connections
        if several["streams"]:
            own["streams"] = result.streams or 1
        every = {**own, **levels}
        by_cell.setdefault(cell_id(every), (every, []))[1].append(result)
    blocks = [sorted(each.repetition or 0 for each in of_cell) for _, of_cell in by_cell.values()]
    is_paired = len(blocks) > 1 and all(each == blocks[0] and 0 not in each and len(each) > 1 for each in blocks)
    return [_cell(file, of_cell, measured, load) for of_cell, measured in by_cell.values()], is_paired


def _without_copies(results: Sequence[PublishedResult]) -> list[PublishedResult]:
    """Return the results without percentiles that are copies of their means: no percentile was measured."""
    copied = {(id(each), percent) for percent, copies in copied_percentiles(results) for each in copies}
    return [
        each.model_copy(
            update={"percentiles": {p: time for p, time in each.percentiles.items() if (id(each), p) not in copied}}
        )
        for each in results
    ]


def _cell(
    file: OutputFile, levels: Levels, results: Sequence[PublishedResult], load: Mapping[str, Any]
) -> ImportedCell:
    first = results[0]
    stated = {"connections": first.connections, "streams": first.streams, "rate": first.target_rate}
    typed = load_of(TABLE, "the table", file, stated, load, where=file.name)
    ordered = sorted(results, key=lambda each: each.repetition or 0)
    files = [OutputFile(file.name, _document(each), file.measured_at) for each in ordered]
    named = f"The table calls it {first.name!r}." if levels.get("server") != first.name else ""
    return ImportedCell(levels, typed, files, [_load_result(each) for each in ordered], named)


def _distinct_levels(names: Sequence[str]) -> dict[str, str]:
    """Return a level for each name: its letters and digits, numbered where two would be the same."""
    levels: dict[str, str] = {}
    for name in dict.fromkeys(names):
        bare = _OTHER.sub("-", name).strip("-._+:/@")[:_LEVEL_LENGTH] or "server"
        taken = sum(each == bare or each.startswith(f"{bare}:") for each in levels.values())
        levels[name] = f"{bare}:{taken + 1}" if taken else bare
    return levels


def _document(result: PublishedResult) -> bytes:
    return f"{{{_MARK}: {result.model_dump_json()}}}\n".encode()


def _parse(text: str) -> LoadResult:
    bare = text.strip()
    if not _is_document(bare):
        raise ParseError("this is no stored row of a published table", where=TABLE, hint="give the table to audit")
    try:
        result = PublishedResult.model_validate_json(bare[len(_MARK) + 2 : -1].lstrip(" :"))
    except ValidationError as error:
        raise ParseError(
            "the row of a published table cannot be read", where=TABLE, why=str(error.errors()[0]["msg"])
        ) from None
    return _load_result(result)


def _is_document(text: str) -> bool:
    return text.lstrip().startswith("{" + _MARK)


def _load_result(result: PublishedResult) -> LoadResult:
    """Return a published result as that of an unknown load tool, which corrects no latencies of a plain closed loop."""
    is_plain = not (result.target_rate or result.is_multiplexed or has_unstated_streams(result))
    return LoadResult(
        tool=TABLE,
        duration_s=result.duration_s,
        requests=result.requests,
        rps=result.rps,
        connections=result.connections,
        bytes_per_s=result.bytes_per_s,
        latency=Latency(
            mean_s=result.mean_s,
            max_s=result.max_s,
            percentiles=dict(_percentiles(result)),
            covers="request",
            corrected=False if is_plain else None,
        ),
        errors=Errors(connect=result.errors_connect),
        failed=result.failures,
        non_2xx=sum(count for kind, count in result.statuses.items() if kind != "2xx") if result.statuses else None,
    )


def _percentiles(result: PublishedResult) -> Iterator[tuple[str, float]]:
    for percent, time_s in result.percentiles.items():
        yield f"{percent:g}", time_s


FORMAT = OutputFormat(TABLE, _is_document, _parse)
"""The stored rows of published tables."""
