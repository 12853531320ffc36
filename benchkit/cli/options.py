"""Options that several commands share."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import typer

from benchkit.cli.completion import complete_lab, complete_run, complete_scale, complete_scenario

MAX_TIMEOUT_S = 86400
"""Longest lease, reconnection and comparison, in seconds: a day. Operating systems refuse much longer timeouts."""


def finite(value: float | None) -> float | None:
    """Return the value of an option unless it is `nan`, which is within all bounds."""
    if value is not None and math.isnan(value):
        raise typer.BadParameter("nan is no number")
    return value


def in_existing_folder(path: Path | None) -> Path | None:
    """Return the path of an output, whose folder must exist: one that is created may be a typing error."""
    if path is not None and not path.absolute().parent.is_dir():
        raise typer.BadParameter(f"there is no folder {path.absolute().parent}")
    return path


Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout and nothing else there.")]
Quiet = Annotated[bool, typer.Option("-q", "--quiet", help="Print errors only.")]
Scale = Annotated[
    str,
    typer.Option(
        "--scale",
        help="paper: the published figures; lab: what a small lab does; smoke: seconds.",
        autocompletion=complete_scale,
    ),
]
OwnScale = Annotated[
    str | None,
    typer.Option(
        "--scale",
        help="paper: the published figures; lab: what a small lab does; smoke: seconds.",
        show_default="lab, or that of the resumed run",
        autocompletion=complete_scale,
    ),
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="FIELD=VALUE", help="Override a field of the scenario, as load.connections=64."),
]
UrlPath = Annotated[
    str | None, typer.Option("--path", help="Path of the requests.", show_default="/, or that of a URL")
]
Requests = Annotated[
    list[str] | None,
    typer.Option(
        "--request",
        metavar="'METHOD PATH'",
        help="Request, in place of --path and --method; the method may be omitted; repeatable, all equally often.",
    ),
]
Method = Annotated[
    str | None,
    typer.Option("--method", help="Method of the requests.", show_default="GET, and POST with a body"),
]
Body = Annotated[
    str | None,
    typer.Option("--body", metavar="TEXT|@FILE", help="Body of the requests, or @ and the file with it."),
]
Header = Annotated[
    list[str] | None,
    typer.Option("--header", metavar="'NAME: VALUE'", help="Header of the requests; repeatable."),
]
ReadyWithin = Annotated[
    float | None,
    typer.Option(
        "--ready-within",
        metavar="SECONDS",
        min=0.1,
        max=3600,
        callback=finite,
        help="Time in which a started server must accept connections.",
        show_default="10",
    ),
]
HeaderEnv = Annotated[
    list[str] | None,
    typer.Option(
        "--header-env",
        metavar="'NAME: VARIABLE'",
        help="Header whose value is that of an environment variable and is never stored or shown; repeatable.",
    ),
]
Seed = Annotated[int | None, typer.Option("--seed", help="Seed of the order of trials. [default: the scenario's]")]
InventoryFile = Annotated[
    Path | None, typer.Option("-i", "--inventory", metavar="INV", help="The hosts. [default: the lab of this checkout]")
]
LabName = Annotated[
    str | None,
    typer.Option(
        "--lab",
        metavar="NAME",
        help="Use the hosts of this lab. [default: $BENCHKIT_LAB, else the lab of this checkout and user]",
        show_default=False,
        autocompletion=complete_lab,
    ),
]
InventoryFileOrOwnLab = Annotated[
    Path | None,
    typer.Option(
        "-i", "--inventory", metavar="INV", help="The hosts. [default: a lab of one host, for this command alone]"
    ),
]
LabNameOrOwnLab = Annotated[
    str | None,
    typer.Option(
        "--lab",
        metavar="NAME",
        help="Use the hosts of this lab. [default: a lab of one host, for this command alone]",
        show_default=False,
        autocompletion=complete_lab,
    ),
]
StoreFolder = Annotated[
    str | None,
    typer.Option(
        "--store", metavar="FOLDER", help="Where results are stored. [default: $BENCHKIT_STORE, else ./results]"
    ),
]
StoreToRead = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="FOLDER|URL",
        help="Where results are read: a folder, or a URL such as s3://bucket/folder. [default: $BENCHKIT_STORE, else ./results]",
    ),
]
Tags = Annotated[
    list[str] | None,
    typer.Option(
        "--tag", metavar="KEY=VALUE", help="Note something with the run, such as version=1.4; `history` shows it."
    ),
]
SCENARIO_HELP = "A shipped scenario's name, or a YAML file."
ScenarioName = Annotated[str, typer.Argument(metavar="SCENARIO", help=SCENARIO_HELP, autocompletion=complete_scenario)]
RunId = Annotated[
    str, typer.Argument(metavar="RUN", help="A run's id, its beginning, or `latest`.", autocompletion=complete_run)
]
Profile = Annotated[
    bool, typer.Option("--profile", help="Add a pass of profiled trials for every cell, even if the scenario has none.")
]

Resume = Annotated[
    str | None,
    typer.Option(
        "--resume",
        metavar="RUN",
        help="Resume this interrupted run at its first unfinished trial.",
        autocompletion=complete_run,
    ),
]
AcceptChanges = Annotated[
    bool, typer.Option("--accept-changes", help="Resume a run although its scenario or its hosts have changed.")
]
RetryFailed = Annotated[
    bool, typer.Option("--retry-failed", help="With --resume: repeat the failed trials, each with its whole block.")
]
WaitIdle = Annotated[
    float | None,
    typer.Option(
        "--wait-idle",
        metavar="SECONDS",
        min=0,
        max=MAX_TIMEOUT_S,
        callback=finite,
        help="Wait, at most for so long, until no other program uses the CPUs of the hosts.",
    ),
]
Lease = Annotated[
    float | None,
    typer.Option(
        "--lease",
        min=1,
        max=MAX_TIMEOUT_S,
        callback=finite,
        hidden=True,
        help="Seconds without a heartbeat after which hosts restore themselves.",
    ),
]
Reconnect = Annotated[
    float | None,
    typer.Option(
        "--reconnect",
        min=1,
        max=MAX_TIMEOUT_S,
        callback=finite,
        hidden=True,
        help="Seconds to keep reconnecting to a lost host.",
    ),
]

BuildCommand = Annotated[
    str | None,
    typer.Option(
        "--build", metavar="CMD", help="Command that builds the server of a ref; what it writes to {out} is it."
    ),
]
BuiltCommand = Annotated[
    str | None,
    typer.Option(
        "--run",
        metavar="CMD",
        help="Command line of the server that was built, started in the folder {out} of its build; {port}: its port.",
    ),
]

LoadTool = Annotated[
    str | None,
    typer.Option(
        "--tool",
        help="Load tool. [default: h2load, or wrk or hey for servers that close connections]",
        show_default=False,
    ),
]
LoadConnections = Annotated[
    int | None,
    typer.Option(
        "--connections",
        min=1,
        help="Open connections. [default: 64, fewer for short listen queues, more for idle servers]",
        show_default=False,
    ),
]

WorkerProcesses = Annotated[
    int | None,
    typer.Option(
        "--workers",
        metavar="N",
        min=1,
        help="Processes for the work on many runs; 1: this one alone. [default: one for each core]",
        show_default=False,
    ),
]
ClusterAddress = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        metavar="ADDRESS",
        help="Work on this cluster of Dask, as tcp://192.0.2.10:8786; `benchkit cluster up` starts one.",
        show_default=False,
    ),
]
