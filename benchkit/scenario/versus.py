"""The scenario of `benchkit versus`: servers given by command lines or URLs, or one server at several git refs."""

from __future__ import annotations

import math
import re
import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath
from types import MappingProxyType
from typing import Any
from urllib.parse import SplitResult, urlsplit

from ruamel.yaml import YAML

from benchkit.document import Origin, Origins
from benchkit.errors import InputError
from benchkit.loadtools.registry import get_tool
from benchkit.loadtools.slice_times import pauses, turn_s
from benchkit.models.base import NAME_FORM, SplitCpus
from benchkit.models.design import Design, ResponsePart, StopCondition
from benchkit.models.load import Load
from benchkit.models.request import SecretValue, without_secrets
from benchkit.models.run import CALIBRATION
from benchkit.scenario.model import Scenario
from benchkit.services.command_line import shell_operator
from benchkit.services.endpoint import is_loopback
from benchkit.services.external import EXTERNAL

SCENARIO_NAME = "versus"
SERVICE = "app"
PORT = 8080
LOOPBACK = "127.0.0.1"
MAX_BLOCKS = 60
"""Blocks after which a comparison ends even if its intervals are still wide and its budget is not spent."""

WARM_UP_SHARE = 0.25
"""Share of a trial's time that warms the server up."""
OVERHEAD_S = 0.5
"""Time of a trial that is no load, as in `benchkit.plan.model`."""
SHORTEST_WINDOW_S = 0.5
"""Shortest measured window: with less, a slow server answers too few requests for a p99."""
SHORTEST_WHOLE_S = 1.5
"""The same for tools that take whole seconds: a second of warm-up, and one that is measured."""
LONGEST_WINDOW_S = 5.0
SLICE_S = float(Scenario.model_fields["slice_s"].default)
"""Windows are whole numbers of slices."""
SLICE_RESERVE = 1.5
"""Answers that slices are planned for, relative to the fewest that are valid: rates vary by tens of per cent."""
SLICE_STEP_S, LONGEST_SLICE_S = 0.05, 10.0
MIN_SLICES = 2
"""Slices of a window: with a single one, cells would not take turns within a block."""
CALIBRATION_S = 1.0
"""Measured window of a calibration."""

OWN_HEADERS = {"what": ["header_bytes"], "why": "two servers send headers of their own"}
"""A difference that every comparison of servers has."""

DEFAULT_TOOL, DEFAULT_CONNECTIONS = "h2load", 64
"""Load tool and connections that a comparison begins with where they are not given; they are adapted to its servers."""

MIN_BLOCKS = int(StopCondition.model_fields["min_blocks"].default)
PLANNED_BLOCKS = MIN_BLOCKS + 1
"""Blocks for which a comparison has time: one more than can show a difference, as servers that start slowly take longer
than `OVERHEAD_S`, and with one block less nothing would be shown."""


@dataclass(frozen=True)
class ServerRequest:
    """The request that every server gets."""

    path: str = "/"
    method: str = "GET"
    body: str | None = None
    body_file: str | None = None
    """File with the body, relative to the scenario's file."""
    headers: Mapping[str, str | SecretValue] = field(default_factory=dict)

    @property
    def fields(self) -> dict[str, str]:
        """Its fields in a scenario, but for the headers."""
        bodies = {"body": self.body, "body_file": self.body_file}
        given = {name: value for name, value in bodies.items() if value is not None}
        return {"method": self.method, "path": self.path, **given}


def load_of(requests: Sequence[ServerRequest]) -> dict[str, object]:
    """Return the fields of a load that sends these requests, which have the same headers."""
    first = requests[0]
    is_plain = len(requests) == 1 and first.body_file is None
    fields: dict[str, object] = {**first.fields} if is_plain else {"requests": [each.fields for each in requests]}
    if not first.headers:
        return fields
    return {**fields, "headers": {name: _header_field(value) for name, value in first.headers.items()}}


def _header_field(value: str | SecretValue) -> object:
    if isinstance(value, str):
        return value
    return value.reveal() if value.is_given else value.model_dump()


