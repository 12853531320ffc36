"""Running generators on their hosts: all are started at one instant, waited for, and their outputs are fetched.

`run_generators` is the way in. A `GeneratorGroup` has the processes of one host, a `GeneratorProcess` is one of them,
and a `GeneratorRun` is the record of one that ended well.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Literal, TypeVar

from benchkit.errors import HostError, HostStateError
from benchkit.hosts.connections import Hosts, run_on_hosts
from benchkit.hosts.files import PlacedFile
from benchkit.hosts.host import Host
from benchkit.hosts.processes import ExitStatus, Pipe, Process, ProcessSpec, ToFile
from benchkit.load.generators.generator import Generator
from benchkit.models.load import Load
from benchkit.services import deploy

START_LEAD_S = 0.03
START_LEAD_ROUND_TRIPS = 20
START_LEAD_PROCESS_S = 0.002
"""Lead of the common start: time for the hosts' own work, for this many round trips to the slowest host, and for the
messages of each process."""

GRACE_S = 30.0
"""Time that a load tool may take beyond its load before it is ended and the trial fails."""
SLOWEST_RPS = 100.0
"""Rate below which a generator with a count of requests is considered stuck."""
REDUCE_S = 60.0
"""Time that a reducer may take after its tool has ended: only the content of a pipe is left to read."""
STOP_GRACE_S = 1.0
EARLY_END_S = 0.1
"""Time to wait for a reducer that may have ended before its tool."""

STDOUT_BYTES = 64 << 20
"""Limit of a tool's output: wrk's histogram of a million different times takes 10 MB."""
STDERR_BYTES = 1 << 20

OutputKind = Literal["stdout", "stderr", "reduction"]
"""Kinds of files that a generator writes: its text, its error messages, and the reducer's file."""

T = TypeVar("T")


@dataclass(frozen=True)
class GeneratorRun:
    """Record of a generator that ran to its end."""

    generator: Generator
    ended: ExitStatus
    started_s: float
    """Start, on the controller's `time.monotonic()`, converted from its host's clock."""
    ended_s: float
    late_s: float | None
    """Delay of the start after the agreed instant; None where it ran alone and none was agreed."""
    files: Mapping[OutputKind, PurePosixPath]
    """Its output files on its host."""


