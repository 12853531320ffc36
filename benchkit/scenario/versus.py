"""Comparisons of servers that are given by command lines, URLs, images or git refs, as scenarios and their times."""

from __future__ import annotations

import math
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePath
from typing import Any

from pydantic.dataclasses import dataclass
from ruamel.yaml import YAML

from benchkit import units
from benchkit.errors import InputError
from benchkit.loadtools.load_shares import pauses, turn_s
from benchkit.loadtools.registry import get_tool
from benchkit.models.base import SplitCpus
from benchkit.models.capacity import CapacityGoal
from benchkit.models.design import HELD_WINDOW, Design, ResponsePart, StopCondition
from benchkit.models.load import Load
from benchkit.models.request import Request
from benchkit.scenario.model import Scenario
from benchkit.scenario.server_arguments import command_words, image_of, is_url, split_url
from benchkit.scenario.trial_order import CURVE_S
from benchkit.services.container import CONTAINER
from benchkit.services.external import EXTERNAL
from benchkit.services.images import find_image

SCENARIO_NAME, CAPACITY_SCENARIO = "versus", "capacity-search"
LOOPBACK, PORT = "127.0.0.1", 8080
SERVICE = "app"
OWN_HEADERS = {"what": ["header_bytes"], "why": "two servers send headers of their own"}
"""A difference that every comparison of servers has."""

DEFAULT_TOOL = "h2load"
"""Load tool that a comparison begins with where none is given; it is adapted to its servers."""
WARM_UP_CONNECTIONS = 16
"""Connections of the warm-up before a load curve, which finds those of the trials."""
MIXING_TOOL = "wrk"
"""Load tool for requests that differ in method or body, which h2load cannot send."""

WARM_UP_SHARE = 0.25
"""Share of a trial's time that warms the server up."""
CAPACITY_WARM_UP_S = 0.5
OVERHEAD_S = 0.5
"""Time of a trial without load, as in `benchkit.plan.model`."""
HELD_SHARE = 0.5
"""Held rate of the second phase, as a share of what the slowest server carries: at half of its capacity a server of any
kind answers at once, or its queue is its own (M/M/1: as long as the work itself)."""
SHORTEST_WINDOW_S, LONGEST_WINDOW_S = 0.5, 5.0
"""Bounds of a measured window: in less, a slow server answers too few requests for a p99."""
SHORTEST_WHOLE_S = 1.5
"""Shortest window planned for tools that take whole seconds: a second of warm-up, and one that is measured."""

SLICE_S = float(Scenario.model_fields["slice_s"].default)
MIN_SLICES = 2
"""Slices of a window: with a single one, cells would not take turns within a block."""

MIN_BLOCKS = int(StopCondition.model_fields["min_blocks"].default)
PLANNED_BLOCKS = MIN_BLOCKS + 1
"""Blocks for which a comparison has time: one more than the fewest that can show a difference. Servers that start
slowly take longer than `OVERHEAD_S`: without this block, their comparison could show nothing."""
MAX_BLOCKS = 60
"""Blocks after which a comparison ends even if its intervals are still wide and its budget is not spent."""
FEWEST_BLOCKS = 3
"""Blocks of a comparison whose budget has no time for more: the fewest with an interval."""

Fields = dict[str, Any]
"""Fields of a scenario."""