@dataclass(frozen=True)
class ServerComparison:
    """A comparison of servers: its load, its duration, and where they start."""

    requests: tuple[ServerRequest, ...]
    tool: str
    connections: int
    budget_s: float
    precision: float
    blocks: int | None = None
    """Blocks to run; None: until the intervals are as narrow as `precision`, or the budget is spent."""
    design: Design | None = None
    """None: the one that fits the windows."""
    warm_up_s: float | None = None
    """Time to warm a server up before a measured window; None: a share of the trial."""
    ready_within_s: float | None = None
    """Time in which a server must accept connections; None: the default."""
    differs: tuple[ResponsePart, ...] = ()
    """Parts of the responses that are meant to differ, between servers or from one response to the next."""
    files: tuple[str, ...] = ()
    """Files and folders to carry to the hosts, relative to the scenario's file."""
    cwd: str | None = None
    """Folder on the host in which servers given by command lines start; None: a folder of their own."""
    search_path: str | None = None
    """Value of PATH with which servers start on this machine, in a lab; None: that of their hosts."""
    certificate: str | None = None
    """File that verifies servers given by https URLs, relative to the scenario's file."""
    cpus: SplitCpus | None = None
    """CPUs where servers and the load tool share one host, and its loopback interface; None: each has hosts."""
    fixed: frozenset[str] = frozenset()
    """Those of the fields `tool`, `connections` and `quota` that are not adapted to the servers."""
    keepalive: bool = True
    """False where each request has a connection of its own."""
    is_sliced: bool = True
    """False where servers work while they have no load, so that they cannot share a block."""
    slice_s: float = SLICE_S
    """Length of the slices of load."""
    spent_s: float = 0.0
    """Part of the budget that is spent already."""
    quota: float | None = None
    """CPUs that a server may use, where the load tool would otherwise be the limit."""


def compare_commands(servers: Mapping[str, str], comparison: ServerComparison) -> dict[str, object]:
    """Return the fields of a scenario that compares command lines and URLs by name; the first is the baseline.

    One alone is measured. Raises InputError for a program that this machine lacks, where servers start on it.
    """
    names = list(servers)
    question = (
        f"Which of these servers is faster: {', '.join(names)}?" if len(names) > 1 else f"How fast is {names[0]}?"
    )
    return {
        "name": SCENARIO_NAME,
        "title": " against ".join(names),
        "question": question,
        **server_fields(servers, comparison),
        **_times(len(names), comparison),
    }


def server_fields(servers: Mapping[str, str], comparison: ServerComparison) -> dict[str, object]:
    """Return the fields that say what runs where, and which differences of responses are declared.

    Raises InputError as `compare_commands`.
    """
    are_all_there = all(map(is_url, servers.values()))
    return {
        "factors": {"stack": list(servers)},
        "stacks": {
            name: _external(server, comparison.certificate) if is_url(server) else _stack(server, {}, comparison)
            for name, server in servers.items()
        },
        **({"roles": _load_role(comparison)} if are_all_there else _roles(comparison)),
        "differs": _differs(comparison),
    }


def compare_refs(
    build: str, run: str, refs: Sequence[str], repository: str, comparison: ServerComparison
) -> dict[str, object]:
    """Return the fields of a scenario that compares a server at several git refs; the first is the baseline.

    `repository` is the folder of the git checkout, relative to the scenario's file. Each version starts in the folder
    of its own build. Raises InputError as `compare_commands`.
    """
    variables, words = _words(build)
    options = {
        "build": {"run": words, **({"env": variables} if variables else {})},
        "source": {"git": repository, "ref": "$ref"},
    }
    comparison = replace(comparison, cwd=None)
    return {
        "name": SCENARIO_NAME,
        "title": " against ".join(refs),
        "question": f"Which of these revisions is faster: {', '.join(refs)}?",
        "factors": {"ref": list(refs)},
        "stacks": {"server": _stack(run, options, comparison)},
        **_roles(comparison),
        "differs": _differs(comparison),
        **_times(len(refs), comparison),
    }


def options_of(fields: Mapping[str, Any]) -> Origins:
    """Return the options of `versus` and `bisect` that give the values of these fields, for messages."""
    is_built = "ref" in fields["factors"]
    stacks: dict[str | int, Origins] = {}
    for name in fields["stacks"]:
        server = "--run" if is_built else name
        service = _option(server, _named_options(_SERVICE_OPTIONS))
        stacks[name] = _option(server, {"services": _option(server, {SERVICE: service})})
    return _option(
        "the options",
        {
            **_named_options(("design", "blocks", "differs")),
            "load": _option("the load", _named_options(_LOAD_OPTIONS)),
            "stacks": _option("the servers", stacks),
            "factors": _option("--ref" if is_built else "the servers"),
            "until": _option("--duration", _named_options(("precision",))),
        },
    )


