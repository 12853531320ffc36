"""`benchkit validate`: scenario files checked without hosts."""

from __future__ import annotations

from typing import Annotated

import typer

from benchkit.cli.completion import complete_scenario
from benchkit.cli.options import Json
from benchkit.errors import ExitCode


def validate(
    scenarios: Annotated[
        list[str],
        typer.Argument(
            metavar="SCENARIO…", help="Names of shipped scenarios, or files.", autocompletion=complete_scenario
        ),
    ],
    json: Json = False,
) -> None:
    """Check scenario files at every scale they have; errors name file, line and field."""
    from benchkit import units
    from benchkit.cli.console import print_json, say
    from benchkit.errors import InputError
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
