"""The scenarios of `benchkit versus` and `benchkit capacity`: servers given by command lines, URLs or git refs."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath
from types import MappingProxyType
from typing import Any

from ruamel.yaml import YAML

from benchkit.document import Origin, Origins
from benchkit.errors import InputError
from benchkit.models.base import SplitCpus
from benchkit.models.capacity import CapacityGoal
from benchkit.models.design import Design, ResponsePart
from benchkit.models.request import SecretValue, without_secrets
from benchkit.models.run import CALIBRATION
from benchkit.scenario.server_arguments import command_words, image_of, is_url, split_url
from benchkit.scenario.versus_times import (
    CALIBRATION_S,
    DEFAULT_TOOL,
    MIN_BLOCKS,
    MIN_SLICES,
    MIXING_TOOL,
    PLANNED_BLOCKS,
    SLICE_S,
    load_times,
    remaining_s,
    takes_whole_seconds,
    warm_up_s,
    window_s,
)
from benchkit.services.container import CONTAINER
from benchkit.services.external import EXTERNAL
from benchkit.services.images import find_image

SCENARIO_NAME = "versus"
LOOPBACK = "127.0.0.1"
SERVICE = "app"
PORT = 8080
MAX_BLOCKS = 60
"""Blocks after which a comparison ends even if its intervals are still wide and its budget is not spent."""

OWN_HEADERS = {"what": ["header_bytes"], "why": "two servers send headers of their own"}
"""A difference that every comparison of servers has."""

CAPACITY_SCENARIO = "capacity-search"
CAPACITY_WARM_UP_S = 0.5


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


def default_tool(requests: Sequence[ServerRequest]) -> str:
    """Return the load tool of requests for which none is named: one that can send them all."""
    methods = {request.method for request in requests}
    bodies = {(request.body, request.body_file) for request in requests}
    return DEFAULT_TOOL if len(methods) == len(bodies) == 1 else MIXING_TOOL


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
    """Value of PATH with which servers start on this machine, in a lab; None: their hosts' own."""
    port: int | None = None
    """Port at which images listen; None: the one that they expose, or 8080."""
    certificate: str | None = None
    """File that verifies servers given by https URLs, relative to the scenario's file."""
    cpus: SplitCpus | None = None
    """CPUs of servers and load tool on one host, connected by loopback; None: each has hosts of its own."""
    fixed: frozenset[str] = frozenset()
    """Fields out of `tool`, `connections` and `quota` that are not adapted to the servers."""
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
    profile: Mapping[str, object] | None = None
    """Options of a profile pass; None: without one."""
    has_trace: bool = False
    """True with a trace pass."""


def compare_commands(servers: Mapping[str, str], comparison: ServerComparison) -> dict[str, object]:
    """Return the fields of a scenario that compares command lines and URLs by name; the first is the baseline.

    A single server is measured without a comparison. Raises InputError for a program that this machine lacks, where
    servers start on it.
    """
    names = list(servers)
    question = (
        f"Which of these servers is faster: {', '.join(names)}?" if len(names) > 1 else f"How fast is {names[0]}?"
    )
    return _comparison_of(names, question, server_fields(servers, comparison), comparison)