_LOAD_OPTIONS = {
    **{name: name for name in ("tool", "connections", "method", "path", "body")},
    "headers": "header",
    "requests": "request",
    "duration_s": "duration",
    "warmup_s": "warmup",
}
_SERVICE_OPTIONS = {"build": "build", "source": "ref", "files": "files", "ready": "ready-within"}


def _option(name: str, inner: Mapping[str | int, Origins] = MappingProxyType({})) -> Origins:
    return Origins(Origin(name, None, is_option=True), inner)


def _named_options(names: Mapping[str, str] | Sequence[str]) -> dict[str | int, Origins]:
    """Return options by the field that each of them gives."""
    by_field = names if isinstance(names, Mapping) else dict(zip(names, names, strict=True))
    return {field: _option(f"--{option}") for field, option in by_field.items()}


def calibration_fields(fields: Mapping[str, object]) -> dict[str, object]:
    """Return the fields of the same comparison as one short trial of each server."""
    load = fields["load"]
    if not isinstance(load, Mapping):
        raise TypeError("the load of a scenario is a mapping")
    window = load_times(CALIBRATION_S, CALIBRATION_S / 2, load["tool"])
    kept = {name: value for name, value in fields.items() if name != "until"}
    changes = {"name": f"{fields['name']}{CALIBRATION}", "load": {**load, **window}, "design": "blocks", "blocks": 1}
    return {**kept, **changes}


def declared_part(part: ResponsePart) -> dict[str, object]:
    """Return the difference that `--differs` declares for a part of the responses."""
    return {"what": list(part.traits), "why": f"--differs {part}", "varies": True}


def save_scenario(fields: Mapping[str, object], path: Path) -> None:
    """Write a scenario as a file, to be run and edited. Raises OSError."""
    yaml = YAML()
    yaml.default_flow_style = False
    yaml.width = 120
    with path.open("w", encoding="utf-8") as file:
        yaml.dump({name: without_secrets(field) for name, field in fields.items()}, file)


def _roles(comparison: ServerComparison) -> dict[str, object]:
    """Return the field `roles`, where it is not the default."""
    if comparison.quota is None and comparison.cpus is None:
        return {}
    servers = {} if comparison.quota is None else {"quota": comparison.quota}
    cpus = {} if comparison.cpus is None else {"cpus": comparison.cpus.servers}
    return {"roles": {"sut": {**cpus, **servers}, **_load_role(comparison)}}


def _load_role(comparison: ServerComparison) -> dict[str, object]:
    return {"load": {} if comparison.cpus is None else {"cpus": comparison.cpus.load}}


def takes_whole_seconds(tool: str) -> bool:
    """Return True for a load tool that measures whole seconds only. Raises InputError for an unknown one."""
    load = Load(tool=tool, connections=1, duration_s=1.5)
    return any(objection.field == "duration_s" for objection in get_tool(tool).objections(load))


def load_times(window_s: float, warm_up_s: float, tool: str) -> dict[str, float]:
    """Return window and warm-up as fields of a load, in whole seconds where the tool takes no others."""
    if takes_whole_seconds(tool):
        window_s, warm_up_s = max(1.0, math.floor(window_s)), max(1.0, round(warm_up_s))
    return {"duration_s": window_s, "warmup_s": warm_up_s}


