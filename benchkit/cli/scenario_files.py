"""`benchkit validate` and `benchkit fields`: scenario files, and their fields."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from benchkit import units
from benchkit.cli.console import print_json, say
from benchkit.cli.options import Json, complete_part, complete_scenario
from benchkit.errors import ExitCode, InputError, suggestion

if TYPE_CHECKING:
    from benchkit.scenario.fields import FilePart

WIDTH = 100
"""Columns of descriptions."""


def validate(
    scenarios: Annotated[
        list[str],
        typer.Argument(
            metavar="SCENARIO…", help="Names of shipped scenarios, or files.", autocompletion=complete_scenario
        ),
    ],
    json: Json = False,
) -> None:
    """Validate scenario files at every scale they have; errors name file, line and field."""
    from benchkit.scenario.read import read_experiment, scales_of

    checked: list[tuple[str, str, int]] = []
    faults = []
    for name in scenarios:
        try:
            for scale in scales_of(name):
                experiment = read_experiment(name, scale)
                checked.append((experiment.scenario.name, scale, len(experiment.cells)))
        except InputError as error:
            faults.append(error)
    if json:
        shown = [dict(zip(("scenario", "scale", "cells"), line, strict=True)) for line in checked]
        print_json({"checked": shown, "errors": [str(error) for error in faults]})
    for fault in faults:
        say(str(fault))
    if faults:
        raise typer.Exit(ExitCode.BAD_INPUT)
    if not json:
        for scenario, shown_scale, cells in checked:
            print(f"{scenario} at {shown_scale} scale: {units.counted(cells, 'cell')}, no fault found")


def fields(
    part: Annotated[
        str | None,
        typer.Argument(
            metavar="PART",
            help="load, services, a backend as nginx, claims, inventory, … [default: the scenario, and the names of all parts]",
            autocompletion=complete_part,
            show_default=False,
        ),
    ] = None,
    *,
    schema: Annotated[
        bool,
        typer.Option(
            "--schema",
            help="Print a JSON Schema of scenario files, or of the PART inventory or tuning-file, for editors.",
        ),
    ] = False,
    json: Json = False,
) -> None:
    """Show the fields of a scenario or inventory with type, default, allowed values and an example."""
    from dataclasses import asdict

    from benchkit.scenario.fields import find_part, parts
    from benchkit.scenario.schema import SCHEMAS

    if schema:
        if (part or "scenario") not in SCHEMAS:
            raise InputError(
                f"no file consists of {part!r} alone", where="--schema", why=suggestion(part or "", SCHEMAS)
            )
        print_json(SCHEMAS[part or "scenario"]())
        return
    shown = find_part(part or "scenario")
    if json:
        every = [shown] if part else parts().values()
        print_json([{"part": p.name, "summary": p.summary, "fields": [asdict(f) for f in p.fields]} for p in every])
        return
    _show(shown)
    if part is None:
        print("The fields of a part: `benchkit fields PART`. Parts:")
        for each in parts().values():
            print(f"  {each.name:<16} {each.summary.splitlines()[0]}")


def _show(part: FilePart) -> None:
    from textwrap import fill

    from benchkit.scenario.fields import as_text

    print(f"{part.name}: {part.summary}\n")
    for field in part.fields:
        default = "required" if field.required else f"default: {as_text(field.default)}"
        print(f"{field.name}: {as_text(field.example)}")
        for text in (field.description, f"{field.type}; {default}"):
            print(fill(text, WIDTH, initial_indent="    ", subsequent_indent="    ", break_long_words=False))
        print()
