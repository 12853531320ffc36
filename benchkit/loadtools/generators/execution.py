"""Running generators on their hosts: at once and side by side, or in slices that take turns by a timetable.

`run_generators` and `run_slices` are the ways in; both give a `GeneratorRun` for each generator in each slice. Output
is fetched later (`benchkit.loadtools.generators.outputs`): no host works on it while load is measured.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Literal, TypeVar

from benchkit.agent.operations import ExitStatus
from benchkit.errors import HostError, HostStateError
from benchkit.hosts.connections import Hosts, run_on_hosts
from benchkit.hosts.files import PlacedFile
from benchkit.hosts.host import Host
from benchkit.hosts.processes import EndedProcess, HostProcess, PlannedStart, ProcessSpec, ToFile
from benchkit.loadtools.generators.generator import Generator, grace_s, time_limit_s
from benchkit.loadtools.registry import get_tool
from benchkit.models.telemetry import generator_service
from benchkit.services import deploy

START_LEAD_S = 0.03
START_LEAD_ROUND_TRIPS = 20
START_LEAD_PROCESS_S = 0.002
"""Lead of a common start: time for the hosts' own work, for this many round trips to the slowest host, and for the
messages of each process."""

STOP_GRACE_S = 1.0

PRIVATE = 0o600
"""Mode of an input file with a secret."""

STDOUT_BYTES = 64 << 20
"""Limit of a tool's output: wrk's histogram of a million different times takes 10 MB."""
STDERR_BYTES = 1 << 20

OutputKind = Literal["stdout", "stderr", "reduction"]
"""Kinds of files that a generator writes: its text, its error messages, and the reducer's file."""

SUFFIXES: Mapping[OutputKind, str] = {"stdout": "txt", "stderr": "stderr.txt", "reduction": "json"}
"""Suffixes of these files."""

T = TypeVar("T")


@dataclass(frozen=True)
class PlacedGenerator:
    """A generator in one slice, with the places of its files on its host."""

    generator: Generator
    working_directory: PurePosixPath
    """Folder with its input files, in which the tool is started."""
    rows: PurePosixPath
    """File for the rows that its tool prints, if any; its other files have this name and a suffix."""

    def output(self, kind: OutputKind) -> PurePosixPath:
        """Return the path of an output file."""
        return self.rows.with_name(f"{self.rows.name}.{SUFFIXES[kind]}")

    def input_files(self) -> list[PlacedFile]:
        """Return its input files: its host keeps no copy of one with a secret, which only its user reads."""
        secret = self.generator.secret_files
        return [
            PlacedFile(self.working_directory / name, content, PRIVATE)
            if name in secret
            else PlacedFile(self.working_directory / name, content)
            for name, content in self.generator.files.items()
        ]

    def tool_start(self, stdout_bytes: int | None = None) -> ProcessSpec:
        """Return how to start the tool, with a limit of its output where it is no file of rows."""
        has_rows = self.generator.reducer is not None
        return ProcessSpec(
            self.generator.command,
            cwd=self.working_directory,
            cpus=self.generator.cpus,
            nofile=self.generator.nofile,
            stdout=ToFile(self.rows, None) if has_rows else ToFile(self.output("stdout"), stdout_bytes),
            stderr=ToFile(self.output("stderr"), STDERR_BYTES),
        )


@dataclass(frozen=True)
class GeneratorRun:
    """A generator in one slice, from its start to its end. Times are the controller's `time.monotonic()`."""

    placed: PlacedGenerator
    started_s: float
    ended: ExitStatus | None
    """None where it could not be ended."""
    ended_s: float
    late_s: float | None
    """Delay of the start after the agreed instant; None where it ran alone and none was agreed."""
    limit_s: float
    """Longest time that it could take."""
    overran: bool
    """True where it did not end by itself before its limit."""
    failure: str | None = None
    """Reason why its output cannot be used; None where it ended well."""

    @property
    def generator(self) -> Generator:
        """Its generator."""
        return self.placed.generator

    @property
    def measured_s(self) -> float:
        """Time that it measured: to its own end, or to that of its window where that came first."""
        window_s = self.generator.load.duration_s
        took_s = self.ended_s - self.started_s
        if window_s is not None and self.generator.linger_s:
            return min(window_s, took_s)
        return window_s if self.overran and window_s is not None else took_s

    @property
    def measured_until_s(self) -> float:
        """End of what it measured."""
        return self.started_s + self.measured_s


