"""The scenario of `benchkit versus`: servers given by their command lines, or one server at several git refs. Pure."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath

from ruamel.yaml import YAML

from benchkit.errors import InputError
from benchkit.models.design import Until
from benchkit.models.levels import NAME_FORM
from benchkit.scenario.model import Scenario

SCENARIO_NAME = "versus"
SERVICE = "app"
PORT = 8080
MAX_BLOCKS = 60
"""Blocks after which a comparison ends even if its intervals are still wide and its budget is not spent."""

WARM_UP_SHARE = 0.25
"""Share of a trial's time that warms the server up."""
OVERHEAD_S = 0.5
"""Time of a trial that is no load, as in `benchkit.run.plan.model`."""
SHORTEST_WINDOW_S = 0.5
"""Shortest measured window: with less, a slow server answers too few requests for a p99."""
LONGEST_WINDOW_S = 5.0
SLICE_S = float(Scenario.model_fields["slice_s"].default)
"""Windows are whole numbers of slices."""
CALIBRATION_S = 1.0
"""Measured window of a calibration."""

MIN_BLOCKS = int(Until.model_fields["min_blocks"].default)


@dataclass(frozen=True)
class Request:
    """The request that every server gets."""

    path: str = "/"
    method: str = "GET"
    body: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Comparison:
    """A comparison of servers: its load, its duration, and where they start."""

    request: Request
    tool: str
    connections: int
    budget_s: float
    precision: float
    files: tuple[str, ...] = ()
    """Files and folders to carry to the hosts, relative to the scenario's file."""
    cwd: str | None = None
    """Folder on the host in which servers start; None: a folder of their own."""
    spent_s: float = 0.0
    """Part of the budget that is spent already."""
    quota: float | None = None
    """CPUs that a server may use, where the load tool would otherwise be the limit."""


def compare_commands(commands: Mapping[str, str], comparison: Comparison) -> dict[str, object]:
    """Return the fields of a scenario that compares command lines by name; the first is the baseline."""
    names = list(commands)
    return {
        "name": SCENARIO_NAME,
        "title": " against ".join(names),
        "question": f"Which of these servers is faster: {', '.join(names)}?",
        "factors": {"stack": names},
        "stacks": {name: _stack({"run": command}, comparison) for name, command in commands.items()},
        **_common(len(names), comparison),
    }


def compare_refs(
    build: str, run: str, refs: Sequence[str], repository: str, comparison: Comparison
) -> dict[str, object]:
    """Return the fields of a scenario that compares a server at several git refs; the first is the baseline.

    `repository` is the folder of the git checkout, relative to the scenario's file.
    """
    options = {"build": {"run": build}, "source": {"git": repository, "ref": "$ref"}, "run": run}
    return {
        "name": SCENARIO_NAME,
        "title": " against ".join(refs),
        "question": f"Which of these revisions is faster: {', '.join(refs)}?",
        "factors": {"ref": list(refs)},
        "stacks": {"server": _stack(options, comparison)},
        **_common(len(refs), comparison),
    }


def calibration_fields(fields: Mapping[str, object]) -> dict[str, object]:
    """Return the fields of the same comparison as one short trial of each server."""
    window = {"duration_s": CALIBRATION_S, "warmup_s": CALIBRATION_S / 2}
    load = fields["load"]
    if not isinstance(load, Mapping):
        raise TypeError("the load of a scenario is a mapping")
    kept = {name: value for name, value in fields.items() if name != "until"}
    changes = {"name": f"{fields['name']}-calibration", "load": {**load, **window}, "design": "blocks", "blocks": 1}
    return {**kept, **changes}


def save_scenario(fields: Mapping[str, object], path: Path) -> None:
    """Write a scenario as a file, to be run and edited. Raises OSError."""
    yaml = YAML()
    yaml.default_flow_style = False
    yaml.width = 120
    with path.open("w", encoding="utf-8") as file:
        yaml.dump(dict(fields), file)


