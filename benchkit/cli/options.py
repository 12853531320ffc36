"""Options that several commands share, their completion in a shell, and the parsing of their texts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated

import typer

from benchkit.errors import BenchkitError, InputError
from benchkit.models import Scale

MAX_TIMEOUT_S = 86400
"""Longest lease, reconnection and comparison, in seconds: a day. Operating systems refuse much longer timeouts."""
SCENARIO_HELP = "A shipped scenario's name, or a YAML file."
SCALE_HELP = "paper: the published figures; lab: what a small lab does; smoke: seconds."
SERVER_HELP = (
    "Command line of each server, in quotes ({port} stands for its port), or the URL of one that is up. {controller} in a "
    "URL is this machine, as hosts reach it."
)


def _starting_with(incomplete: str, values: Iterable[str]) -> list[str]:
    return [value for value in values if value.startswith(incomplete)]


def complete_scenario(incomplete: str) -> list[str]:
    """Return the shipped scenarios and the YAML files here whose names begin with the incomplete word."""
    from benchkit.files import shipped

    names = sorted(file.stem for file in shipped("scenarios").glob("*.yaml"))
    return _starting_with(incomplete, [*names, *sorted(str(file) for file in Path().glob("*.y*ml"))])


def complete_run(incomplete: str) -> list[str]:
    """Return the runs of the default store whose ids begin with the incomplete word, newest first, and `latest`."""
    from benchkit.store.store import Store, store_path

    try:
        runs = [run.run_id for run in Store(store_path()).runs()]
    except (BenchkitError, OSError):  # completion has nowhere to report an unreadable store
        return []
    return _starting_with(incomplete, ["latest", *reversed(runs)])


def complete_lab(incomplete: str) -> list[str]:
    """Return the labs on this machine whose names begin with the incomplete word."""
    from benchkit.lab.lab import lab_names

    try:
        return _starting_with(incomplete, lab_names())
    except OSError:  # as above
        return []


def passes(settings: Sequence[str] | None, *, profile: bool, trace: bool) -> list[str]:
    """Return the `--set` settings, with those of `--profile` and `--trace`."""
    from benchkit.scenario.read import WITH_PROFILES, WITH_TRACES

    return [*(settings or ()), *([WITH_PROFILES] if profile else []), *([WITH_TRACES] if trace else [])]


def parse_tags(texts: Sequence[str]) -> dict[str, str]:
    """Return tags as typed, `key=value` each. Raises InputError."""
    from benchkit.models.run import Tag, TagValue
    from benchkit.validation import is_valid_name

    tags: dict[str, str] = {}
    for text in texts:
        key, _, value = text.partition("=")
        if not (is_valid_name(key, Tag) and is_valid_name(value, TagValue)):
            raise InputError(
                "not of the form key=value",
                where=f"--tag {text}",
                why="a key has up to 64 letters, digits, dots, dashes and underscores, a letter first; a value is one line",
                hint="as in --tag version=1.4",
            )
        if key in tags:
            raise InputError("the tag is given twice", where=f"--tag {text}", why=f"it is {tags[key]!r} already")
        tags[key] = value
    return tags


def finite(value: float | None) -> float | None:
    """Return the value of an option. Raises BadParameter for `nan`, which passes every bound."""
    if value is not None and math.isnan(value):
        raise typer.BadParameter("nan is no number")
    return value


def in_existing_folder(path: Path | None) -> Path | None:
    """Return the path of an output. Raises BadParameter if its folder is missing, as by a typing error."""
    if path is not None and not path.absolute().parent.is_dir():
        raise typer.BadParameter(f"there is no folder {path.absolute().parent}")
    return path


def _inventory(default: str) -> typer.models.OptionInfo:
    option: typer.models.OptionInfo = typer.Option(
        "-i", "--inventory", metavar="INV", help=f"The hosts. [default: {default}]"
    )
    return option


def _lab(default: str) -> typer.models.OptionInfo:
    text = f"Use the hosts of this lab. [default: {default}]"
    option: typer.models.OptionInfo = typer.Option(
        "--lab", metavar="NAME", help=text, show_default=False, autocompletion=complete_lab
    )
    return option


def _seconds(
    name: str, least: float, text: str, *, most: float = MAX_TIMEOUT_S, default: str | bool = True, hidden: bool = False
) -> typer.models.OptionInfo:
    option: typer.models.OptionInfo = typer.Option(
        name,
        metavar="SECONDS",
        min=least,
        max=most,
        callback=finite,
        help=text,
        show_default=default,
        hidden=hidden,
    )
    return option


# Output
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout and nothing else there.")]
Quiet = Annotated[bool, typer.Option("-q", "--quiet", help="Print errors only.")]

# Scenarios
ScenarioName = Annotated[str, typer.Argument(metavar="SCENARIO", help=SCENARIO_HELP, autocompletion=complete_scenario)]
ScaleName = Annotated[Scale, typer.Option("--scale", metavar="SCALE", help=SCALE_HELP)]
OwnScale = Annotated[
    Scale | None, typer.Option("--scale", metavar="SCALE", help=SCALE_HELP, show_default="lab, or the resumed run's")
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="FIELD=VALUE", help="Override a field of the scenario, as load.connections=64."),
]
Seed = Annotated[int | None, typer.Option("--seed", help="Seed of the order of trials. [default: the scenario's]")]
Profile = Annotated[
    bool, typer.Option("--profile", help="Add a pass of profiled trials for every cell, even if the scenario has none.")
]
Trace = Annotated[
    bool, typer.Option("--trace", help="Add a pass of traced trials: system calls, and what threads wait for.")
]

# Hosts
_OWN_LAB = "a lab of one host, for this command alone"
InventoryFile = Annotated[Path | None, _inventory("the lab of this checkout")]
InventoryFileOrOwnLab = Annotated[Path | None, _inventory(_OWN_LAB)]
LabName = Annotated[str | None, _lab("$BENCHKIT_LAB, else the lab of this checkout and user")]
LabNameOrOwnLab = Annotated[str | None, _lab(_OWN_LAB)]
WaitIdle = Annotated[
    float | None,
    _seconds("--wait-idle", 0, "Wait up to so many seconds until no other program uses the CPUs of the hosts."),
]
Lease = Annotated[
    float | None,
    _seconds("--lease", 1, "Seconds without a heartbeat after which hosts restore themselves.", hidden=True),
]
Reconnect = Annotated[
    float | None, _seconds("--reconnect", 1, "Seconds to keep reconnecting to a lost host.", hidden=True)
]

# Runs
RunId = Annotated[
    str, typer.Argument(metavar="RUN", help="A run's id, its beginning, or `latest`.", autocompletion=complete_run)
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

# Servers and the load on them
Names = Annotated[str | None, typer.Option("--names", metavar="A,B,…", help="Names of the servers.")]
Files = Annotated[
    list[Path] | None,
    typer.Option(
        "--files",
        metavar="PATH",
        help="File or folder that the servers need, carried to the hosts of -i; repeatable. In a lab they need none: they "
        "start in this folder, with this shell's PATH (the hosts of --lab have a /tmp of their own).",
    ),
]
Certificate = Annotated[
    Path | None,
    typer.Option(
        "--certificate",
        metavar="FILE",
        help="File (PEM) that verifies https URLs: their certificate or its authority's.",
    ),
]
ReadyWithin = Annotated[
    float | None,
    _seconds("--ready-within", 0.1, "Time in which a started server must accept connections.", most=3600, default="10"),
]
Save = Annotated[
    Path | None, typer.Option("--save", metavar="FILE", help="Write the scenario that ran, to continue from it.")
]
BuildCommand = Annotated[
    str | None,
    typer.Option("--build", metavar="CMD", help="Command that builds the server of a ref into the folder {out}."),
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

# Requests
UrlPath = Annotated[str | None, typer.Option("--path", help="Path of the requests.", show_default="/, or a URL's")]
Method = Annotated[
    str | None,
    typer.Option("--method", help="Method of the requests.", show_default="GET, and POST with a body"),
]
Requests = Annotated[
    list[str] | None,
    typer.Option(
        "--request",
        metavar="'METHOD PATH'",
        help="Request, in place of --path and --method; the method may be omitted; repeatable, all equally often.",
    ),
]
Body = Annotated[
    str | None,
    typer.Option("--body", metavar="TEXT|@FILE", help="Body of the requests, or @ and the file with it."),
]
Header = Annotated[
    list[str] | None,
    typer.Option("--header", metavar="'NAME: VALUE'", help="Header of the requests; repeatable."),
]
HeaderEnv = Annotated[
    list[str] | None,
    typer.Option(
        "--header-env",
        metavar="'NAME: VARIABLE'",
        help="Header whose value is read from an environment variable, and never stored or shown; repeatable.",
    ),
]
