"""Running generators on their hosts: all are started at one instant, waited for, and their outputs are fetched.

`run_generators` is the way in, and `fetch_outputs` the way out. A `GeneratorGroup` has the processes of one host, a
`GeneratorProcess` is one of them, and a `GeneratorRun` is the record of one that ended well.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Literal, TypeVar

from benchkit.agent.operations import ExitStatus
from benchkit.errors import HostError, HostStateError
from benchkit.hosts.connections import Hosts, run_on_hosts
from benchkit.hosts.files import PlacedFile
from benchkit.hosts.host import Host
from benchkit.hosts.processes import HostProcess, ProcessSpec, ToFile
from benchkit.loadtools.generators.generator import Generator
from benchkit.loadtools.generators.limits import time_limit_s
from benchkit.loadtools.generators.rows import RowFiles, reduce_rows, require_room
from benchkit.loadtools.registry import get_tool
from benchkit.services import deploy

START_LEAD_S = 0.03
START_LEAD_ROUND_TRIPS = 20
START_LEAD_PROCESS_S = 0.002
"""Lead of the common start: time for the hosts' own work, for this many round trips to the slowest host, and for the
messages of each process."""

STOP_GRACE_S = 1.0

PRIVATE = 0o600
"""Mode of an input file with a secret."""

STDOUT_BYTES = 64 << 20
"""Limit of a tool's output: wrk's histogram of a million different times takes 10 MB."""
STDERR_BYTES = 1 << 20

OutputKind = Literal["stdout", "stderr", "reduction"]
"""Kinds of files that a generator writes: its text, its error messages, and the reducer's file."""

T = TypeVar("T")


@dataclass(frozen=True)
class GeneratorRun:
    """Record of a generator that ran to its end, or was ended after its window."""

    generator: Generator
    ended: ExitStatus
    overran: bool
    """True where it did not end by itself (`benchkit.loadtools.generators.limits`)."""
    started_s: float
    """Start, on the controller's `time.monotonic()`, converted from its host's clock."""
    ended_s: float
    late_s: float | None
    """Delay of the start after the agreed instant; None where it ran alone and none was agreed."""
    files: Mapping[OutputKind, PurePosixPath]
    """Its output files on its host, once its rows are reduced."""
    rows: RowFiles | None
    """Its rows; None where the tool prints none."""

    @property
    def measured_until_s(self) -> float:
        """End of what it measured, on the same clock: its own end, or that of its window where it overran it."""
        return self.started_s + (self.generator.load.duration_s or 0.0) if self.overran else self.ended_s


@dataclass
class GeneratorProcess:
    """A generator that is being run on its host."""

    generator: Generator
    host: Host
    folder: PurePosixPath
    process: HostProcess | None = None
    ended: ExitStatus | None = None
    overran: bool = False

    @property
    def files(self) -> dict[OutputKind, PurePosixPath]:
        """Paths of its output files; those of a reducer are beside the rows."""
        name = self.generator.name
        stderr = self.folder / f"{name}.stderr.txt"
        if self.generator.reducer is None:
            return {"stdout": self.folder / f"{name}.txt", "stderr": stderr}
        beside = self.working_directory
        return {"stdout": beside / f"{name}.txt", "stderr": stderr, "reduction": beside / f"{name}.json"}

    @property
    def rows(self) -> RowFiles | None:
        """The file with its rows; None where the tool prints none."""
        if self.generator.reducer is None:
            return None
        return RowFiles(self.generator, self.working_directory, (self.generator.name,), self.working_directory)

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
        return place_inputs(self.generator, self.working_directory)

    def tool_start(self) -> ProcessSpec:
        """Return how to start the tool."""
        rows = self.rows
        return ProcessSpec(
            self.generator.command,
            cwd=self.working_directory,
            cpus=self.generator.cpus,
            nofile=self.generator.nofile,
            stdout=ToFile(self.files["stdout"], STDOUT_BYTES)
            if rows is None
            else ToFile(rows.folder / rows.names[0], None),
            stderr=ToFile(self.files["stderr"], STDERR_BYTES),
        )

    def wait_for_tool(self) -> None:
        """Wait until the tool has ended, or end it at its limit: it may print its results then.

        Raises HostError where it fails, cannot be ended, or fills the disk, and at the limit of a count of requests.
        """
        process = _started(self.process)
        limit_s = time_limit_s(self.generator.load)
        self.ended = process.wait(limit_s)
        if self.ended is None:
            self.overran = True
            stopped = self.host.processes.stop([process], signum=signal.SIGINT, grace_s=STOP_GRACE_S)
            self.ended = stopped.ended[process.id]
        if self.ended is None or (self.overran and self.generator.load.duration_s is None):
            raise self._failure(f"did not end within {limit_s:g} s")
        require_room(self.host, self.generator, self.ended, "at its end")
        if self.ended.exit_code != 0 and not self.overran:
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
        process, ended, clock = _started(self.process), self.ended, self.host.clock
        if ended is None:
            raise AssertionError("wait_for_tool was not called")
        return GeneratorRun(
            generator=self.generator,
            ended=ended,
            overran=self.overran,
            started_s=self.started_s,
            ended_s=clock.to_controller_s(ended.at_ns),
            late_s=process.late_s,
            files=self.files,
            rows=self.rows,
        )

    def _failure(self, what: str) -> HostError:
        """Return the error of the tool, with the last lines of what it printed."""
        paths = [self.files["stderr"]]
        if self.generator.reducer is None:
            paths.append(self.files["stdout"])
        printed = (deploy.last_log_lines(self.host, path) for path in paths)
        why = next((lines for lines in printed if lines), None)
        return HostError(f"{self.generator} {what}", where=self.host.name, why=why)


