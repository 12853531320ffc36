"""Running generators on their hosts: in slices that take turns by a timetable, or in one piece.

`run_slices` is the way in: it gives a `GeneratorRun` for each generator in each slice. Output is fetched later
(`benchkit.loadtools.generators.outputs`): no host works on it while load is measured.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Literal

from benchkit.agent.files import FileStore
from benchkit.agent.operations import ExitStatus, ProcessSpec, ScheduledProcess, ScheduledStart, ToFile
from benchkit.agent.timetable import Timetable
from benchkit.errors import HostError, HostStateError
from benchkit.hosts.connections import Hosts, run_on_hosts
from benchkit.hosts.files import PlacedFile
from benchkit.hosts.host import Host
from benchkit.loadtools.generators.generator import Generator, grace_s, time_limit_s
from benchkit.models.telemetry import generator_service
from benchkit.services import deploy

START_LEAD_S = 0.03
START_LEAD_ROUND_TRIPS = 20
START_LEAD_PROCESS_S = 0.001
"""Lead of a common start: the sum of a fixed time, round trips to the slowest host, and a time for each process."""

STOP_GRACE_S, SLICE_GRACE_S = 1.0, 0.1
"""Time that a tool has to print its results once it is told to end: less in slices, as others are measured then."""

PRIVATE = 0o600
"""Mode of an input file with a secret."""

STDOUT_BYTES = 64 << 20
"""Limit of a tool's output: wrk's histogram of a million different times takes 10 MB."""
STDERR_BYTES = 1 << 20

OutputKind = Literal["stdout", "stderr", "reduction"]
"""Kinds of files that a generator writes: its text, its error messages, and the reducer's file."""

SUFFIXES: Mapping[OutputKind, str] = {"stdout": "txt", "stderr": "stderr.txt", "reduction": "json"}
"""Suffixes of these files."""


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
        """Return how to start the tool; `stdout_bytes` limits its output, but not a file of rows."""
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
    late_s: float
    """Delay of the start after the planned instant."""
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
        """Time that it measured: to its own end, or to the end of its window where it overran."""
        window_s = self.generator.load.duration_s
        took_s = self.ended_s - self.started_s
        return window_s if self.overran and window_s is not None else took_s

    @property
    def measured_until_s(self) -> float:
        """Instant at which its measured time ends."""
        return self.started_s + self.measured_s


@dataclass(frozen=True)
class PlannedSlice:
    """A slice of one cell, whose generators start at one instant; a window in one piece is a single slice."""

    name: str
    """Name of its files, unique in their folder."""
    cell: str
    """Name of the folder for the input files of its cell's generators."""
    generators: tuple[Generator, ...]
    at_s: float = 0.0
    """Start of the generators, in seconds after the start of the first slice."""
    window_end_s: float | None = None
    """End of its window, from the same moment; None: no slice follows, and its generators have their full time
    limit."""

    def placed(self, folder: PurePosixPath) -> list[PlacedGenerator]:
        """Return its generators with the places of their files in the folder of the load."""
        return [
            PlacedGenerator(each, folder / self.cell / each.name, folder / f"{self.name}.{each.number}")
            for each in self.generators
        ]

    def limit_s(self, generator: Generator) -> float:
        """Return the instant at which a generator is ended if it has not ended by itself."""
        if self.window_end_s is None:
            return self.at_s + time_limit_s(generator.load)
        return self.window_end_s + grace_s(generator.load)

    def start(self, host: Host, placed: PlacedGenerator, began_s: float) -> ScheduledStart:
        """Return how its host starts a generator; the first slice begins at `began_s` of `time.monotonic()`."""
        is_last = self.window_end_s is None
        return ScheduledStart(
            service=generator_service(placed.generator.number),
            process=placed.tool_start(STDOUT_BYTES if is_last else None),
            at_ns=host.clock.to_host_ns(began_s + self.at_s),
            limit_ns=host.clock.to_host_ns(began_s + self.limit_s(placed.generator)),
            grace_s=STOP_GRACE_S if is_last else SLICE_GRACE_S,
        )


def place_inputs(hosts: Hosts, slices: Iterable[PlannedSlice], folder: PurePosixPath) -> None:
    """Make the working directories of generators on their hosts, and copy their files there. Raises HostError."""
    by_directory = {  # the slices of a generator share one
        (placed.generator.host, placed.working_directory): placed
        for planned in slices
        for placed in planned.placed(folder)
    }

    def place(host: Host) -> None:
        inputs = {path: placed.input_files() for (name, path), placed in by_directory.items() if name == host.name}
        if placed_files := [file for files in inputs.values() for file in files]:
            host.files.place(placed_files)
        for directory, files in inputs.items():
            if not files:
                host.call(FileStore.mkdir, directory)

    run_on_hosts([hosts[name] for name in dict.fromkeys(name for name, _ in by_directory)], place)


