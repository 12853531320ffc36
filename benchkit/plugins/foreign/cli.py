"""`benchkit results import`: outputs of load tools that ran elsewhere, stored as runs."""

from __future__ import annotations

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
        typer.Option("--into", metavar="RUN", help="Add a cell to this imported run."),
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

    With --into, further cells are added to the run, so that `compare` has ratios. Verdicts rest on the outputs alone:
    checks that need hosts, servers or responses are skipped, and that is shown.
    """
    from benchkit.cli.console import print_json, say
    from benchkit.cli.options import parse_tags
    from benchkit.errors import InputError
    from benchkit.models.base import NAME_FORM, Name
    from benchkit.plugins.foreign.imported import import_into, import_run, read_cell
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
    cell = read_cell(tool, _files(files, at), _levels(factor or ()), _values("--load", load or ()))
    if into is None:
        where = Store(store_path(store))
        outcome = import_run(where, str(scenario), cell, parse_tags(tag or []), interleaved=interleaved)
    else:
        where = Store(existing_store(store))
        outcome = import_into(where, where.run(into), scenario, cell)
    rows = load_table("trials", store=where.path, run_id=outcome.run.run_id)
    verdicts = rows[rows["cell_id"] == cell.cell_id]["verdict"].value_counts().to_dict()
    if json:
        of_run = {"run_id": outcome.run.run_id, "cell_id": cell.cell_id}
        print_json({**of_run, "trials": len(cell.files), "verdicts": verdicts})
        return
    shown = ", ".join(f"{number} {verdict}" for verdict, number in verdicts.items())
    imported = counted(len(cell.files), "output")
    say(f"run {outcome.run.run_id}: {imported} imported as {cell.cell_id}: {shown}")
    print(outcome.run.run_id)


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
