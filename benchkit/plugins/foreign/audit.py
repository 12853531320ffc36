"""`benchkit audit`: other people's results, examined with the checks that such data allow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from benchkit.cli.options import Json, finite

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchkit.plugins.foreign.checks import AuditFinding
    from benchkit.plugins.foreign.table import PublishedTable

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
    target_rate: Annotated[
        bool, typer.Option("--target-rate", help="The load tools held a target rate: connections may have been idle.")
    ] = False,
    json: Json = False,
) -> None:
    """Examine results that others published: plateaus, contradictions, rates beyond the link, ranks within the noise.

    A table has a row for each server, or for each measurement of one, with headings such as `framework`, `requests/s`,
    `Speed (64)` (a rate at 64 connections), `p99 (ms)` and `connections`. Outputs of load tools are recognised.
    """
    from benchkit.cli.console import print_json
    from benchkit.plugins.foreign.checks import Context, run_checks

    tables = {file: _read(file) for file in files}
    results = [
        each if each.connections is not None else each.model_copy(update={"connections": connections})
        for table in tables.values()
        for each in table.results
    ]
    unused = {file: table.unused for file, table in tables.items() if table.unused}
    findings, skipped = run_checks(results, Context(link_bps=link, is_rate_held=target_rate, noise=noise))
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
    """Return the results of a file: the output of the load tool that can read it, else those of a table."""
    from benchkit.cli.input_file import bytes_of, name_of
    from benchkit.loadtools.registry import get_tool, tools_that_read
    from benchkit.loadtools.text import decode
    from benchkit.plugins.foreign.result import result_of_output
    from benchkit.plugins.foreign.table import PublishedTable, read_table

    text = decode(bytes_of(file))
    tools = tools_that_read(text)
    if tools:
        return PublishedTable([result_of_output(name_of(file), get_tool(tools[0]).parse(text))], ())
    return read_table(text, name_of(file))


def _by_check(findings: Sequence[AuditFinding]) -> list[list[AuditFinding]]:
    groups: dict[str, list[AuditFinding]] = {}
    for finding in findings:
        groups.setdefault(finding.check, []).append(finding)
    return list(groups.values())


def _names(finding: AuditFinding) -> str:
    shown = finding.results[:MAX_NAMED]
    more = len(finding.results) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")