@dataclass(frozen=True)
class ServerComparison:
    """A comparison of servers: its load, its duration, and where they start."""

    requests: tuple[Request, ...]
    """Requests that every server gets, equally often; they have the same headers."""
    tool: str
    budget_s: float
    precision: float
    connections: int | None = None
    """None: as many as fill the servers, by their load curves."""
    held_share: float | None = HELD_SHARE
    """Held rate as a share of what the slowest server carries; None: `held_rate`, or no second phase."""
    held_rate: float | None = None
    """Held rate in requests per second."""
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
    """Files and folders to carry to the hosts."""
    cwd: str | None = None
    """Folder on the host in which servers given by command lines start; None: a folder of their own."""
    search_path: str | None = None
    """Value of PATH with which servers start on this machine, in a lab; None: their hosts' own."""
    port: int | None = None
    """Port at which images listen; None: the one that they expose, or 8080."""
    certificate: str | None = None
    """File that verifies servers given by https URLs."""
    cpus: SplitCpus | None = None
    """CPUs of servers and load tool on one host, connected by loopback; None: each has hosts of its own."""
    fixed: frozenset[str] = frozenset()
    """Fields out of `tool` and `quota` that are not adapted to the servers."""
    keepalive: bool = True
    """False where each request has a connection of its own."""
    is_sliced: bool = True
    """False where servers work while they have no load, so that they cannot share a block."""
    spent_s: float = 0.0
    """Part of the budget that is spent already."""
    quota: float | None = None
    """CPUs that a server may use, where the load tool would otherwise be the limit."""
    profile: Mapping[str, Any] | None = None
    """Options of a profile pass; None: without one."""
    has_trace: bool = False
    """True with a trace pass."""

    def window_s(self, servers: int, planned_blocks: int = PLANNED_BLOCKS) -> float:
        """Return the measured window of a trial for which the blocks fit into the budget, in seconds.

        Fewer blocks fit where it would be too short. Windows that are long enough are whole numbers of slices.
        """
        spent_s = self.spent_s + servers * CURVE_S
        of_server_s = (self.budget_s - spent_s) / (self.blocks or planned_blocks) / servers
        window = (of_server_s - self._phases * self._beside_s) / (self._per_window * self._windows)
        whole = math.floor(min(LONGEST_WINDOW_S, window) / SLICE_S) * SLICE_S
        return max(self._shortest_s, round(whole, 3))

    def shortage(self, servers: int) -> str | None:
        """Return a sentence on blocks for which the budget has no time, and how long they take; None: there is time."""
        fewest = self.blocks or MIN_BLOCKS
        needed_s = self._fewest_s(servers, fewest)
        if self.budget_s >= needed_s:
            return None
        why = "" if self.blocks else ", the fewest that can show a small difference"
        return f"{units.counted(fewest, 'block')}{why}, take {math.ceil(needed_s)} s, and not {self.budget_s:g} s."

    def times(self, servers: int, planned_blocks: int = PLANNED_BLOCKS) -> Fields:
        """Return the fields of a scenario that say which load there is, how long, and when the run ends."""
        window = self.window_s(servers, planned_blocks)
        warm_up_s = _warm_up_s(window) if self.warm_up_s is None else self.warm_up_s
        fits = window >= MIN_SLICES * SLICE_S and not takes_whole_seconds(self.tool)
        design = "sliced" if servers > 1 and self.is_sliced and fits else "blocks"
        until = None
        if self.blocks is None:
            block_s = servers * (self._windows * window + self._phases * (warm_up_s + OVERHEAD_S))
            left_s = self.budget_s - self.spent_s
            fewest = MIN_BLOCKS if self.shortage(servers) is None else FEWEST_BLOCKS
            budget_s = math.ceil(max(left_s, servers * CURVE_S + fewest * block_s))
            until = {"precision": self.precision, "budget_s": budget_s}
        return _given(
            load={**self.load, **load_times(window, warm_up_s, self.tool), **_given(warmup_s=self.warm_up_s)},
            design=self.design or design,
            blocks=self.blocks or MAX_BLOCKS,
            until=until,
            profile=self.profile,
            trace={} if self.has_trace else None,
        )

    @property
    def load(self) -> Fields:
        """The load as fields of a scenario, without its times."""
        first = self.requests[0]
        requests = [
            _given(method=each.method, path=each.path, body=each.body, body_file=each.body_file)
            for each in self.requests
        ]
        is_plain = len(requests) == 1 and first.body_file is None
        return _given(
            tool=self.tool,
            connections=self.connections or WARM_UP_CONNECTIONS,
            at_knee=True if self.connections is None else None,
            held_share=self.held_share if self.held_rate is None else None,
            held_rate=self.held_rate,
            keepalive=None if self.keepalive else False,
            **(requests[0] if is_plain else {"requests": requests}),
            headers={
                name: value if isinstance(value, str) else value.model_dump() for name, value in first.headers.items()
            }
            or None,
        )

    @property
    def roles(self) -> Fields:
        """CPUs and quotas of servers and load tool, as fields of a scenario; empty for the defaults."""
        if self.quota is None and self.cpus is None:
            return {}
        servers = _given(cpus=None if self.cpus is None else self.cpus.servers, quota=self.quota)
        return {"roles": {"sut": servers, **self.load_role}}

    @property
    def load_role(self) -> Fields:
        """The role of the load tool."""
        return {"load": {} if self.cpus is None else {"cpus": self.cpus.load}}

    @property
    def _phases(self) -> int:
        """Trials of a server in a block: at full speed, and at a held rate."""
        return 1 if self.held_share is None and self.held_rate is None else 2

    @property
    def _windows(self) -> float:
        """Windows of a server in a block: that at a held rate is shorter."""
        return 1.0 + HELD_WINDOW * (self._phases - 1)

    @property
    def _per_window(self) -> float:
        """Ratio of the time of a trial under load, with warm-up and pauses between slices, to its window."""
        of_slices = 1.0
        if not takes_whole_seconds(self.tool):
            one_slice = Load(tool=self.tool, connections=WARM_UP_CONNECTIONS, duration_s=SLICE_S)
            of_slices = turn_s(pauses(one_slice), SLICE_S) / SLICE_S
        return of_slices + (WARM_UP_SHARE / (1 - WARM_UP_SHARE) if self.warm_up_s is None else 0.0)

    @property
    def _beside_s(self) -> float:
        return OVERHEAD_S + (self.warm_up_s or 0.0)

    @property
    def _shortest_s(self) -> float:
        return SHORTEST_WHOLE_S if takes_whole_seconds(self.tool) else SHORTEST_WINDOW_S

    def _fewest_s(self, servers: int, blocks: int) -> float:
        block_s = self._windows * self._shortest_s * self._per_window + self._phases * self._beside_s
        return servers * (CURVE_S + blocks * block_s)