def server_fields(servers: Mapping[str, str], comparison: ServerComparison) -> dict[str, object]:
    """Return the fields that say what runs where, and which differences of responses are declared.

    Raises InputError as `compare_commands`.
    """
    are_all_there = all(map(is_url, servers.values()))
    return {
        "factors": {"stack": list(servers)},
        "stacks": {
            name: _external(server, comparison.certificate) if is_url(server) else _started(server, comparison)
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
    variables, words = command_words(build)
    options = {
        "build": {"run": words, **({"env": variables} if variables else {})},
        "source": {"git": repository, "ref": "$ref"},
    }
    return _compare_refs("revisions", refs, _stack(run, options, replace(comparison, cwd=None)), comparison)


def compare_images_of(
    dockerfile: str, refs: Sequence[str], repository: str, comparison: ServerComparison
) -> dict[str, object]:
    """Return the fields of a scenario that compares the images that a Containerfile makes at several git refs.

    `dockerfile` is relative to `repository`, the folder of the git checkout.
    """
    file = PurePath(dockerfile)
    options = {
        "build": {"context": str(file.parent), "file": file.name},
        "source": {"git": repository, "ref": "$ref"},
    }
    return _compare_refs("images", refs, _container(options, comparison.port or PORT, comparison), comparison)


def _compare_refs(
    what: str, refs: Sequence[str], stack: Mapping[str, object], comparison: ServerComparison
) -> dict[str, object]:
    fields = {
        "factors": {"ref": list(refs)},
        "stacks": {"server": stack},
        **_roles(comparison),
        "differs": _differs(comparison),
    }
    return _comparison_of(refs, f"Which of these {what} is faster: {', '.join(refs)}?", fields, comparison)


def _comparison_of(
    names: Sequence[str], question: str, fields: Mapping[str, object], comparison: ServerComparison
) -> dict[str, object]:
    title = {"name": SCENARIO_NAME, "title": " against ".join(names), "question": question}
    return {**title, **fields, **_times(len(names), comparison)}


def options_of(fields: Mapping[str, Any]) -> Origins:
    """Return the options of `versus` and `bisect` that give the values of these fields, for messages."""
    is_built = "ref" in fields["factors"]
    stacks: dict[str | int, Origins] = {}
    for name in fields["stacks"]:
        server = "--run" if is_built else name
        service = _option(server, _named_options(_SERVICE_OPTIONS))
        stacks[name] = _option(server, {"services": _option(server, {SERVICE: service})})
    body = _named_options({"body": "body", "body_file": "body"})
    requests: dict[str | int, Origins] = {
        number: _option("--request", body) for number in range(len(fields["load"].get("requests", ())))
    }
    return _option(
        "the options",
        {
            **_named_options(("design", "blocks", "differs")),
            "load": _option("the load", {**_named_options(_LOAD_OPTIONS), "requests": _option("--request", requests)}),
            "stacks": _option("the servers", stacks),
            "factors": _option("--ref" if is_built else "the servers"),
            "until": _option("--duration", _named_options(("precision",))),
        },
    )


_LOAD_OPTIONS = {
    **{name: name for name in ("tool", "connections", "method", "path", "body")},
    "headers": "header",
    "duration_s": "duration",
    "warmup_s": "warmup",
}
_SERVICE_OPTIONS = {"build": "build", "source": "ref", "files": "files", "ready": "ready-within"}


def _option(name: str, inner: Mapping[str | int, Origins] = MappingProxyType({})) -> Origins:
    return Origins(Origin(name, None, is_option=True), inner)


def _named_options(names: Mapping[str, str] | Sequence[str]) -> dict[str | int, Origins]:
    by_field = names if isinstance(names, Mapping) else dict(zip(names, names, strict=True))
    return {field: _option(f"--{option}") for field, option in by_field.items()}


def calibration_fields(fields: Mapping[str, Any]) -> dict[str, object]:
    """Return the fields of the same comparison as one short trial of each server."""
    load = fields["load"]
    window = load_times(CALIBRATION_S, CALIBRATION_S / 2, load["tool"])
    kept = {name: value for name, value in fields.items() if name not in {"until", "profile", "trace"}}
    changes = {"name": f"{fields['name']}{CALIBRATION}", "load": {**load, **window}, "design": "blocks", "blocks": 1}
    return {**kept, **changes}


def save_scenario(fields: Mapping[str, object], path: Path) -> None:
    """Write a scenario as a file, to be run and edited. Raises OSError."""
    yaml = YAML()
    yaml.default_flow_style = False
    yaml.width = 120
    with path.open("w", encoding="utf-8") as file:
        yaml.dump({name: without_secrets(field) for name, field in fields.items()}, file)


def _roles(comparison: ServerComparison) -> dict[str, object]:
    if comparison.quota is None and comparison.cpus is None:
        return {}
    servers = {} if comparison.quota is None else {"quota": comparison.quota}
    cpus = {} if comparison.cpus is None else {"cpus": comparison.cpus.servers}
    return {"roles": {"sut": {**cpus, **servers}, **_load_role(comparison)}}


def _load_role(comparison: ServerComparison) -> dict[str, object]:
    return {"load": {} if comparison.cpus is None else {"cpus": comparison.cpus.load}}


def design_of(window_s: float, comparison: ServerComparison) -> str:
    """Return the design of a comparison with these windows: sliced, unless slices have to be too long for that."""
    fits = window_s >= MIN_SLICES * comparison.slice_s and not takes_whole_seconds(comparison.tool)
    return "sliced" if comparison.is_sliced and fits else "blocks"


def _external(url: str, certificate: str | None) -> dict[str, object]:
    parts = split_url(url)
    options: dict[str, object] = {"backend": EXTERNAL, "url": f"{parts.scheme}://{parts.netloc}"}
    if parts.scheme == "https":
        if certificate is None:
            why = "over TLS a server is verified, and no list of public authorities is used"
            hint = "name the file (PEM) of its certificate, or of its authority's, with --certificate"
            raise InputError(f"{url} has no certificate", why=why, hint=hint)
        options["tls"] = {"certificate": certificate}
    return _stack_of(options)


def _command(command: str, search_path: str | None) -> dict[str, object]:
    """Return the options `run` and `env`: where servers start on this machine, with the program's path here."""
    variables, (program, *arguments) = command_words(command)
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
        **_ready(comparison),
    }
    return _stack_of(service)


def _container(options: Mapping[str, object], port: int, comparison: ServerComparison) -> dict[str, object]:
    """Return a stack of one container with these options, which listens on this port inside."""
    return _stack_of({"backend": CONTAINER.name, "listen": PORT, "port": port, **options, **_ready(comparison)})


def _ready(comparison: ServerComparison) -> dict[str, object]:
    return {} if comparison.ready_within_s is None else {"ready": {"within_s": comparison.ready_within_s}}


def _stack_of(service: dict[str, object]) -> dict[str, object]:
    return {"entry": SERVICE, "services": {SERVICE: service}}


def _started(server: str, comparison: ServerComparison) -> dict[str, object]:
    """Return the stack of a command, or of an image at the comparison's port, its only exposed one, or `PORT`.

    Other machines pull an image that this one does not have. Raises InputError where this machine has no engine.
    """
    image = image_of(server)
    if image is None:
        return _stack(server, {}, comparison)
    found = find_image(image)
    ports = () if found is None else found[1].ports
    exposed = ports[0] if len(ports) == 1 else PORT
    pulled = {"pull": "missing"} if found is None and comparison.cpus is None else {}
    return _container({"image": image, **pulled}, comparison.port or exposed, comparison)


def _differs(comparison: ServerComparison) -> list[object]:
    declared = ({"what": list(each.traits), "why": f"--differs {each}", "varies": True} for each in comparison.differs)
    return [OWN_HEADERS, *declared]


def _times(servers: int, comparison: ServerComparison) -> dict[str, object]:
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
    warm_s = warm_up_s(window) if comparison.warm_up_s is None else comparison.warm_up_s
    budget_s = remaining_s(servers, comparison.budget_s, comparison.spent_s, window, warm_s)
    return {
        "load": load,
        "design": comparison.design or design,
        **({} if comparison.slice_s == SLICE_S else {"slice_s": comparison.slice_s}),
        "blocks": blocks or MAX_BLOCKS,
        **({} if blocks else {"until": {"precision": comparison.precision, "budget_s": budget_s}}),
        **({} if comparison.profile is None else {"profile": dict(comparison.profile)}),
        **({"trace": {}} if comparison.has_trace else {}),
    }


def capacity_fields(
    servers: Mapping[str, str], comparison: ServerComparison, goal: CapacityGoal, *, probe_s: float, blocks: int
) -> dict[str, object]:
    """Return the fields of a scenario that searches for the capacities of these servers, `blocks` times each.

    Raises InputError for a program that this machine lacks, where servers start on it.
    """
    names = ", ".join(servers)
    return {
        "name": CAPACITY_SCENARIO,
        "title": f"the capacity of {names}",
        "question": f"How many requests per second does each of these keep with {goal.slo.text}: {names}?",
        **server_fields(servers, comparison),
        "load": {
            "tool": comparison.tool,
            "connections": comparison.connections,
            "duration_s": probe_s,
            "warmup_s": CAPACITY_WARM_UP_S,
            "capacity": goal.model_dump(exclude_none=True),
            **load_of(comparison.requests),
        },
        "blocks": blocks,
    }