@dataclass
class GeneratorProcess:
    """A generator that is being run on its host."""

    placed: PlacedGenerator
    host: Host
    process: HostProcess | None = None
    ended: ExitStatus | None = None
    overran: bool = False

    @property
    def generator(self) -> Generator:
        """Its generator."""
        return self.placed.generator

    @property
    def started_s(self) -> float:
        """Start, on the controller's `time.monotonic()`, converted from its host's clock."""
        return self.host.clock.to_controller_s(_started(self.process).started_ns)

    def wait_for_tool(self) -> None:
        """Wait until the tool has ended, or end it at its limit: it may print its results then.

        Raises HostError where it fails, cannot be ended, or fills the disk, and at the limit of a count of requests.
        """
        process = _started(self.process)
        limit_s = time_limit_s(self.generator.load, self.generator.target.protocol)
        self.ended = process.wait(limit_s)
        if self.ended is None:
            self.overran = True
            stopped = self.host.processes.stop([process], signum=signal.SIGINT, grace_s=STOP_GRACE_S)
            self.ended = stopped.ended[process.id]
        if self.ended is None or (self.overran and self.generator.load.duration_s is None):
            raise self._failure(f"did not end within {limit_s:g} s")
        require_room(self.host, self.generator, self.ended, "at its end")
        if self.ended.exit_code not in get_tool(self.generator.tool).exit_codes and not self.overran:
            raise self._failure(f"failed with {self.ended}")
        for name, output in process.outputs().items():
            if output.error is not None:
                what = f"could not write its {name}"
                if output.is_host_state:
                    raise HostStateError(f"{self.generator} {what}", where=self.host.name, why=output.error)
                raise self._failure(f"{what}: {output.error}")
            if output.dropped and name == "stdout":
                raise self._failure(f"printed {output.dropped} bytes more than the limit of {STDOUT_BYTES}")

    def record(self) -> GeneratorRun:
        """Return the record of its run, after `wait_for_tool`."""
        if self.ended is None:
            raise AssertionError("wait_for_tool was not called")
        return GeneratorRun(
            self.placed,
            started_s=self.started_s,
            ended=self.ended,
            ended_s=self.host.clock.to_controller_s(self.ended.at_ns),
            late_s=_started(self.process).late_s,
            limit_s=time_limit_s(self.generator.load, self.generator.target.protocol),
            overran=self.overran,
        )

    def _failure(self, what: str) -> HostError:
        """Return the error of the tool, with the last lines of what it printed."""
        kinds: list[OutputKind] = ["stderr"] if self.generator.reducer else ["stderr", "stdout"]
        printed = (deploy.last_log_lines(self.host, self.placed.output(kind)) for kind in kinds)
        why = next((lines for lines in printed if lines), None)
        return HostError(f"{self.generator} {what}", where=self.host.name, why=why)


@dataclass(frozen=True)
class GeneratorGroup:
    """The generator processes of one host."""

    host: Host
    processes: list[GeneratorProcess]

    def start(self, at_s: float | None) -> None:
        """Start the tools, at an instant of the controller's `time.monotonic()` if one is given. Raises HostError."""
        specs = [process.placed.tool_start(STDOUT_BYTES) for process in self.processes]
        started = self.host.processes.start_all(specs, at_s)
        for generator_process, process in zip(self.processes, started, strict=True):
            generator_process.process = process

    def stop(self) -> None:
        """Stop all tools that were started. Raises HostError."""
        tools = [tool for process in self.processes if (tool := process.process) is not None]
        self.host.processes.stop(tools, grace_s=STOP_GRACE_S)


