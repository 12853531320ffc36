"""Options that several commands share, and the parsing of their texts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.models import ArgumentInfo, OptionInfo

from benchkit.errors import InputError
from benchkit.models import Scale

MAX_TIMEOUT_S = 86400
"""Longest time of an option, in seconds: a day. Operating systems refuse much longer timeouts."""
MAX_SEED = 2**63 - 1
SCENARIO_HELP = "A shipped scenario's name, or a YAML file."
SCALE_HELP = "paper: the published figures; lab: what a small lab does; smoke: seconds."
SERVER_HELP = "Command line of each server, in quotes ({port} stands for its port), or the URL of one that is up."


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
                why="a key has up to 64 letters, digits, dots, dashes and underscores, and begins with a letter; a value is one line",
                hint="as in --tag version=1.4",
            )
        tags[key] = value
    return tags


def passes(settings: Sequence[str] | None, *, profile: bool, trace: bool) -> list[str]:
    """Return the `--set` settings, with those of `--profile` and `--trace`."""
    from benchkit.scenario.read import WITH_PROFILES, WITH_TRACES

    return [*(settings or ()), *([WITH_PROFILES] if profile else []), *([WITH_TRACES] if trace else [])]


def finite(value: float | None) -> float | None:
    """Return the value of an option. Raises BadParameter for `nan`, which passes every bound."""
    if value is not None and math.isnan(value):
        raise typer.BadParameter("nan is not a number")
    return value


def in_existing_folder(path: Path | None) -> Path | None:
    """Return the path of an output. Raises BadParameter if its folder is missing."""
    if path is not None and not path.absolute().parent.is_dir():
        raise typer.BadParameter(f"there is no folder {path.absolute().parent}")
    return path


def option(*names: str, text: str, default: str | bool = True, **more: Any) -> OptionInfo:  # noqa: ANN401 - typer's own
    """Return an option with this help; `default` is the text of its default there."""
    info: OptionInfo = typer.Option(*names, help=text, show_default=default, **more)
    return info


def seconds(*names: str, text: str, least: float, most: float = MAX_TIMEOUT_S, **more: Any) -> OptionInfo:  # noqa: ANN401
    """Return an option for a time."""
    return option(*names, text=text, metavar="SECONDS", min=least, max=most, callback=finite, **more)


def share(*names: str, text: str) -> OptionInfo:
    """Return an option for a precision."""
    return option(*names, text=text, min=0.001, max=0.5, callback=finite)


def _argument(metavar: str, text: str, **more: Any) -> ArgumentInfo:  # noqa: ANN401
    info: ArgumentInfo = typer.Argument(metavar=metavar, help=text, **more)
    return info


_OWN_LAB = "a lab of one host, for this command alone"
_RUN = "A run's id, the beginning of one, or `latest`."
_STORE = "$BENCHKIT_STORE, else ./results"

Json = Annotated[bool, option("--json", text="Print one JSON document on stdout and nothing else there.")]
Quiet = Annotated[bool, option("-q", "--quiet", text="Print errors only.")]

# Scenarios
ScenarioName = Annotated[str, _argument("SCENARIO", SCENARIO_HELP)]
ScaleName = Annotated[Scale, option("--scale", text=SCALE_HELP, metavar="SCALE")]
OwnScale = Annotated[
    Scale | None, option("--scale", text=SCALE_HELP, metavar="SCALE", default="lab, or the resumed run's")
]
Set = Annotated[
    list[str] | None,
    option("--set", text="Override a field of the scenario, such as load.connections=64.", metavar="FIELD=VALUE"),
]
Seed = Annotated[
    int | None, option("--seed", text="Seed of the order of trials.", min=0, max=MAX_SEED, default="the scenario's")
]
Profile = Annotated[
    bool, option("--profile", text="Add a pass of profiled trials for every cell, even if the scenario has none.")
]
Trace = Annotated[bool, option("--trace", text="Add a pass of traced trials: system calls, and what threads wait for.")]

# Hosts
InventoryFile = Annotated[
    Path | None, option("-i", "--inventory", text="The hosts.", metavar="INV", default="the lab of this checkout")
]
InventoryFileOrOwnLab = Annotated[
    Path | None, option("-i", "--inventory", text="The hosts.", metavar="INV", default=_OWN_LAB)
]
LabName = Annotated[
    str | None,
    option(
        "--lab",
        text="Use the hosts of this lab.",
        metavar="NAME",
        default="$BENCHKIT_LAB, else the lab of this checkout and user",
    ),
]
LabNameOrOwnLab = Annotated[
    str | None, option("--lab", text="Use the hosts of this lab.", metavar="NAME", default=_OWN_LAB)
]
WaitIdle = Annotated[
    float | None,
    seconds("--wait-idle", text="Wait up to this many seconds until no other program uses the hosts' CPUs.", least=0),
]
Lease = Annotated[
    float | None,
    seconds("--lease", text="Time without a heartbeat after which hosts restore themselves.", least=1, hidden=True),
]
Reconnect = Annotated[
    float | None, seconds("--reconnect", text="Time to keep reconnecting to a lost host.", least=1, hidden=True)
]

# Runs
RunId = Annotated[str, _argument("RUN", _RUN)]
StoreFolder = Annotated[
    str | None, option("--store", text="Where results are stored.", metavar="FOLDER", default=_STORE)
]
StoreToRead = Annotated[
    str | None,
    option(
        "--store",
        text="Where results are read: a folder, or a URL such as s3://bucket/folder.",
        metavar="FOLDER|URL",
        default=_STORE,
    ),
]
Tags = Annotated[
    list[str] | None,
    option("--tag", text="Tag the run, such as version=1.4; `history` shows its tags.", metavar="KEY=VALUE"),
]
Resume = Annotated[
    str | None, option("--resume", text="Resume this interrupted run at its first unfinished trial.", metavar="RUN")
]
AcceptChanges = Annotated[
    bool, option("--accept-changes", text="Resume a run even if its scenario or hosts have changed.")
]
RetryFailed = Annotated[
    bool, option("--retry-failed", text="With --resume: repeat the failed trials, each with its whole block.")
]

# Servers and the load on them
Names = Annotated[str | None, option("--names", text="Names of the servers.", metavar="A,B,…")]
Files = Annotated[
    list[Path] | None,
    option(
        "--files",
        text="File or folder that the servers need, copied to the hosts of -i; repeatable. In a lab they need none: they "
        "start in this folder, with this shell's PATH (the hosts of --lab have a /tmp of their own).",
        metavar="PATH",
    ),
]
Certificate = Annotated[
    Path | None,
    option(
        "--certificate",
        text="File (PEM) that verifies https URLs: their certificate or its authority's.",
        metavar="FILE",
    ),
]
ReadyWithin = Annotated[
    float | None,
    seconds(
        "--ready-within",
        text="Time within which a started server must accept connections.",
        least=0.1,
        most=3600,
        default="10",
    ),
]
Save = Annotated[Path | None, option("--save", text="Save the scenario that ran, to build on.", metavar="FILE")]
BuildCommand = Annotated[
    str | None, option("--build", text="Command that builds the server of a ref into the folder {out}.", metavar="CMD")
]
BuiltCommand = Annotated[
    str | None,
    option(
        "--run",
        text="Command line of the server that was built, started in the folder {out} of its build; {port}: its port.",
        metavar="CMD",
    ),
]
LoadTool = Annotated[
    str | None, option("--tool", text="Load tool.", default="h2load, or wrk or hey for servers that close connections")
]
LoadConnections = Annotated[
    int | None,
    option(
        "--connections",
        text="Open connections.",
        min=1,
        default="64, fewer for short listen queues, more for idle servers",
    ),
]

# Requests
UrlPath = Annotated[str | None, option("--path", text="Path of the requests.", default="/, or a URL's")]
Method = Annotated[str | None, option("--method", text="Method of the requests.", default="GET, and POST with a body")]
Requests = Annotated[
    list[str] | None,
    option(
        "--request",
        text="Request, in place of --path and --method; the method may be omitted; repeatable, all equally often.",
        metavar="'METHOD PATH'",
    ),
]
Body = Annotated[
    str | None, option("--body", text="Body of the requests, or @FILE to read it from a file.", metavar="TEXT|@FILE")
]
Header = Annotated[
    list[str] | None, option("--header", text="Header of the requests; repeatable.", metavar="'NAME: VALUE'")
]
HeaderEnv = Annotated[
    list[str] | None,
    option(
        "--header-env",
        text="Header whose value is read from an environment variable, and never stored or shown; repeatable.",
        metavar="'NAME: VARIABLE'",
    ),
]