def start_of_load(hosts: Iterable[Host], slices: Sequence[PlannedSlice]) -> float:
    """Return the start of the first slice on `time.monotonic()`: late enough for every host to receive it first.

    A single process has no common start to wait for, and starts at once.
    """
    processes = sum(len(each.generators) for each in slices)
    if processes == 1:
        return time.monotonic()
    slowest_round_trip_s = max(2 * host.clock.uncertainty_s for host in hosts)
    lead_s = START_LEAD_S + START_LEAD_ROUND_TRIPS * slowest_round_trip_s + START_LEAD_PROCESS_S * processes
    return time.monotonic() + lead_s


def run_slices(
    hosts: Hosts, slices: Sequence[PlannedSlice], folder: PurePosixPath, began_s: float
) -> list[list[GeneratorRun]]:
    """Run slices, in the order of their instants, and return the record of each of their generators.

    The first begins at `began_s` on the controller's `time.monotonic()`. Their input files are in `folder` on the load
    hosts already (`place_inputs`). Raises HostError where a host is lost, a tool cannot be started, or a disk was full;
    all that runs is ended then. A tool that fails in a slice for another reason is not an error.
    """
    starts = [(each, placed) for each in slices for placed in each.placed(folder)]
    by_host = {
        name: [start for start in starts if start[1].generator.host == name]
        for name in dict.fromkeys(placed.generator.host for _, placed in starts)
    }

    def run_on(name: str) -> list[GeneratorRun]:
        host, on_host = hosts[name], by_host[name]
        ended = host.processes.run_timetable([each.start(host, placed, began_s) for each, placed in on_host])
        return [
            _run_of(host, placed, each, began_s + planned.at_s, planned.limit_s(placed.generator) - planned.at_s)
            for (planned, placed), each in zip(on_host, ended, strict=True)
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
                    hosts[name].call(Timetable.stop)
            raise
        runs = {name: iter(future.result()) for name, future in futures.items()}
    return [[next(runs[generator.host]) for generator in each.generators] for each in slices]


def _run_of(
    host: Host, placed: PlacedGenerator, scheduled: ScheduledProcess, planned_s: float, limit_s: float
) -> GeneratorRun:
    """Return the record of a generator, which was to start at `planned_s` of the controller's `time.monotonic()`.

    Raises HostStateError where its host had no room for its output.
    """
    ended = scheduled.process.ended
    started_s = host.clock.to_controller_s(scheduled.process.started_ns)
    return GeneratorRun(
        placed,
        started_s=started_s,
        ended=ended,
        ended_s=started_s if ended is None else host.clock.to_controller_s(ended.at_ns),
        late_s=max(0.0, started_s - planned_s),
        limit_s=limit_s,
        overran=scheduled.overran,
        failure=_failure_of(host, placed, scheduled, limit_s),
    )


def _failure_of(host: Host, placed: PlacedGenerator, scheduled: ScheduledProcess, limit_s: float) -> str | None:
    """Return why the output of a generator cannot be used, with the last lines that it printed.

    Raises HostStateError where the disk had no room for the output.
    """
    generator, ended, outputs = placed.generator, scheduled.process.ended, scheduled.process.outputs
    for name, output in outputs.items():
        if output.is_host_state:
            raise HostStateError(f"{generator} could not write its {name}", where=host.name, why=output.error)
    if ended is None or (scheduled.overran and generator.load.duration_s is None):
        what = f"did not end within {limit_s:g} s"
    elif ended.exit_code != 0 and not scheduled.overran:
        what = f"failed with {ended}"
    elif errors := [f"{name}: {output.error}" for name, output in outputs.items() if output.error is not None]:
        what = f"could not write its {errors[0]}"
    elif (stdout := outputs.get("stdout")) is not None and stdout.dropped:
        what = f"printed {stdout.dropped} bytes more than the limit of {STDOUT_BYTES}"
    else:
        return None
    kinds: list[OutputKind] = ["stderr"] if generator.reducer else ["stderr", "stdout"]
    printed = (deploy.last_log_lines(host, placed.output(kind)) for kind in kinds)
    why = next((lines for lines in printed if lines), None)
    return ": ".join(filter(None, (f"{generator} {what}", why)))
