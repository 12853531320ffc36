"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout and nothing else there.")]
Quiet = Annotated[bool, typer.Option("-q", "--quiet", help="Say only what went wrong.")]
Scale = Annotated[
    str, typer.Option("--scale", help="paper: the published figures; lab: what a small lab does; smoke: seconds.")
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="FIELD=VALUE", help="Lay a value over the scenario, as load.connections=64."),
]
Seed = Annotated[int | None, typer.Option("--seed", help="Seed of the order of trials; else the scenario's.")]
InventoryFile = Annotated[
    Path | None, typer.Option("-i", "--inventory", metavar="INV", help="The hosts; left out: the lab that is up.")
]
StoreFolder = Annotated[
    Path | None, typer.Option("--store", help="Where results are kept; else BENCHKIT_STORE, else ./results.")
]
ScenarioName = Annotated[str, typer.Argument(metavar="SCENARIO", help="A shipped scenario's name, or a YAML file.")]
RunId = Annotated[str, typer.Argument(metavar="RUN", help="A run's id, its beginning, or `latest`.")]
Profile = Annotated[
    bool, typer.Option("--profile", help="Profile every cell in a pass of its own, also where the scenario does not.")
]

WITH_PROFILES = "profile={}"
"""The setting that `--profile` is: what a scenario says of its pass stays."""