@dataclass
class GeneratorProcess:
    """A generator that is being run on its host, with its reducer."""

    generator: Generator
    host: Host
    folder: PurePosixPath
    reducer: Process | None = None
    process: Process | None = None
    ended: ExitStatus | None = None

    @property
    def files(self) -> dict[OutputKind, PurePosixPath]:
        """Paths of its output files."""
        name = self.generator.name
        paths: dict[OutputKind, PurePosixPath] = {
            "stdout": self.folder / f"{name}.txt",
            "stderr": self.folder / f"{name}.stderr.txt",
        }
        return paths if self.generator.reducer is None else paths | {"reduction": self.folder / f"{name}.json"}

    @property
    def pipe(self) -> Pipe:
        """Pipe from the tool to its reducer."""
        return Pipe(f"{self.folder}/{self.generator.name}")

    @property
    def working_directory(self) -> PurePosixPath:
        """Folder in which the tool is started."""
        return self.folder / self.generator.name

    @property
    def started_s(self) -> float:
        """Start, on the controller's `time.monotonic()`, converted from its host's clock."""
        return self.host.clock.to_controller_s(_started(self.process).started_ns)

    def input_files(self) -> list[PlacedFile]:
        """Return the files that its command names."""
        return [PlacedFile(self.working_directory / name, content) for name, content in self.generator.files.items()]

    def reducer_start(self) -> ProcessSpec | None:
        """Return how to start its reducer; None where it has none."""
        if self.generator.reducer is None:
            return None
        name = self.generator.name
        return ProcessSpec(
            (*self.generator.reducer, "-out", f"{name}.json", "-rest", f"{name}.txt"),
            cwd=self.folder,
            cpus=self.generator.cpus,
            stdin=self.pipe,
            stderr=ToFile(self.folder / f"{name}.reduce.txt", STDERR_BYTES),
        )

    def tool_start(self) -> ProcessSpec:
        """Return how to start the tool."""
        return ProcessSpec(
            self.generator.argv,
            cwd=self.working_directory,
            cpus=self.generator.cpus,
            nofile=self.generator.nofile,
            stdout=ToFile(self.files["stdout"], STDOUT_BYTES) if self.generator.reducer is None else self.pipe,
            stderr=ToFile(self.files["stderr"], STDERR_BYTES),
        )

    def wait_for_tool(self) -> None:
        """Wait until the tool has ended. Raises HostError where it fails, or does not end in time."""
        process = _started(self.process)
        limit_s = time_limit_s(self.generator.load)
        self.ended = process.wait(limit_s)
        if self.ended is None:
            raise self._failure(f"did not end within {limit_s:g} s")
        if self.ended.exit_code != 0:
            self._raise_reducer_failure()
            raise self._failure(f"failed with {self.ended}")
        for name, output in process.outputs().items():
            if output.error is not None:
                what = f"could not write its {name}"
                if output.is_host_state:
                    raise HostStateError(f"{self.generator} {what}", where=self.host.name, why=output.error)
                raise self._failure(f"{what}: {output.error}")
            if output.dropped and name == "stdout":
                raise self._failure(f"printed {output.dropped} bytes more than the limit of {STDOUT_BYTES}")

    def wait_for_reducer(self) -> None:
        """Wait until the reducer has written its file. Raises HostError where it fails."""
        if self.reducer is not None:
            ended = self.reducer.wait(REDUCE_S)
            if ended is None or ended.exit_code != 0:
                raise self._reducer_failure(ended)

    def record(self) -> GeneratorRun:
        """Return the record of its run, after `wait_for_tool`."""
        process, ended, clock = _started(self.process), self.ended, self.host.clock
        if ended is None:
            raise AssertionError("wait_for_tool was not called")
        return GeneratorRun(
            generator=self.generator,
            ended=ended,
            started_s=self.started_s,
            ended_s=clock.to_controller_s(ended.at_ns),
            late_s=process.late_s,
            files=self.files,
        )

    def _raise_reducer_failure(self) -> None:
        """Raise HostError where the reducer failed first: the tool then fails to write to the broken pipe."""
        ended = None if self.reducer is None else self.reducer.wait(EARLY_END_S)
        if ended is not None and ended.exit_code != 0:
            raise self._reducer_failure(ended)

    def _failure(self, what: str) -> HostError:
        """Return the error of the tool, with the last lines of what it printed."""
        paths = [self.files["stderr"]]
        if self.generator.reducer is None:
            paths.append(self.files["stdout"])
        printed = (deploy.last_log_lines(self.host, path) for path in paths)
        why = next((lines for lines in printed if lines), None)
        return HostError(f"{self.generator} {what}", where=self.host.name, why=why)

    def _reducer_failure(self, ended: ExitStatus | None) -> HostError:
        how = f"did not end within {REDUCE_S:g} s" if ended is None else f"failed with {ended}"
        why = deploy.last_log_lines(self.host, self.folder / f"{self.generator.name}.reduce.txt")
        return HostError(f"the reducer of {self.generator} {how}", where=self.host.name, why=why)


