"""`benchkit results import`: outputs of load tools that ran elsewhere, stored as runs."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from benchkit.cli.options import Json, StoreFolder, Tags

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchkit.models.base import Levels
    from benchkit.plugins.foreign.imported import OutputFile


def import_outputs(
    tool: Annotated[
        str,
        typer.Argument(
            help="The load tool that wrote them, or auto to recognise it; an unknown name lists all.",
        ),
    ],
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="[NAME=LEVEL] FILE…",
            help="Its outputs, each a block of one cell; - is stdin. server=nginx begins the files of a cell.",
        ),
    ],
    *,
    scenario: Annotated[str, typer.Option("--scenario", metavar="NAME", help="Name under which the run is stored.")],
    load: Annotated[
        list[str] | None,
        typer.Option(
            "--load", metavar="FIELD=VALUE", help="A field of the load that the outputs do not state: rate=1000."
        ),
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
    """Make a run of outputs that were measured elsewhere.

    `import wrk server=nginx nginx-*.txt server=go go-*.txt` makes two cells, so that `compare` has ratios. Levels of
    several factors have commas between them. Verdicts rest on the outputs alone: checks that need hosts, servers or
    responses are skipped, and that is shown.
    """
    from benchkit.cli.console import print_json, say
    from benchkit.cli.options import parse_tags
    from benchkit.errors import InputError
    from benchkit.models.base import NAME_FORM, Name
    from benchkit.plugins.foreign.imported import import_run, read_cell
    from benchkit.store.store import Store, store_path
    from benchkit.store.tables import load as load_table
    from benchkit.units import counted
    from benchkit.validation import is_valid_name

    if not is_valid_name(scenario, Name):
        raise InputError(
            f"not a valid name of a scenario: {scenario!r}", where="--scenario", why=f"allowed: {NAME_FORM}"
        )
    of_load = _values("--load", load or ())
    cells = [read_cell(tool, _files(names, at), _levels(levels), of_load) for levels, names in _by_cell(files)]
    where = Store(store_path(store))
    outcome = import_run(where, scenario, cells, parse_tags(tag or []), interleaved=interleaved)
    rows = load_table("trials", store=where.path, run_id=outcome.run.run_id)
    verdicts = {
        cell.cell_id: rows[rows["cell_id"] == cell.cell_id]["verdict"].value_counts().to_dict() for cell in cells
    }
    if json:
        print_json({"run_id": outcome.run.run_id, "trials": len(rows), "verdicts": verdicts})
        return
    for cell in cells:
        shown = ", ".join(f"{number} {verdict}" for verdict, number in verdicts[cell.cell_id].items())
        say(f"run {outcome.run.run_id}: {counted(len(cell.files), 'output')} imported as {cell.cell_id}: {shown}")
    print(outcome.run.run_id)


def _by_cell(arguments: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Return the levels of each cell as text, with the names of its files."""
    from benchkit.errors import InputError

    cells: list[tuple[str, list[str]]] = []
    for argument in arguments:
        if re.match(r"[A-Za-z][\w-]*=", argument):
            cells.append((argument, []))
        else:
            cells = cells or [("", [])]
            cells[-1][1].append(argument)
    if empty := [levels for levels, names in cells if not names]:
        raise InputError("a cell has no file", where=empty[0])
    return cells


def _files(names: Sequence[str], at: str | None) -> list[OutputFile]:
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


def _levels(text: str) -> Levels:
    from pydantic import TypeAdapter, ValidationError

    from benchkit.errors import InputError
    from benchkit.models.base import NAME_FORM, Levels

    try:
        return TypeAdapter[Levels](Levels).validate_python(_values("level", text.split(",") if text else ()))
    except ValidationError as error:
        found = error.errors()[0]
        raise InputError(
            "the name of a factor or its level is not allowed",
            where=str(found["loc"][0]),
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