@dataclass
class GeneratorGroup:
    """The generator processes of one host."""

    host: Host
    processes: list[GeneratorProcess]
    folder: PurePosixPath

    def prepare(self) -> None:
        """Copy their files to the host. Raises HostError."""
        inputs = [(process, process.input_files()) for process in self.processes]
        if files := [file for _, placed in inputs for file in placed]:
            self.host.files.place(files)
        for process, placed in inputs:
            if not placed:
                self.host.files.mkdir(process.working_directory)

    def start(self, at_s: float | None) -> None:
        """Start the tools, at an instant of the controller's `time.monotonic()` if one is given. Raises HostError."""
        started = self.host.processes.start_all([process.tool_start() for process in self.processes], at_s)
        for generator_process, process in zip(self.processes, started, strict=True):
            generator_process.process = process

    def stop(self) -> None:
        """Stop all tools that were started. Raises HostError."""
        tools = [tool for process in self.processes if (tool := process.process) is not None]
        self.host.processes.stop(tools, grace_s=STOP_GRACE_S)


def place_inputs(generator: Generator, folder: PurePosixPath) -> list[PlacedFile]:
    """Return the input files of a generator: its host keeps no copy of one with a secret, which only its user reads."""
    secret = generator.secret_files
    return [
        PlacedFile(folder / name, content, PRIVATE) if name in secret else PlacedFile(folder / name, content)
        for name, content in generator.files.items()
    ]


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
        except BaseException:
            wait(starting)  # only processes whose start has been answered can be stopped
            with ExitStack() as stops:  # every group is stopped, even where stopping another one fails
                for group in groups:
                    stops.callback(group.stop)
            raise
    return tuple(process.record() for process in processes)


def fetch_outputs(hosts: Hosts, runs: Sequence[GeneratorRun]) -> Mapping[int, Mapping[OutputKind, bytes]]:
    """Reduce the rows of generators, and return their output files, by generator number, without empty ones.

    Raises HostError.
    """
    by_host: dict[str, list[RowFiles]] = {}
    for run in runs:
        if run.rows is not None:
            by_host.setdefault(run.generator.host, []).append(run.rows)
    run_on_hosts([hosts[name] for name in by_host], lambda host: reduce_rows(host, by_host[host.name]))

    def of_one(run: GeneratorRun) -> Mapping[OutputKind, bytes]:
        files = hosts[run.generator.host].files
        contents = {kind: files.read(path) for kind, path in run.files.items()}
        stream = get_tool(run.generator.load.tool).summary
        if run.overran and stream is not None and not contents[stream]:
            what = f"{run.generator} did not end within {time_limit_s(run.generator.load):g} s, and printed no result"
            raise HostError(what, where=run.generator.host, why=contents["stderr"].decode(errors="replace") or None)
        return {kind: content for kind, content in contents.items() if content}

    with ThreadPoolExecutor(len(runs)) as pool:
        return dict(zip((run.generator.number for run in runs), pool.map(of_one, runs), strict=True))


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


def _started(process: HostProcess | None) -> HostProcess:
    if process is None:
        raise AssertionError("start was not called")
    return process