@dataclass
class GeneratorGroup:
    """The generator processes of one host."""

    host: Host
    processes: list[GeneratorProcess]
    folder: PurePosixPath
    reducers: list[Process] = field(default_factory=list)

    def prepare(self) -> None:
        """Copy their files to the host and start their reducers. Raises HostError."""
        files = [file for process in self.processes for file in process.input_files()]
        if files:
            self.host.files.place(files)
        for process in self.processes:
            if not process.generator.files:
                self.host.files.mkdir(process.working_directory)
        starts = {i: start for i, process in enumerate(self.processes) if (start := process.reducer_start())}
        self.reducers = self.host.processes.start_all(starts.values())
        for i, reducer in zip(starts, self.reducers, strict=True):
            self.processes[i].reducer = reducer

    def start(self, at_s: float | None) -> None:
        """Start the tools, at an instant of the controller's `time.monotonic()` if one is given. Raises HostError."""
        started = self.host.processes.start_all([process.tool_start() for process in self.processes], at_s)
        for generator_process, process in zip(self.processes, started, strict=True):
            generator_process.process = process

    def stop(self) -> None:
        """Stop all tools and reducers that were started. Raises HostError."""
        tools = [tool for process in self.processes if (tool := process.process) is not None]
        self.host.processes.stop([*tools, *self.reducers], grace_s=STOP_GRACE_S)


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
    groups = [
        GeneratorGroup(
            hosts[name],
            [GeneratorProcess(generator, hosts[name], folder) for generator in generators if generator.host == name],
            folder,
        )
        for name in dict.fromkeys(generator.host for generator in generators)
    ]
    processes = [process for group in groups for process in group.processes]
    with ThreadPoolExecutor(len(generators)) as pool:
        starting: list[Future[None]] = []
        try:
            starting += _submit(pool, GeneratorGroup.prepare, groups)
            _wait_for_all(starting)
            at_s = None if len(generators) == 1 else _agree_on_start(groups)
            starting += _submit(pool, lambda group: group.start(at_s), groups)
            _wait_for_all(starting)
            on_start(processes)
            _wait_for_all(_submit(pool, GeneratorProcess.wait_for_tool, processes))
            _wait_for_all(_submit(pool, GeneratorProcess.wait_for_reducer, processes))
        except BaseException:
            wait(starting)  # only processes whose start has been answered can be stopped
            with ExitStack() as stops:  # every group is stopped, even where stopping another one fails
                for group in groups:
                    stops.callback(group.stop)
            raise
    return tuple(process.record() for process in processes)


def fetch_outputs(hosts: Hosts, runs: Sequence[GeneratorRun]) -> Mapping[int, Mapping[OutputKind, bytes]]:
    """Return the output files of generators, by generator number, without empty ones. Raises HostError."""

    def of_one(run: GeneratorRun) -> Mapping[OutputKind, bytes]:
        files = hosts[run.generator.host].files
        contents = {kind: files.read(path) for kind, path in run.files.items()}
        return {kind: content for kind, content in contents.items() if content}

    with ThreadPoolExecutor(len(runs)) as pool:
        return dict(zip((run.generator.number for run in runs), pool.map(of_one, runs), strict=True))


def time_limit_s(load: Load) -> float:
    """Return the longest time that a generator with this load may take, in seconds."""
    if load.duration_s is not None:
        return load.duration_s + GRACE_S
    slowest_rps = SLOWEST_RPS if load.rate is None else min(load.rate, SLOWEST_RPS)
    return (load.request_count or 0) / slowest_rps + GRACE_S


def _agree_on_start(groups: Sequence[GeneratorGroup]) -> float:
    """Compare the clocks of all hosts, and return the common start on the controller's `time.monotonic()`.

    It is late enough to reach every host before it. Raises HostError.
    """
    run_on_hosts([group.host for group in groups], Host.compare_clocks)
    slowest_round_trip_s = max(2 * group.host.clock.uncertainty_s for group in groups)
    lead_s = START_LEAD_S + START_LEAD_ROUND_TRIPS * slowest_round_trip_s
    return time.monotonic() + lead_s + START_LEAD_PROCESS_S * sum(len(group.processes) for group in groups)


def _submit(pool: ThreadPoolExecutor, function: Callable[[T], None], items: Iterable[T]) -> list[Future[None]]:
    return [pool.submit(function, item) for item in items]


def _wait_for_all(futures: Sequence[Future[None]]) -> None:
    """Wait for all futures, or until the first one fails, and raise its error."""
    done, _ = wait(futures, return_when=FIRST_EXCEPTION)
    for future in futures:
        if future in done:
            future.result()


def _started(process: Process | None) -> Process:
    if process is None:
        raise AssertionError("start was not called")
    return process
