"""The load of a cell as generators: each is one process of the load tool, described as data. Pure.

`plan_generators` makes them; `benchkit.loadtools.generators.execution` runs them on their hosts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import PurePosixPath

from benchkit.errors import UnsupportedError
from benchkit.files import BACKENDS
from benchkit.loadtools.load_shares import divide_load, unsupported_fields, warm_up_load
from benchkit.loadtools.registry import TOOLS, get_tool
from benchkit.loadtools.tool import LONGEST_ANSWER_S, Target, Tool, longest_answer_s
from benchkit.models.load import Load
from benchkit.services.certificates import authority_file, authority_name
from benchkit.services.go_build import GoSource
from benchkit.services.http_probe import probe_program
from benchkit.services.placement import ServicePlacement
from benchkit.services.service import EXECUTABLE, ServiceFile
from benchkit.units import counted

REDUCER = BACKENDS / "reduce"
"""The Go module of the reducer: a program that turns a tool's rows, one per request, into a histogram and counts."""

SLOWEST_RPS = 100.0
"""Rate below which a generator with a count of requests is considered stuck."""


@dataclass(frozen=True)
class Generator:
    """One process of a load tool, with the reducer that reads its rows where it prints any."""

    number: int
    """Place among all generators of the load, from 1, over all hosts."""
    of: int
    """Number of all generators of the load."""
    host: str
    tool: str
    load: Load
    """Its share of the cell's load."""
    program: str
    """First argument of its command."""
    target: Target
    programs: tuple[ServiceFile, ...]
    """Programs that have to be built for it, and certificates that it trusts, to be copied to its host."""
    reducer: tuple[str, ...] | None
    """First arguments of the reducer's command; None: the tool prints no rows."""
    cpus: tuple[int, ...]
    nofile: int
    """Limit of open files."""
    lead: tuple[str, ...] = ()
    """Arguments that delay its measured time after its start."""

    @property
    def argv(self) -> tuple[str, ...]:
        """Its command as it is shown and stored: a secret header has the source of its value."""
        return self._argv(self.load)

    @property
    def command(self) -> tuple[str, ...]:
        """Its command as it is started. Raises InputError where a secret value is unknown."""
        return self._argv(self.load.revealed)

    @property
    def files(self) -> Mapping[str, bytes]:
        """Files for its working directory: name → content. Raises InputError where a secret value is unknown."""
        return get_tool(self.tool).files(self.load.revealed, self.target)

    @property
    def secret_files(self) -> frozenset[str]:
        """Names of the files that contain a secret value."""
        if not self.load.secrets:
            return frozenset()
        shown = get_tool(self.tool).files(self.load, self.target)
        return frozenset(name for name, content in self.files.items() if content != shown.get(name))

    def _argv(self, load: Load) -> tuple[str, ...]:
        return (self.program, *self.lead, *get_tool(self.tool).argv(load, self.target)[1:])

    @property
    def name(self) -> str:
        """Name of its files on the host: `hey.load2.3`."""
        return f"{self.tool}.{self.host}.{self.number}"

    def __str__(self) -> str:
        return self.tool if self.of == 1 else f"{self.tool}, generator {self.number} of {self.of},"

    def as_warm_up(self) -> Generator:
        """Return the same generator for the warm-up, in which nothing is recorded."""
        return replace(self, load=warm_up_load(self.load), reducer=None)

    def as_slice(self, slice_s: float, lead_s: float) -> Generator:
        """Return the same generator for one slice of this length, after a lead where the tool can have one."""
        generator = self.with_window({"duration_s": slice_s, "request_count": None, "warmup_s": 0.0})
        lead = get_tool(self.tool).lead
        return generator if lead is None else replace(generator, lead=lead(lead_s))

    def with_window(self, window: Mapping[str, float | None]) -> Generator:
        """Return the same generator with another measured window: `window` has the fields of its load that differ."""
        return self.with_load(self.load.model_copy(update=dict(window)))

    def with_load(self, load: Load) -> Generator:
        """Return the same generator with another share of a load, by the same tool and with the same histogram."""
        tool = get_tool(self.tool)
        tool.require(load)
        reducer = None if self.reducer is None else (*self.reducer[:3], *_reducer_options(tool, load))
        return replace(self, load=load, reducer=reducer)