def window_s(
    servers: int,
    budget_s: float,
    blocks: int = PLANNED_BLOCKS,
    *,
    fewest: int = MIN_BLOCKS,
    connections: int,
    tool: str = DEFAULT_TOOL,
    slice_s: float = SLICE_S,
    spent_s: float = 0.0,
    warm_up_s: float | None = None,
) -> float:
    """Return the measured window of a trial, in seconds, with which a comparison has `blocks` blocks in its budget.

    It has fewer blocks, but not less than `fewest`, where the window would be shorter than the shortest one, and where
    more than one calibration has been made. Windows that are long enough are whole numbers of slices. `warm_up_s`
    precedes each; None: a share of the trial does. Raises InputError where the budget is too short for the fewest
    blocks of the shortest window.
    """
    calibration_s = servers * (1.5 * CALIBRATION_S + OVERHEAD_S)
    per_window = _load_per_window(Load(tool=tool, connections=connections, duration_s=slice_s))
    beside_s = OVERHEAD_S
    if warm_up_s is None:
        per_window += WARM_UP_SHARE / (1 - WARM_UP_SHARE)
    else:
        beside_s += warm_up_s
    longest, window = (
        ((budget_s - used_s) / number / servers - beside_s) / per_window
        for number, used_s in ((fewest, calibration_s), (blocks, max(calibration_s, spent_s)))
    )
    shortest = SHORTEST_WHOLE_S if takes_whole_seconds(tool) else SHORTEST_WINDOW_S
    if longest < shortest:
        shortest_s = fewest * servers * (shortest * per_window + beside_s) + calibration_s
        why = "the fewest that can show a difference, " if fewest == MIN_BLOCKS else ""
        raise InputError(
            f"{budget_s:g} s are too short to compare {servers} servers",
            where="--duration",
            why=f"{fewest} blocks, {why}take {math.ceil(shortest_s)} s",
            hint=f"--duration {math.ceil(shortest_s)}",
        )
    step_s = slice_s if window >= MIN_SLICES * slice_s else SLICE_S
    return max(shortest, round(math.floor(min(LONGEST_WINDOW_S, window) / step_s) * step_s, 3))


def _load_per_window(one_slice: Load) -> float:
    """Return the time of a trial from the begin of its window, pauses between slices included, relative to that."""
    slice_s = one_slice.duration_s or SLICE_S
    return 1.0 if takes_whole_seconds(one_slice.tool) else turn_s(pauses(one_slice), slice_s) / slice_s


def design_of(window_s: float, comparison: ServerComparison) -> str:
    """Return the design of a comparison with these windows: sliced, unless slices have to be too long for that."""
    fits = window_s >= MIN_SLICES * comparison.slice_s and not takes_whole_seconds(comparison.tool)
    return "sliced" if comparison.is_sliced and fits else "blocks"


def slice_for(rate: float, connections: int, min_answers: float) -> float:
    """Return the length of slices in which a server with this rate answers often enough on each connection, in seconds.

    `min_answers` is the threshold `slice_answers` of the check few-requests-in-slice.
    """
    wanted_s = SLICE_RESERVE * min_answers * connections / rate
    return max(SLICE_S, min(LONGEST_SLICE_S, round(math.ceil(wanted_s / SLICE_STEP_S) * SLICE_STEP_S, 3)))


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


def is_url(server: str) -> bool:
    """Return True for the URL of a server that is there already; otherwise it is a command line."""
    return server.startswith(("http://", "https://"))


def is_on_this_machine(server: str) -> bool:
    """Return True for a URL whose host is a loopback address. Raises InputError for a URL that is none."""
    return is_url(server) and is_loopback(_split(server).hostname or "")


def request_path(servers: Sequence[str], path: str | None) -> str:
    """Return the path of the requests: as given, else that of the URLs that have one, else `/`.

    Raises InputError where these are several.
    """
    of_urls = {_path_of(server) for server in servers if is_url(server)} - {""}
    wanted = of_urls if path is None else of_urls | {path}
    if len(wanted) > 1:
        raise InputError(
            f"several paths: {', '.join(sorted(wanted))}",
            why="all servers get the same requests",
            hint="write URLs without a path, and give it once with --path",
        )
    return next(iter(wanted), "/")


def _split(url: str) -> SplitResult:
    """Return the parts of a URL. Raises InputError."""
    try:
        parts = urlsplit(url)
        _ = parts.port  # parsed on access
    except ValueError as error:
        raise InputError(f"{url!r} is no URL", why=str(error)) from None
    if parts.username is not None:
        raise InputError("a URL has a login in it", hint="give an Authorization header instead")
    return parts


def _path_of(url: str) -> str:
    parts = _split(url)
    return f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path


def _host_of(url: str) -> str:
    parts = _split(url)
    return f"localhost:{parts.port}" if is_on_this_machine(url) and parts.port else parts.netloc


def _external(url: str, certificate: str | None) -> dict[str, object]:
    parts = _split(url)
    options: dict[str, object] = {"backend": EXTERNAL, "url": f"{parts.scheme}://{parts.netloc}"}
    if parts.scheme == "https":
        if certificate is None:
            why = "over TLS a server is verified, and no list of public authorities is used"
            hint = "name the file (PEM) of its certificate, or of its authority's, with --certificate"
            raise InputError(f"{url} has no certificate", why=why, hint=hint)
        options["tls"] = {"certificate": certificate}
    return {"entry": SERVICE, "services": {SERVICE: options}}


