"""A load as the generators that put it on: each one process of the tool, as data. Planned here, carried out by `drive`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import PurePosixPath

from benchkit.errors import UnsupportedError
from benchkit.load.load_shares import shares, warm_up
from benchkit.load.tools.registry import get_tool
from benchkit.models.load import Load
from benchkit.resources import BACKENDS
from benchkit.services.backend import File, GoSource, ServicePlacement
from benchkit.units import counted

REDUCER = BACKENDS / "reduce"
EXECUTABLE = 0o755


@dataclass(frozen=True)
class Generator:
    """One process of a load tool, and the reducer beside it where the tool prints rows."""

    number: int
    """From 1, over all hosts of the load."""
    of: int
    """How many there are."""
    host: str
    tool: str
    load: Load
    """Its share."""
    argv: tuple[str, ...]
    files: Mapping[str, str]
    """Name → content, for its working directory."""
    programs: tuple[File, ...]
    """What has to be built for it and brought to its host."""
    reducer: tuple[str, ...] | None
    """The beginning of the reducer's command; None: the tool prints no rows."""
    cpus: tuple[int, ...]
    nofile: int

    @property
    def name(self) -> str:
        """`hey.load2.3`: how its files are called."""
        return f"{self.tool}.{self.host}.{self.number}"

    def __str__(self) -> str:
        """For messages: `hey`, or `hey, generator 3 of 8,`."""
        return self.tool if self.of == 1 else f"{self.tool}, generator {self.number} of {self.of},"


def generators(load: Load, url: str, places: Sequence[ServicePlacement]) -> tuple[Generator, ...]:
    """The generators of a load on these hosts: `processes` of it on each, the load divided among all.

    A place's folder is where programs that benchkit builds stand on its host. The load must be without objections.
    Raises UnsupportedError where each is to have CPUs of its own and a host has too few.
    """
    count = load.processes * len(places)
    hosts = [each for place in places for each in (_apart if load.pin else _shared)(place, load.processes)]
    parts = shares(load, count)
    return tuple(
        _generator(number, count, part, url, place)
        for number, (part, place) in enumerate(zip(parts, hosts, strict=True), 1)
    )


def _shared(place: ServicePlacement, processes: int) -> list[ServicePlacement]:
    return [place] * processes


def _apart(place: ServicePlacement, processes: int) -> list[ServicePlacement]:
    """The place for each process, its CPUs divided among them: neighbours together, the first get one more."""
    have = len(place.cpus)
    if have < processes:
        raise UnsupportedError(f"pin: {place.host} has {counted(have, 'CPU')} for {processes} processes")
    ends = [(number * have + processes - 1) // processes for number in range(processes + 1)]
    return [replace(place, cpus=place.cpus[first:end]) for first, end in pairwise(ends)]


def warming_up(generator: Generator, url: str) -> Generator:
    """The same generator for the warm-up: nothing is recorded."""
    tool, load = get_tool(generator.tool), warm_up(generator.load)
    argv = (generator.argv[0], *tool.argv(load, url)[1:])
    return replace(generator, load=load, argv=argv, files=tool.files(load, url), reducer=None)


def lasting(generator: Generator, window: Mapping[str, float | None], url: str) -> Generator:
    """The same generator with another measured window; `window` are the fields of its load that differ."""
    tool, load = get_tool(generator.tool), generator.load.model_copy(update=dict(window))
    argv = (generator.argv[0], *tool.command(load, url)[1:])
    return replace(generator, load=load, argv=argv, files=tool.files(load, url))


def _generator(number: int, count: int, load: Load, url: str, place: ServicePlacement) -> Generator:
    tool = get_tool(load.tool)
    argv = tool.command(load, url)
    programs = []
    if tool.program is not None:
        path = place.folder / tool.binary
        argv[0] = str(path)
        source = GoSource(tool.program.module, place.goos, place.goarch, package=tool.program.package)
        programs.append(File(path, source, EXECUTABLE))
    reducer = None
    if tool.rows is not None and load.histogram:
        path = PurePosixPath(place.folder / "reduce")
        reducer = (str(path), "-tool", tool.rows)
        programs.append(File(path, GoSource(REDUCER, place.goos, place.goarch), EXECUTABLE))
    return Generator(
        number=number,
        of=count,
        host=place.host,
        tool=tool.name,
        load=load,
        argv=tuple(argv),
        files=tool.files(load, url),
        programs=tuple(programs),
        reducer=reducer,
        cpus=place.cpus,
        nofile=place.nofile,
    )
