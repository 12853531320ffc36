"""`benchkit audit` and `benchkit results import`: results that others measured, examined or stored as runs."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from benchkit.cli.options import Json, StoreFolder, Tags, complete_run, finite

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchkit.models.base import Levels
    from benchkit.plugins.foreign.checks import AuditFinding
    from benchkit.plugins.foreign.imported import OutputFile
    from benchkit.plugins.foreign.published import PublishedTable

MAX_LINK_BPS = 1e15
"""Largest capacity of a link, in bits per second: a thousand times that of any."""

MAX_NAMED = 5
"""Results that a line names, and findings of a check that are listed; the others are counted."""


def audit(
    files: Annotated[
        list[str],
        typer.Argument(metavar="FILE…", help="Outputs of load tools, or tables (CSV, Markdown, JSON); - is stdin."),
    ],
    *,
    connections: Annotated[
        int | None, typer.Option("--connections", min=1, help="Connections, where the results do not state them.")
    ] = None,
    link: Annotated[
        float | None,
        typer.Option(
            "--link",
            metavar="BPS",
            min=1,
            max=MAX_LINK_BPS,
            callback=finite,
            help="Capacity of the link in bits per second: 1e9.",
        ),
    ] = None,
    noise: Annotated[
        float | None,
        typer.Option(
            "--noise",
            min=0,
            max=1,
            callback=finite,
            help="Spread of repetitions as a share of the rate, where a table has none: 0.05.",
        ),
    ] = None,
    noise_from: Annotated[
        str | None,
        typer.Option("--noise-from", metavar="TABLE", help="A table with repetitions, whose spread is the noise."),
    ] = None,
    target_rate: Annotated[
        bool, typer.Option("--target-rate", help="The load tools held a target rate: connections may have been idle.")
    ] = False,
    streams: Annotated[
        int | None,
        typer.Option(
            "--streams", "-m", min=1, help="Requests in flight on each connection, where the results do not state them."
        ),
    ] = None,
    repetitions: Annotated[
        bool, typer.Option("--repetitions", help="The files are repetitions of one table, which show its noise.")
    ] = False,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print a summary by test and by check, as Markdown.")
    ] = False,
    json: Json = False,
) -> None:
    """Examine results that others published: plateaus, contradictions, rates beyond the link, ranks within the noise.

    A table has a row for each server, or for each measurement of one. Its headings are such as `framework`,
    `requests/s`, `Speed (64)` (a rate at 64 connections), `p99 (ms)` and `connections`. Outputs of load tools are
    recognised.
    """
    from benchkit.cli.console import print_json
    from benchkit.errors import InputError
    from benchkit.plugins.foreign.checks import AuditContext
    from benchkit.plugins.foreign.published import tests_apart
    from benchkit.plugins.foreign.summary import summarise
    from benchkit.plugins.foreign.table_checks import noise_of, run_checks

    tables = {file: _read(file) for file in files}
    read = [table.results for table in tables.values()] if repetitions else tests_apart(tables)
    results = [
        each if each.connections is not None else each.model_copy(update={"connections": connections})
        for table in read
        for each in table
    ]
    unused = {file: table.unused for file, table in tables.items() if table.unused}
    if noise_from is not None:
        noise = noise_of(_read(noise_from).results) if noise is None else noise
        if noise is None:
            raise InputError("the table has no repetitions", where=noise_from, hint="state the noise: --noise 0.05")
    context = AuditContext(link_bps=link, is_rate_held=target_rate, streams=streams, noise=noise)
    findings, skipped = run_checks(results, context)
    if markdown:
        print(summarise(results, findings, noise))
        return
    if json:
        print_json(
            {
                "results": [each.model_dump(mode="json") for each in results],
                "findings": [each.model_dump(mode="json") for each in findings],
                "skipped": [each.model_dump(mode="json") for each in skipped],
                "unused_columns": unused,
            }
        )
        return
    from benchkit.units import counted

    print(f"{counted(len(results), 'result')}: {counted(len(findings), 'finding')}")
    for of_check in _by_check(findings):
        for finding in of_check[:MAX_NAMED]:
            print(f"- {finding.severity}, {finding.check} ({_names(finding)}): {finding.text}")
        if len(of_check) > MAX_NAMED:
            print(f"- {of_check[0].check}: {len(of_check) - MAX_NAMED} more findings; --json has all")
    for each in skipped:
        print(f"- not checked, {each.check} ({counted(each.results, 'result')}): {each.why}")
    for file, heads in unused.items():
        print(f"- not read, {counted(len(heads), 'column')} of {file}: {', '.join(heads)}")


def _read(file: str) -> PublishedTable:
    """Return the results of a file: of the load tool that is recognised in it, else of its tables."""
    from benchkit.cli.console import input_name, read_input
    from benchkit.loadtools.formats import read_runs
    from benchkit.loadtools.text import decode
    from benchkit.plugins.foreign.published import PublishedTable, results_of_outputs, stated_result
    from benchkit.plugins.foreign.table_results import read_table

    text = decode(read_input(file))
    name = input_name(file)
    stated = stated_result(text)
    outputs = read_runs(text, where=name) if stated is None else [stated]
    return PublishedTable(results_of_outputs(name, outputs, text), ()) if outputs else read_table(text, name)


def _by_check(findings: Sequence[AuditFinding]) -> list[list[AuditFinding]]:
    groups: dict[str, list[AuditFinding]] = {}
    for finding in findings:
        groups.setdefault(finding.check, []).append(finding)
    return list(groups.values())


def _names(finding: AuditFinding) -> str:
    shown = finding.results[:MAX_NAMED]
    more = len(finding.results) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def import_outputs(
    tool: Annotated[
        str,
        typer.Argument(
            help="The load tool that wrote them, or auto to recognise it; an unknown name lists all.",
        ),
    ],
    files: Annotated[
        list[str], typer.Argument(metavar="FILE…", help="Its outputs, each a block of one cell; - is stdin.")
    ],
    *,
    scenario: Annotated[
        str | None, typer.Option("--scenario", metavar="NAME", help="Name under which the run is stored.")
    ] = None,
    factor: Annotated[
        list[str] | None, typer.Option("--factor", metavar="NAME=LEVEL", help="A level of the cell: server=nginx.")
    ] = None,
    load: Annotated[
        list[str] | None,
        typer.Option(
            "--load", metavar="FIELD=VALUE", help="A field of the load that the outputs do not state: rate=1000."
        ),
    ] = None,
    into: Annotated[
        str | None,
        typer.Option("--into", metavar="RUN", help="Add a cell to this imported run.", autocompletion=complete_run),
    ] = None,
    interleaved: Annotated[
        bool,
        typer.Option("--interleaved", help="The cells of the run were measured in turns: pair their files as blocks."),
    ] = False,
    at: Annotated[
        str | None,
        typer.Option(
            "--at", metavar="WHEN", help="When it was measured: 2026-01-31T12:00. [default: the files' times]"
        ),
    ] = None,
    tag: Tags = None,
    store: StoreFolder = None,
    json: Json = False,
) -> None:
    """Make a run of outputs that were measured elsewhere; repeated files are blocks of one cell.

    A table, alone, becomes a cell for each server, test and number of connections; its repetitions become blocks.
    With --into, further cells are added to the run, so that `compare` has ratios. Verdicts rest on the outputs alone:
    checks that need hosts, servers or responses are skipped, and that is shown.
    """
    from benchkit.cli.console import print_json, say
    from benchkit.cli.options import parse_tags
    from benchkit.errors import InputError
    from benchkit.models.base import NAME_FORM, Name
    from benchkit.plugins.foreign.imported import import_into, import_run, read_cell
    from benchkit.plugins.foreign.imported_tables import cells_of_table, is_table
    from benchkit.store.store import Store, existing_store, store_path
    from benchkit.store.tables import load as load_table
    from benchkit.units import counted
    from benchkit.validation import is_valid_name

    if into is None and (scenario is None or not is_valid_name(scenario, Name)):
        raise InputError(
            "a run needs the name of a scenario" if scenario is None else f"no name of a scenario: {scenario!r}",
            where="--scenario",
            why=None if scenario is None else f"allowed: {NAME_FORM}",
        )
    if into is not None and (tag or interleaved):
        raise InputError("--tag and --interleaved cannot change a run that is stored", where=f"--into {into}")
    outputs, levels, fields = _files(files, at), _levels(factor or ()), _values("--load", load or ())
    if len(outputs) == 1 and is_table(tool, outputs[0]):
        cells, is_paired = cells_of_table(outputs[0], levels, fields)
    else:
        cells, is_paired = [read_cell(tool, outputs, levels, fields)], False
    if into is None:
        where = Store(store_path(store))
        named = parse_tags(tag or [])
        outcome = import_run(where, str(scenario), cells, named, interleaved=interleaved or is_paired)
    else:
        where = Store(existing_store(store))
        outcome = import_into(where, where.run(into), scenario, cells)
    rows = load_table("trials", store=where.path, run_id=outcome.run.run_id)
    ids, trials = [cell.cell_id for cell in cells], sum(len(cell.files) for cell in cells)
    verdicts = rows[rows["cell_id"].isin(ids)]["verdict"].value_counts().to_dict()
    if json:
        of_run = {"run_id": outcome.run.run_id, "cell_id": ids[0], "cells": ids}
        print_json({**of_run, "trials": trials, "verdicts": verdicts})
        return
    shown = ", ".join(f"{number} {verdict}" for verdict, number in verdicts.items())
    as_cells = ids[0] if len(ids) == 1 else counted(len(ids), "cell") + (" in common blocks" if is_paired else "")
    say(f"run {outcome.run.run_id}: {counted(trials, 'output')} imported as {as_cells}: {shown}")
    print(outcome.run.run_id)


def _files(names: Sequence[str], at: str | None) -> list[OutputFile]:
    """Return the files with the time at which each was written, or that `at` states. Raises InputError."""
    from benchkit.cli.console import STDIN, input_name, read_input
    from benchkit.errors import InputError
    from benchkit.plugins.foreign.imported import OutputFile

    stated = None
    if at is not None:
        try:
            stated = datetime.fromisoformat(at)
        except ValueError:
            raise InputError("not a date", where=f"--at {at}", hint="as 2026-01-31 or 2026-01-31T12:00") from None
        stated = stated if stated.tzinfo else stated.replace(tzinfo=UTC)

    def written(name: str) -> datetime:
        return datetime.now(UTC) if name == STDIN else datetime.fromtimestamp(Path(name).stat().st_mtime, UTC)

    contents = {name: read_input(name) for name in names}
    if len(contents) < len(names):
        raise InputError("a file is given twice", why="each is one measurement", where=", ".join(names))
    return [OutputFile(input_name(name), content, stated or written(name)) for name, content in contents.items()]


def _levels(texts: Sequence[str]) -> Levels:
    from pydantic import TypeAdapter, ValidationError

    from benchkit.errors import InputError
    from benchkit.models.base import NAME_FORM, Levels

    try:
        return TypeAdapter[Levels](Levels).validate_python(_values("--factor", texts))
    except ValidationError as error:
        found = error.errors()[0]
        raise InputError(
            "the name of a factor or its level is not allowed",
            where=f"--factor {found['loc'][0]}",
            why=f"names: {NAME_FORM}; levels: text of letters, digits and ._+:/@-, a number, true or false",
        ) from None


def _values(option: str, texts: Sequence[str]) -> dict[str, object]:
    from benchkit.document import parse_document
    from benchkit.errors import InputError

    values: dict[str, object] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name or not value:
            raise InputError("not of the form name=value", where=f"{option} {text}")
        if name in values:
            raise InputError("given twice", where=f"{option} {name}")
        values[name] = parse_document(f"value: {value}", f"{option} {text}").data["value"]
    return values