def default_tool(requests: Sequence[Request]) -> str:
    """Return the load tool of requests for which none is named: one that can send them all."""
    kinds = {(request.method, request.body, request.body_file) for request in requests}
    return DEFAULT_TOOL if len(kinds) == 1 else MIXING_TOOL


def takes_whole_seconds(tool: str) -> bool:
    """Return True for a load tool that measures whole seconds only, or a second at least.

    Raises InputError for an unknown one.
    """
    load = Load(tool=tool, connections=1, duration_s=0.5)
    return any(unsupported.field == "duration_s" for unsupported in get_tool(tool).unsupported_fields(load))


def load_times(window_s: float, warm_up_s: float, tool: str) -> dict[str, float]:
    """Return window and warm-up as fields of a load, in whole seconds where the tool takes no others."""
    if takes_whole_seconds(tool):
        window_s, warm_up_s = max(1.0, math.floor(window_s)), max(1.0, round(warm_up_s))
    return {"duration_s": window_s, "warmup_s": warm_up_s}


def compare_commands(servers: Mapping[str, str], comparison: ServerComparison) -> Fields:
    """Return the scenario that compares command lines, images and URLs by name; the first is the baseline.

    A single server is measured without a comparison. Raises InputError for a program that this machine lacks, where
    servers start on it.
    """
    names = ", ".join(servers)
    question = f"Which of these servers is faster: {names}?" if len(servers) > 1 else f"How fast is {names}?"
    return {
        "name": SCENARIO_NAME,
        "title": " against ".join(servers),
        "question": question,
        **_servers(servers, comparison),
        **comparison.times(len(servers)),
    }


def compare_refs(build: str, run: str, refs: Sequence[str], repository: str, comparison: ServerComparison) -> Fields:
    """Return the scenario that compares a server at several git refs; the first is the baseline.

    `repository` is the folder of the git checkout. Each version starts in the folder of its own build. Raises
    InputError as `compare_commands`.
    """
    variables, words = command_words(build)
    stack = _started_by(
        run,
        replace(comparison, cwd=None),
        build=_given(run=words, env=variables or None),
        source={"git": repository, "ref": "$ref"},
    )
    return _compare_refs("revisions", refs, stack, comparison)


def compare_images_of(dockerfile: str, refs: Sequence[str], repository: str, comparison: ServerComparison) -> Fields:
    """Return the scenario that compares the images that a Containerfile makes at several git refs.

    `dockerfile` is relative to `repository`, the folder of the git checkout.
    """
    file = PurePath(dockerfile)
    stack = _container(
        comparison,
        comparison.port or PORT,
        build={"context": str(file.parent), "file": file.name},
        source={"git": repository, "ref": "$ref"},
    )
    return _compare_refs("images", refs, stack, comparison)


def capacity_fields(
    servers: Mapping[str, str], comparison: ServerComparison, goal: CapacityGoal, *, probe_s: float, blocks: int
) -> Fields:
    """Return the scenario that searches for the capacities of these servers, `blocks` times each.

    Raises InputError as `compare_commands`.
    """
    names = ", ".join(servers)
    times = {"duration_s": probe_s, "warmup_s": CAPACITY_WARM_UP_S, "capacity": goal.model_dump(exclude_none=True)}
    return {
        "name": CAPACITY_SCENARIO,
        "title": f"the capacity of {names}",
        "question": f"How many requests per second does each of these keep with {goal.slo.text}: {names}?",
        **_servers(servers, comparison),
        "load": {**comparison.load, **times},
        "blocks": blocks,
    }