def _program_name(server: str) -> str:
    """Return the name of the program of a command line, or of the host of a URL, in the form of names."""
    text = _host_of(server) if is_url(server) else PurePath(_words(server)[1][0]).name
    name = re.sub(r"[^a-z0-9_-]+", "-", text.lower()).strip("-_")[:60]
    return name if name[:1].isalpha() else f"server-{name}".rstrip("-")


def _words(command: str) -> tuple[dict[str, str], list[str]]:
    """Return the variables that precede a command line, as in `PORT=1 node a.js`, and its arguments, at least one.

    Raises InputError.
    """
    if operator := shell_operator(command):
        line = f"sh -c {shlex.quote(command)}"
        argument = shlex.quote(line) if re.search(r"[\"$`\\]", line) else f'"{line}"'
        raise InputError(
            f"{command!r} has {operator}, which only a shell understands",
            hint=f"let a shell run it: {argument}; or quote what is text",
        )
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise InputError(f"{command!r} cannot be split into arguments", why=str(error)) from None
    number = next((i for i, word in enumerate(words) if not _ASSIGNMENT.match(word)), len(words))
    if number == len(words):
        raise InputError("a command is empty", hint="give each server's command line as one argument, in quotes")
    variables = (word.partition("=") for word in words[:number])
    return {name: value for name, _, value in variables}, words[number:]


_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")


def _command(command: str, search_path: str | None) -> dict[str, object]:
    """Return the options `run` and `env`: where servers start on this machine, with the program's path here."""
    variables, (program, *arguments) = _words(command)
    run = [program, *arguments]
    if search_path is not None and not re.search(r"[/{]", program):
        found = shutil.which(program, path=variables.get("PATH", search_path))
        if found is None:
            raise InputError(
                f"{program} is missing on this machine",
                why="it is in no folder of this shell's PATH",
                hint="install it, activate its environment, or write its path",
            )
        run[0] = str(Path(found).absolute())
    env = ({} if search_path is None else {"PATH": search_path}) | variables
    return {"run": run, **({"env": env} if env else {})}


def _stack(command: str, options: Mapping[str, object], comparison: ServerComparison) -> dict[str, object]:
    # Many servers listen on the loopback interface unless told otherwise.
    listen = PORT if comparison.cpus is None else f"{LOOPBACK}:{PORT}"
    service = {
        "backend": "command",
        "listen": listen,
        **options,
        **_command(command, comparison.search_path),
        **({"files": list(comparison.files)} if comparison.files else {}),
        **({} if comparison.cwd is None else {"cwd": comparison.cwd}),
        **({} if comparison.ready_within_s is None else {"ready": {"within_s": comparison.ready_within_s}}),
    }
    return {"entry": SERVICE, "services": {SERVICE: service}}


def _differs(comparison: ServerComparison) -> list[object]:
    return [OWN_HEADERS, *(declared_part(part) for part in comparison.differs)]


def _times(servers: int, comparison: ServerComparison) -> dict[str, object]:
    """Return the load of a comparison, its blocks, and when it ends."""
    tool, blocks = comparison.tool, comparison.blocks
    window = window_s(
        servers,
        comparison.budget_s,
        blocks or PLANNED_BLOCKS,
        fewest=blocks or MIN_BLOCKS,
        connections=comparison.connections,
        tool=tool,
        slice_s=comparison.slice_s,
        spent_s=comparison.spent_s,
        warm_up_s=comparison.warm_up_s,
    )
    load: dict[str, object] = {
        "tool": tool,
        "connections": comparison.connections,
        **({} if comparison.keepalive else {"keepalive": False}),
        **load_times(window, warm_up_s(window), tool),
        **({} if comparison.warm_up_s is None else {"warmup_s": comparison.warm_up_s}),
        **load_of(comparison.requests),
    }
    design = design_of(window, comparison) if servers > 1 else "blocks"
    budget_s = max(1, round(comparison.budget_s - comparison.spent_s))
    return {
        "load": load,
        "design": comparison.design or design,
        **({} if comparison.slice_s == SLICE_S else {"slice_s": comparison.slice_s}),
        "blocks": blocks or MAX_BLOCKS,
        **({} if blocks else {"until": {"precision": comparison.precision, "budget_s": budget_s}}),
    }
