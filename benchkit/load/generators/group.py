"""The generators of one host under way: what each is started with, waited for, and said of it where it fails."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Literal

from benchkit.errors import HostError
from benchkit.hosts.files import PlacedFile
from benchkit.hosts.host import Host
from benchkit.hosts.processes import Ended, Pipe, Process, Start, ToFile
from benchkit.load.generators.generator import Generator
from benchkit.models.load import Load
from benchkit.services import deploy

GRACE_S = 30.0
"""How much longer than asked a load tool may take, before it is ended and the trial failed."""
SLOWEST_RPS = 100.0
"""A generator that has a count of requests to make is given up where it makes fewer a second than this."""
REDUCE_S = 60.0
"""A reducer has read all but what is in a pipe when its tool ends."""
STOP_GRACE_S = 1.0

STDOUT_BYTES = 64 << 20
"""A load tool's output beyond this is no summary; wrk's histogram of a million different times takes 10 MB."""
STDERR_BYTES = 1 << 20

Left = Literal["stdout", "stderr", "reduction"]
"""What a generator leaves: its text, its errors, and the file of the reducer."""


@dataclass(frozen=True)
class GeneratorRun:
    """A generator that ran to its end."""

    generator: Generator
    ended: Ended
    started_s: float
    """On the controller's `time.monotonic()`, by its host's clock."""
    ended_s: float
    late_s: float | None
    """How much later than the agreed instant it started; None where it was alone, and none was agreed."""
    clock_uncertainty_s: float
    """`started_s` and `ended_s` lie within this of the truth."""
    files: Mapping[Left, PurePosixPath]
    """What it left on its host."""


@dataclass
class GeneratorProcess:
    """A generator under way."""

    generator: Generator
    host: Host
    folder: PurePosixPath
    reducer: Process | None = None
    process: Process | None = None
    ended: Ended | None = None

    @property
    def files(self) -> dict[Left, PurePosixPath]:
        """Where what it leaves stands."""
        name = self.generator.name
        left: dict[Left, PurePosixPath] = {
            "stdout": self.folder / f"{name}.txt",
            "stderr": self.folder / f"{name}.stderr.txt",
        }
        return left if self.generator.reducer is None else left | {"reduction": self.folder / f"{name}.json"}

    @property
    def pipe(self) -> Pipe:
        """From the tool to its reducer."""
        return Pipe(f"{self.folder}/{self.generator.name}")

    @property
    def working_directory(self) -> PurePosixPath:
        """The tool's own."""
        return self.folder / self.generator.name

    def placed_files(self) -> list[PlacedFile]:
        """What its command names."""
        return [
            PlacedFile(self.working_directory / name, content.encode())
            for name, content in self.generator.files.items()
        ]

    def reducer_start(self) -> Start | None:
        """The reducer, its files in the folder."""
        if self.generator.reducer is None:
            return None
        name = self.generator.name
        return Start(
            (*self.generator.reducer, "-out", f"{name}.json", "-rest", f"{name}.txt"),
            cwd=self.folder,
            cpus=self.generator.cpus,
            stdin=self.pipe,
            stderr=ToFile(self.folder / f"{name}.reduce.txt", STDERR_BYTES),
        )

    def start(self) -> Start:
        """The tool."""
        return Start(
            self.generator.argv,
            cwd=self.working_directory,
            cpus=self.generator.cpus,
            nofile=self.generator.nofile,
            stdout=ToFile(self.files["stdout"], STDOUT_BYTES) if self.generator.reducer is None else self.pipe,
            stderr=ToFile(self.files["stderr"], STDERR_BYTES),
        )

    def wait_for_tool(self) -> None:
        """Wait for its end. Raises HostError where it fails, or does not end in time."""
        process = _started(self.process)
        self.ended = process.wait(time_limit_s(self.generator.load))
        if self.ended is None:
            raise self._failure("did not end in time")
        if self.ended.exit_code != 0:
            self._blame_reducer()
            raise self._failure(f"failed with {self.ended}")
        for name, output in process.outputs().items():
            if output.error is not None:
                raise self._failure(f"could not write its {name}: {output.error}")
            if output.dropped and name == "stdout":
                raise self._failure(f"wrote {output.dropped} bytes more than is kept of its output")

    def wait_for_reducer(self) -> None:
        """Wait until it has written its file. Raises HostError where it does not."""
        if self.reducer is not None:
            ended = self.reducer.wait(REDUCE_S)
            if ended is None or ended.exit_code != 0:
                raise self._reducer_failure(ended)

    @property
    def started_s(self) -> float:
        """When it started, on the controller's `time.monotonic()`, by its host's clock."""
        return self.host.clock.here_s(_started(self.process).started_ns)

    def drove(self) -> GeneratorRun:
        """What is known of it now that it has ended."""
        process, ended, clock = _started(self.process), self.ended, self.host.clock
        if ended is None:
            raise AssertionError("it was not waited for")
        return GeneratorRun(
            generator=self.generator,
            ended=ended,
            started_s=self.started_s,
            ended_s=clock.here_s(ended.at_ns),
            late_s=process.late_s,
            clock_uncertainty_s=clock.uncertainty_s,
            files=self.files,
        )

    def _blame_reducer(self) -> None:
        """Raise HostError where the reducer ended first: a tool that nobody listens to fails, too."""
        ended = None if self.reducer is None else self.reducer.wait(0.1)
        if ended is not None and ended.exit_code != 0:
            raise self._reducer_failure(ended)

    def _failure(self, what: str) -> HostError:
        said = [deploy.last_words(self.host, self.files["stderr"])]
        if self.generator.reducer is None:
            said.append(deploy.last_words(self.host, self.files["stdout"]))
        why = next((words for words in said if words), None)
        return HostError(f"{self.generator} {what}", where=self.host.name, why=why)

    def _reducer_failure(self, ended: Ended | None) -> HostError:
        how = "did not end" if ended is None else f"failed with {ended}"
        why = deploy.last_words(self.host, self.folder / f"{self.generator.name}.reduce.txt")
        return HostError(f"the reducer of {self.generator} {how}", where=self.host.name, why=why)