def plan_generators(load: Load, target: Target, placements: Sequence[ServicePlacement]) -> tuple[Generator, ...]:
    """Return the generators of a load: `load.processes` on each of these hosts, the load divided among all.

    The folder of a placement gets the programs that benchkit builds and the certificates that verify the target. The
    tool must support every option of the load (`unsupported_fields`).

    Raises UnsupportedError where the tool cannot send the requests, or not to this target. With `load.pin` it is also
    raised for a host with fewer CPUs than processes.
    """
    count = load.processes * len(placements)
    if unsent := [each.why for each in unsupported_fields(get_tool(load.tool), load, count) if each.concerns_requests]:
        able = [name for name, tool in TOOLS.items() if not any(tool.requests.unsupported_fields(load, name))]
        others = f" ({', '.join(able)} can)" if able else ""
        raise UnsupportedError("; ".join(unsent) + others)
    shares = divide_load(load, count)
    if reasons := dict.fromkeys(
        why for share in shares for why in get_tool(load.tool).unsupported_target(share, target)
    ):
        raise UnsupportedError("; ".join(reasons))
    expanded = [one for placement in placements for one in _per_process(load, placement)]
    return tuple(
        _generator(number, count, share, target, placement)
        for number, (share, placement) in enumerate(zip(shares, expanded, strict=True), 1)
    )


def _per_process(load: Load, placement: ServicePlacement) -> list[ServicePlacement]:
    """Return the placement of each process on a host; with `load.pin` its CPUs are divided among them.

    Each process gets CPUs that are neighbours; the first processes get one CPU more where the division leaves a rest.
    """
    if not load.pin:
        return [placement] * load.processes
    cpus, processes = len(placement.cpus), load.processes
    if cpus < processes:
        raise UnsupportedError(f"pin: {placement.host} has {counted(cpus, 'CPU')} for {processes} processes")
    bounds = [(number * cpus + processes - 1) // processes for number in range(processes + 1)]
    return [replace(placement, cpus=placement.cpus[first:end]) for first, end in pairwise(bounds)]


def _reducer_options(tool: Tool, load: Load) -> tuple[str, ...]:
    if load.rate is None or tool.rate is None or tool.rate.interval_ns is None:
        return ()
    return ("-interval", f"{tool.rate.interval_ns(load)}ns")


def _generator(number: int, count: int, load: Load, target: Target, placement: ServicePlacement) -> Generator:
    tool = get_tool(load.tool)
    programs = [probe_program(placement)] if number == 1 else []
    if (tls := target.tls) is not None:
        authority = authority_file(tls, placement.folder / authority_name(tls))
        target = replace(target, ca_file=authority.path)
        programs.append(authority)
    program = tool.command(load, target)[0]
    if (built := tool.go_program) is not None:
        source = GoSource(built.module, placement.goos, placement.goarch, package=built.package)
        file = ServiceFile(placement.folder / built.name, source, EXECUTABLE)
        programs += [file] if file not in programs else []
        program = str(placement.folder / built.name)
    reducer = None
    if tool.rows is not None and load.histogram:
        path = PurePosixPath(placement.folder / "reduce")
        reducer = (str(path), "-tool", tool.rows.name, *_reducer_options(tool, load))
        programs.append(ServiceFile(path, GoSource(REDUCER, placement.goos, placement.goarch), EXECUTABLE))
    return Generator(
        number=number,
        of=count,
        host=placement.host,
        tool=tool.name,
        load=load,
        program=program,
        target=target,
        programs=tuple(programs),
        reducer=reducer,
        cpus=placement.cpus,
        nofile=placement.nofile,
    )


# Every tool has a limit of time. h2load 1.52 has no end of its own where a connection is not established when its
# window ends. It sends requests on that connection for ever: `stop_all_clients` of its source reaches only clients with
# a session. That is common with short listen queues, and with servers that close connections.


def grace_s(load: Load) -> float:
    """Return the time after its window in which a generator may wait for the answers to its last requests."""
    rate = get_tool(load.tool).rate
    return longest_answer_s(load, is_open=load.rate is not None and rate is not None and rate.is_open)


def time_limit_s(load: Load) -> float:
    """Return the longest time that a generator with this load may take, in seconds."""
    if load.duration_s is not None:
        tool = get_tool(load.tool)
        return load.duration_s + grace_s(load) + tool.own_s
    slowest_rps = SLOWEST_RPS if load.rate is None else min(load.rate, SLOWEST_RPS)
    return (load.request_count or 0) / slowest_rps + LONGEST_ANSWER_S
