"""Running slices of load on the load hosts: short loads at planned instants, one after the other.

`run_slices` is the way in. Everything that costs time on a host is done before the first slice or after the last: each
tool writes its rows to a file, which a reducer reads when no load is measured any more. The time after the last slice
hardly grows with their number: one reducer reads all slices of a generator, one archive has all outputs of a host.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass
from pathlib import PurePosixPath

from benchkit.agent.operations import ExitStatus
from benchkit.errors import HostError
from benchkit.hosts.connections import Hosts
from benchkit.hosts.host import Host
from benchkit.hosts.processes import EndedProcess, PlannedStart, ProcessSpec, ToFile
from benchkit.loadtools.generators.execution import place_inputs
from benchkit.loadtools.generators.generator import Generator
from benchkit.loadtools.generators.limits import grace_s
from benchkit.loadtools.generators.rows import RowFiles, reduce_rows, require_room
from benchkit.models.telemetry import generator_service
from benchkit.services import deploy

SUFFIXES = ("txt", "stderr.txt", "json")
ARCHIVE = "outputs.tar"


@dataclass(frozen=True)
class PlannedSlice:
    """A slice of one cell: its generators, which are started at one instant."""

    name: str
    """Name of its files, unique in the block."""
    cell: str
    """Name of the folder for the input files of its cell's generators."""
    generators: tuple[Generator, ...]
    at_s: float
    """Start of the generators, on the controller's `time.monotonic()`."""
    window_end_s: float
    """End of its window, likewise."""


@dataclass(frozen=True)
class SliceRun:
    """Record of one generator in one slice."""

    generator: Generator
    process: EndedProcess
    failure: str | None
    """Reason why its output cannot be used; None where it ended well."""
    output: Mapping[str, bytes]
    """Its files by suffix: `txt`, `stderr.txt` and `json`, without empty ones."""

    @property
    def ended(self) -> ExitStatus | None:
        """End of the process; None where it could not be ended."""
        return self.process.ended


@dataclass(frozen=True)
class _Start:
    """One generator in one slice."""

    slice: PlannedSlice
    generator: Generator
    folder: PurePosixPath

    @property
    def working_directory(self) -> PurePosixPath:
        return self.folder / self.slice.cell / self.generator.name

    @property
    def rows(self) -> PurePosixPath:
        return self.folder / f"{self.slice.name}.{self.generator.number}"

    def path(self, suffix: str) -> PurePosixPath:
        return self.rows.with_name(f"{self.rows.name}.{suffix}")

    def planned(self, host: Host) -> PlannedStart:
        spec = ProcessSpec(
            self.generator.command,
            cwd=self.working_directory,
            cpus=self.generator.cpus,
            nofile=self.generator.nofile,
            stdout=ToFile(self.path("txt") if self.generator.reducer is None else self.rows, None),
            stderr=ToFile(self.path("stderr.txt"), None),
        )
        at_ns, limit_s = host.clock.to_host_ns(self.slice.at_s), self.slice.window_end_s + grace_s(self.generator.load)
        return PlannedStart(generator_service(self.generator.number), spec, at_ns, host.clock.to_host_ns(limit_s))


def prepare_slices(hosts: Hosts, cells: Mapping[str, Sequence[Generator]], folder: PurePosixPath) -> None:
    """Copy the input files of the generators of each cell to their hosts, into `folder`. Raises HostError."""
    for cell, generators in cells.items():
        for generator in generators:
            directory, files = folder / cell / generator.name, hosts[generator.host].files
            files.mkdir(directory)
            if inputs := place_inputs(generator, directory):
                files.place(inputs)


def run_slices(hosts: Hosts, slices: Sequence[PlannedSlice], folder: PurePosixPath) -> list[list[SliceRun]]:
    """Run slices, in the order of their instants, and return the record of each of their generators.

    Their files are in `folder` on the load hosts. Raises HostError where a host is lost, a tool cannot be started (the
    rest is not started then), or a disk was full. A tool that fails in a slice for another reason is not an error.
    """
    starts = [_Start(each, generator, folder) for each in slices for generator in each.generators]
    by_host = {
        name: [start for start in starts if start.generator.host == name]
        for name in dict.fromkeys(start.generator.host for start in starts)
    }

    def run_on(name: str) -> list[SliceRun]:
        host, on_host = hosts[name], by_host[name]
        ended = host.processes.run_timetable([start.planned(host) for start in on_host])
        return _collect(host, list(zip(on_host, ended, strict=True)))

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


def _collect(host: Host, ended: Sequence[tuple[_Start, EndedProcess]]) -> list[SliceRun]:
    """Reduce the rows of all slices on one host, and fetch the outputs."""
    for start, process in ended:
        require_room(host, start.generator, process.ended, "at the end of a slice")
    starts = [start for start, _ in ended]
    failures = [_failure(host, start, process) for start, process in ended]
    _reduce(host, [start for start, failure in zip(starts, failures, strict=True) if not failure])
    outputs = _read_outputs(host, starts)
    return [
        SliceRun(start.generator, process, failure, output)
        for (start, process), failure, output in zip(ended, failures, outputs, strict=True)
    ]


def _reduce(host: Host, starts: Iterable[_Start]) -> None:
    """Reduce the rows of slices, with one process for all slices of a cell's generator. Raises HostError."""
    by_generator: dict[PurePosixPath, list[_Start]] = {}
    for start in starts:
        if start.generator.reducer is not None:
            by_generator.setdefault(start.working_directory, []).append(start)
    files = [
        RowFiles(group[0].generator, group[0].folder, tuple(start.rows.name for start in group), folder)
        for folder, group in by_generator.items()
    ]
    reduce_rows(host, files)


def _read_outputs(host: Host, starts: Sequence[_Start]) -> list[dict[str, bytes]]:
    """Return the files of each slice by suffix, without empty ones. Raises HostError."""
    folder = starts[0].folder
    sizes = host.files.list(folder)
    names = [path.name for start in starts for suffix in SUFFIXES if sizes.get((path := start.path(suffix)).name)]
    host.files.archive(folder / ARCHIVE, names)
    with tarfile.open(fileobj=io.BytesIO(host.files.read(folder / ARCHIVE))) as archive:
        contents = {member.name: file.read() for member in archive if (file := archive.extractfile(member))}
    return [
        {suffix: contents[name] for suffix in SUFFIXES if (name := start.path(suffix).name) in contents}
        for start in starts
    ]


def _failure(host: Host, start: _Start, process: EndedProcess) -> str | None:
    if process.ended is None:
        return f"{start.generator} did not end"
    if process.ended.exit_code == 0 or process.overran:
        return None
    printed = deploy.last_log_lines(host, start.path("stderr.txt"))
    return ": ".join(filter(None, (f"{start.generator} failed with {process.ended}", printed)))