def place_inputs(host: Host, generators: Iterable[PlacedGenerator]) -> None:
    """Make the working directories of generators on their host, and copy their files there. Raises HostError."""
    by_directory = {placed.working_directory: placed for placed in generators}  # the slices of a generator share one
    inputs = {directory: placed.input_files() for directory, placed in by_directory.items()}
    if placed_files := [file for files in inputs.values() for file in files]:
        host.files.place(placed_files)
    for directory, files in inputs.items():
        if not files:
            host.files.mkdir(directory)


def require_room(host: Host, generator: Generator, ended: ExitStatus | None, when: str) -> None:
    """Check that a load tool did not end on a full disk: it may have failed for that, or lost the end of its output.

    It writes to the disk itself, and the disk may have room again when the load ends. Raises HostStateError.
    """
    if ended is not None and ended.full_disk is not None:
        raise HostStateError(f"no room for the output of {generator} {when}", where=host.name, why=ended.full_disk)


def _ignore_start(_processes: Sequence[GeneratorProcess]) -> None:
    """Do nothing when the generators have started."""


def run_generators(
    hosts: Hosts,
    generators: Sequence[Generator],
    folder: PurePosixPath,
    on_start: Callable[[Sequence[GeneratorProcess]], None] = _ignore_start,
) -> tuple[GeneratorRun, ...]:
    """Run generators side by side to their ends, with their files in `folder` on their hosts.

    Several generators are started at one instant. `on_start` is called once all have started; it should return quickly.
    Raises HostError, naming generator, host and the last lines it printed, where one fails or does not end in time; the
    others are stopped then.
    """
    processes = [
        GeneratorProcess(PlacedGenerator(each, folder / each.name, folder / f"{each.name}.rows"), hosts[each.host])
        for each in generators
    ]
    groups = [
        GeneratorGroup(hosts[name], [process for process in processes if process.generator.host == name])
        for name in dict.fromkeys(generator.host for generator in generators)
    ]
    with ThreadPoolExecutor(len(generators)) as pool:
        starting: list[Future[None]] = []
        try:
            starting += _submit(pool, lambda group: place_inputs(group.host, _placed(group)), groups)
            _wait_for_all(starting)
            at_s = None if len(generators) == 1 else _agree_on_start(groups)
            starting += _submit(pool, lambda group: group.start(at_s), groups)
            _wait_for_all(starting)
            on_start(processes)
            _wait_for_all(_submit(pool, GeneratorProcess.wait_for_tool, processes))
        except BaseException:
            wait(starting)  # only processes whose start has been answered can be stopped
            with ExitStack() as stops:  # every group is stopped, even where stopping another one fails
                for group in groups:
                    stops.callback(group.stop)
            raise
    return tuple(process.record() for process in processes)


def _placed(group: GeneratorGroup) -> list[PlacedGenerator]:
    return [process.placed for process in group.processes]


def _agree_on_start(groups: Sequence[GeneratorGroup]) -> float:
    """Compare the clocks of all hosts, and return the common start on the controller's `time.monotonic()`.

    It is late enough to reach every host before it. Raises HostError.
    """
    hosts = [group.host for group in groups]
    run_on_hosts(hosts, Host.compare_clocks)
    return time.monotonic() + start_lead_s(hosts, START_LEAD_PROCESS_S * sum(len(group.processes) for group in groups))


def start_lead_s(hosts: Iterable[Host], messages_s: float) -> float:
    """Return the time to reach all of these hosts before an agreed instant, with the time to send the messages."""
    slowest_round_trip_s = max(2 * host.clock.uncertainty_s for host in hosts)
    return START_LEAD_S + START_LEAD_ROUND_TRIPS * slowest_round_trip_s + messages_s


def _submit(pool: ThreadPoolExecutor, function: Callable[[T], None], items: Iterable[T]) -> list[Future[None]]:
    return [pool.submit(function, item) for item in items]


def _wait_for_all(futures: Sequence[Future[None]]) -> None:
    """Wait for all futures, or until the first one fails, and raise its error."""
    done, _ = wait(futures, return_when=FIRST_EXCEPTION)
    for future in futures:
        if future in done:
            future.result()


