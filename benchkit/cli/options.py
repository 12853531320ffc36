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
OwnScale = Annotated[
    str | None,
    typer.Option(
        "--scale",
        help="paper: the published figures; lab: what a small lab does; smoke: seconds.",
        show_default="lab, or that of the run taken up",
    ),
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
SCENARIO_HELP = "A shipped scenario's name, or a YAML file."
ScenarioName = Annotated[str, typer.Argument(metavar="SCENARIO", help=SCENARIO_HELP)]
RunId = Annotated[str, typer.Argument(metavar="RUN", help="A run's id, its beginning, or `latest`.")]
Profile = Annotated[
    bool, typer.Option("--profile", help="Profile every cell in a pass of its own, also where the scenario does not.")
]

Resume = Annotated[
    str | None, typer.Option("--resume", metavar="RUN", help="Go on with this run at its first unfinished trial.")
]
AcceptChanges = Annotated[
    bool, typer.Option("--accept-changes", help="Go on with a run though its scenario or its hosts have changed.")
]
Lease = Annotated[
    float | None,
    typer.Option(
        "--lease", min=1, hidden=True, help="Seconds after which hosts that hear nothing put themselves back."
    ),
]
Reconnect = Annotated[
    float | None, typer.Option("--reconnect", min=1, hidden=True, help="Seconds for which a lost host is tried.")
]

WITH_PROFILES = "profile={}"
"""The setting that `--profile` is: what a scenario says of its pass stays."""