def save_scenario(fields: Mapping[str, object], path: Path) -> None:
    """Write a scenario as a file, to be run and edited. Raises OSError."""
    yaml = YAML()
    yaml.default_flow_style = False
    yaml.width = 120
    with path.open("w", encoding="utf-8") as file:
        yaml.dump(dict(fields), file)


def _given(**fields: object) -> Fields:
    """Return the fields that are given; None: the default of the scenario holds."""
    return {name: value for name, value in fields.items() if value is not None}


def _warm_up_s(window_s: float) -> float:
    return round(window_s * WARM_UP_SHARE / (1 - WARM_UP_SHARE), 1)


def _compare_refs(what: str, refs: Sequence[str], stack: Fields, comparison: ServerComparison) -> Fields:
    return {
        "name": SCENARIO_NAME,
        "title": " against ".join(refs),
        "question": f"Which of these {what} is faster: {', '.join(refs)}?",
        "factors": {"ref": list(refs)},
        "stacks": {"server": stack},
        **comparison.roles,
        "differs": _differs(comparison),
        **comparison.times(len(refs)),
    }


def _servers(servers: Mapping[str, str], comparison: ServerComparison) -> Fields:
    """Return the fields that say what runs where, and which differences of responses are declared."""
    needs_no_host = all(map(is_url, servers.values()))
    return {
        "factors": {"stack": list(servers)},
        "stacks": {name: _stack(server, comparison) for name, server in servers.items()},
        **({"roles": comparison.load_role} if needs_no_host else comparison.roles),
        "differs": _differs(comparison),
    }


def _differs(comparison: ServerComparison) -> list[object]:
    declared = ({"what": list(each.traits), "why": f"--differs {each}", "varies": True} for each in comparison.differs)
    return [OWN_HEADERS, *declared]


def _stack(server: str, comparison: ServerComparison) -> Fields:
    """Return the stack of a server; an image listens at the comparison's port, its only exposed one, or `PORT`.

    Other machines pull an image that this one does not have. Raises InputError where this machine has no engine.
    """
    if is_url(server):
        return _external(server, comparison.certificate)
    image = image_of(server)
    if image is None:
        return _started_by(server, comparison)
    found = find_image(image)
    ports = () if found is None else found[1].ports
    exposed = ports[0] if len(ports) == 1 else PORT
    pull = "missing" if found is None and comparison.cpus is None else None
    return _container(comparison, comparison.port or exposed, image=image, pull=pull)


def _external(url: str, certificate: str | None) -> Fields:
    parts = split_url(url)
    is_tls = parts.scheme == "https"
    if is_tls and certificate is None:
        raise InputError(
            f"{url} has no certificate",
            why="over TLS a server is verified, and no list of public authorities is used",
            hint="name the file (PEM) of its certificate, or of its authority's, with --certificate",
        )
    tls = {"certificate": certificate} if is_tls else None
    return _stack_of(backend=EXTERNAL, url=f"{parts.scheme}://{parts.netloc}", tls=tls)


def _started_by(command: str, comparison: ServerComparison, **options: object) -> Fields:
    """Return the stack of a command line; where it starts on this machine, with the program's path here."""
    variables, (program, *arguments) = command_words(command)
    search_path = comparison.search_path
    if search_path is not None and not re.search(r"[/{]", program):
        found = shutil.which(program, path=variables.get("PATH", search_path))
        if found is None:
            raise InputError(
                f"{program} is missing on this machine",
                why="it is in no folder of this shell's PATH",
                hint="install it, activate its environment, or write its path",
            )
        program = str(Path(found).absolute())
    return _stack_of(
        backend="command",
        # Many servers listen on the loopback interface unless told otherwise.
        listen=PORT if comparison.cpus is None else f"{LOOPBACK}:{PORT}",
        **options,
        run=[program, *arguments],
        env=_given(PATH=search_path) | variables or None,
        files=list(comparison.files) or None,
        cwd=comparison.cwd,
        ready=_ready(comparison),
    )


def _container(comparison: ServerComparison, port: int, **options: object) -> Fields:
    return _stack_of(backend=CONTAINER.name, listen=PORT, port=port, **options, ready=_ready(comparison))


def _ready(comparison: ServerComparison) -> Fields | None:
    return None if comparison.ready_within_s is None else {"within_s": comparison.ready_within_s}


def _stack_of(**service: object) -> Fields:
    return {"entry": SERVICE, "services": {SERVICE: _given(**service)}}