def _started(process: HostProcess | None) -> HostProcess:
    if process is None:
        raise AssertionError("start was not called")
    return process


@dataclass(frozen=True)
class PlannedSlice:
    """A slice of one cell: its generators, which are started at one instant."""

    name: str
    """Name of its files, unique in the block."""
    cell: str
    """Name of the folder for the input files of its cell's generators."""
    generators: tuple[Generator, ...]
    at_s: float
    """Start of the generators, from that of the first slice."""
    window_end_s: float
    """End of its window, likewise."""

    def limit_s(self, generator: Generator) -> float:
        """Return the instant at which a generator is ended if it has not ended by itself."""
        return self.window_end_s + grace_s(generator.load) + generator.linger_s

    def placed(self, folder: PurePosixPath) -> list[PlacedGenerator]:
        """Return its generators with the places of their files in the block's folder."""
        return [
            PlacedGenerator(each, folder / self.cell / each.name, folder / f"{self.name}.{each.number}")
            for each in self.generators
        ]


def run_slices(
    hosts: Hosts, slices: Sequence[PlannedSlice], folder: PurePosixPath, began_s: float
) -> list[list[GeneratorRun]]:
    """Run slices, in the order of their instants, and return the record of each of their generators.

    The first begins at `began_s` on the controller's `time.monotonic()`. Their input files are in `folder` on the load
    hosts already (`place_inputs`). Raises HostError where a host is lost, a tool cannot be started (the rest is not
    started then), or a disk was full. A tool that fails in a slice for another reason is not an error.
    """
    starts = [(each, placed) for each in slices for placed in each.placed(folder)]
    by_host = {
        name: [start for start in starts if start[1].generator.host == name]
        for name in dict.fromkeys(placed.generator.host for _, placed in starts)
    }

    def run_on(name: str) -> list[GeneratorRun]:
        host, on_host = hosts[name], by_host[name]
        ended = host.processes.run_timetable([_planned_start(host, *start, began_s) for start in on_host])
        for (_, placed), process in zip(on_host, ended, strict=True):
            require_room(host, placed.generator, process.ended, "at the end of a slice")
        return [
            _slice_run(host, placed, process, planned.limit_s(placed.generator) - planned.at_s)
            for (planned, placed), process in zip(on_host, ended, strict=True)
        ]

    with ThreadPoolExecutor(len(by_host)) as pool:
        futures = {name: pool.submit(run_on, name) for name in by_host}
        try:
            done, _ = wait(futures.values(), return_when=FIRST_EXCEPTION)
            for future in done:
                future.result()
        except BaseException:
            for name in by_host:
                with suppress(HostError):  # the first error is the one to raise
                    hosts[name].processes.stop_timetable()
            raise
        runs = {name: iter(future.result()) for name, future in futures.items()}
    return [[next(runs[generator.host]) for generator in each.generators] for each in slices]


def _planned_start(host: Host, planned: PlannedSlice, placed: PlacedGenerator, began_s: float) -> PlannedStart:
    name, generator = generator_service(placed.generator.number), placed.generator
    at_ns, limit_ns = (
        host.clock.to_host_ns(began_s + seconds) for seconds in (planned.at_s, planned.limit_s(generator))
    )
    return PlannedStart(name, placed.tool_start(), at_ns, limit_ns)


def _slice_run(host: Host, placed: PlacedGenerator, process: EndedProcess, limit_s: float) -> GeneratorRun:
    ended = process.ended
    started_s = host.clock.to_controller_s(process.started_ns)
    run = GeneratorRun(
        placed,
        started_s=started_s,
        ended=ended,
        ended_s=started_s if ended is None else host.clock.to_controller_s(ended.at_ns),
        late_s=process.late_s,
        limit_s=limit_s,
        overran=process.overran,
    )
    if ended is None:
        return replace(run, failure=f"{placed.generator} did not end")
    if ended.exit_code in get_tool(placed.generator.tool).exit_codes or process.overran:
        return run
    printed = deploy.last_log_lines(host, placed.output("stderr"))
    return replace(run, failure=": ".join(filter(None, (f"{placed.generator} failed with {ended}", printed))))