@dataclass
class GeneratorGroup:
    """The generators of one host."""

    host: Host
    members: list[GeneratorProcess]
    folder: PurePosixPath
    reducing: list[Process] = field(default_factory=list)

    def prepare(self) -> None:
        """Bring their files, and start what reads their rows. Raises HostError."""
        files = [file for member in self.members for file in member.placed_files()]
        if files:
            self.host.files.place(files)
        for member in self.members:
            if not member.generator.files:
                self.host.files.mkdir(member.working_directory)
        reducers = {i: start for i, member in enumerate(self.members) if (start := member.reducer_start())}
        self.reducing = self.host.processes.start_all(reducers.values())
        for i, process in zip(reducers, self.reducing, strict=True):
            self.members[i].reducer = process

    def start(self, at_s: float | None) -> None:
        """Start them, at an instant of the controller's clock if one is given. Raises HostError."""
        started = self.host.processes.start_all([member.start() for member in self.members], at_s)
        for member, process in zip(self.members, started, strict=True):
            member.process = process

    def stop(self) -> None:
        """End what of them is there. Raises HostError."""
        tools = [member.process for member in self.members if member.process is not None]
        self.host.processes.stop([*tools, *self.reducing], grace_s=STOP_GRACE_S)


def time_limit_s(load: Load) -> float:
    """How long a generator with this load may take."""
    if load.duration_s is not None:
        return load.duration_s + GRACE_S
    per_s = SLOWEST_RPS if load.rate is None else min(load.rate, SLOWEST_RPS)
    return (load.requests or 0) / per_s + GRACE_S


def _started(process: Process | None) -> Process:
    if process is None:
        raise AssertionError("it was not started")
    return process