def window_s(servers: int, budget_s: float, blocks: int = MIN_BLOCKS) -> float:
    """Return the measured window of a trial, in seconds, with which a comparison has `blocks` blocks in its budget.

    It has fewer blocks where the window would be shorter than the shortest one. Raises InputError where the budget is
    too short for the fewest blocks of the shortest window.
    """
    calibration_s = servers * (1.5 * CALIBRATION_S + OVERHEAD_S)
    shares = [(budget_s - calibration_s) / number / servers - OVERHEAD_S for number in (MIN_BLOCKS, blocks)]
    longest, window = (share * (1 - WARM_UP_SHARE) for share in shares)
    if longest < SHORTEST_WINDOW_S:
        shortest_s = MIN_BLOCKS * servers * (SHORTEST_WINDOW_S / (1 - WARM_UP_SHARE) + OVERHEAD_S) + calibration_s
        raise InputError(
            f"{budget_s:g} s are too short to compare {servers} servers",
            where="--duration",
            why=f"{MIN_BLOCKS} blocks, the fewest that can show a difference, take {math.ceil(shortest_s)} s",
            hint=f"--duration {math.ceil(shortest_s)}",
        )
    return max(SHORTEST_WINDOW_S, min(LONGEST_WINDOW_S, math.floor(window / SLICE_S) * SLICE_S))


def warm_up_s(window_s: float) -> float:
    """Return the time to warm a server up before a measured window, in seconds."""
    return round(window_s * WARM_UP_SHARE / (1 - WARM_UP_SHARE), 1)


def server_names(commands: Sequence[str], names: Sequence[str] = ()) -> list[str]:
    """Return a name for each command: those given, else its program's, numbered where two are equal.

    Raises InputError for names that are too few, too many, equal, or no names.
    """
    if names:
        if len(names) != len(commands):
            raise InputError(f"{len(names)} names for {len(commands)} commands", where="--names")
        wrong = [name for name in names if not re.fullmatch(r"[a-z][a-z0-9_-]{0,63}", name)]
        if wrong:
            raise InputError(f"{wrong[0]!r} is no name", where="--names", why=f"allowed: {NAME_FORM}")
        if len(set(names)) < len(names):
            raise InputError("two names are equal", where="--names")
        return list(names)
    plain = [_program_name(command) for command in commands]
    return [name if plain.count(name) == 1 else f"{name}-{1 + plain[:i].count(name)}" for i, name in enumerate(plain)]


def _program_name(command: str) -> str:
    """Return the name of the program of a command line, in the form of names."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise InputError(f"{command!r} cannot be split into arguments", why=str(error)) from None
    if not words:
        raise InputError("a command is empty", hint="give each server's command line as one argument, in quotes")
    name = re.sub(r"[^a-z0-9_-]+", "-", PurePath(words[0]).name.lower()).strip("-_")[:60]
    return name if name[:1].isalpha() else f"server-{name}".rstrip("-")


def _stack(options: Mapping[str, object], comparison: Comparison) -> dict[str, object]:
    service: dict[str, object] = {"backend": "command", "listen": PORT, **options}
    if comparison.files:
        service["files"] = list(comparison.files)
    if comparison.cwd is not None:
        service["cwd"] = comparison.cwd
    return {"entry": SERVICE, "services": {SERVICE: service}}


def _common(servers: int, comparison: Comparison) -> dict[str, object]:
    """Return the fields that both kinds of comparison share."""
    request, window = comparison.request, window_s(servers, comparison.budget_s)
    load: dict[str, object] = {
        "tool": comparison.tool,
        "connections": comparison.connections,
        "duration_s": window,
        "warmup_s": warm_up_s(window),
        "path": request.path,
        "method": request.method,
    }
    if request.body is not None:
        load["body"] = request.body
    if request.headers:
        load["headers"] = dict(request.headers)
    roles = {} if comparison.quota is None else {"roles": {"sut": {"quota": comparison.quota}, "load": {}}}
    return {
        **roles,
        "differs": [{"what": ["header_bytes"], "why": "two servers send headers of their own"}],
        "load": load,
        "design": "sliced",
        "blocks": MAX_BLOCKS,
        "until": {
            "precision": comparison.precision,
            "budget_s": max(1, round(comparison.budget_s - comparison.spent_s)),
        },
    }
