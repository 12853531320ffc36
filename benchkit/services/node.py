"""Node's cluster module: a primary process and its workers, run by the host's own node or by a release that is brought."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Annotated, Literal

from pydantic import Field

from benchkit.errors import FieldError, UnsupportedError
from benchkit.resources import BACKENDS
from benchkit.services.backend import Admin, Backend, File, Process, Request, Service, ServiceOptions, ServicePlacement
from benchkit.services.go_build import release_numbers
from benchkit.services.go_server import EXECUTABLE, VARS, Release, ServerOptions, admin_endpoint, server_arguments
from benchkit.services.node_release import MACHINES, NodeProgram
from benchkit.units import counted

SOURCE = BACKENDS / "node"

OLDEST = (18,)
"""The first long-term release that has all that the server is written with (its `package.json`, engines)."""


class NodeOptions(ServerOptions):
    """A server on Node's cluster module."""

    node_version: Release | None = Field(
        default=None, description="Node release to bring, in full as 22.20.0; absent: the host's own node"
    )
    workers: Literal["all", "all-but-one"] | Annotated[int, Field(strict=True, gt=0, le=4096)] = Field(
        default="all", description="processes that serve: one for each of its CPUs, one fewer, or a number"
    )
    pin: Literal["none", "workers", "all"] = Field(
        default="none",
        description="processes that get a CPU each, in turn: the workers, or the primary after them, too",
    )
    scheduling: Literal["round-robin", "kernel"] = Field(
        default="round-robin", description="who accepts: the primary, which hands connections out, or the workers"
    )


def render(request: Request) -> Service:
    """A Node server: its sources, and the primary process, which starts the workers."""
    options, place = request.options, request.place
    if not isinstance(options, NodeOptions):
        raise TypeError(f"{request.name}: options of another backend")
    folder = place.folder / "node"
    brought = () if options.node_version is None else (_brought(options.node_version, place, folder),)
    node = str(brought[0].path) if brought else _own(place)
    cpus = place.take_cpus(options.cpus, "cpus")
    workers = _workers(options, place, len(cpus))
    argv = (node, str(folder / "main.js"), *server_arguments(request, options))
    argv += ("-workers", str(workers), "-pin", options.pin, "-scheduling", options.scheduling)
    return Service(
        name=request.name,
        backend="node",
        host=place.host,
        folder=place.folder,
        files=(*_sources(folder), *brought),
        checks=(),
        process=Process(argv, cpus, place.take_files(options.nofile)),
        endpoint=request.endpoint,
        admin=Admin("node", admin_endpoint(place), VARS),
        parallelism=workers,
    )


def _sources(folder: PurePosixPath) -> Iterator[File]:
    """The program without its tests."""
    for source in sorted(SOURCE.glob("*.js*")):
        yield File(folder / source.name, source.read_bytes())


def _brought(version: str, place: ServicePlacement, folder: PurePosixPath) -> File:
    """A release of Node for the host. Raises FieldError for one that is too old, UnsupportedError where there is none."""
    if release_numbers(version) < OLDEST:
        raise FieldError("node_version", f"found {version!r}; the server needs Node {OLDEST[0]} or newer")
    if place.goos != "linux" or place.goarch not in MACHINES:
        raise UnsupportedError(f"node_version: there is no Node to bring for {place.goos}/{place.goarch}")
    return File(folder / "bin" / f"node-{version}", NodeProgram(version, MACHINES[place.goarch]), EXECUTABLE)


def _own(place: ServicePlacement) -> str:
    """The host's own node. Raises FieldError for what is none, UnsupportedError for one that is too old."""
    program = place.program("node")
    if not program.version:
        raise FieldError(
            "backend",
            f"{program.path} on {place.host} does not tell its version: is it built for this host's architecture?",
            hint=program.named or "it is the node on the PATH there; the inventory may name another (programs)",
        )
    if program.version < OLDEST:
        found = ".".join(map(str, program.version))
        raise UnsupportedError(
            f"{place.host} has Node {found}; the server needs {OLDEST[0]} or newer",
            hint="the inventory may name another (programs: {node: …})",
        )
    return program.path


def _workers(options: NodeOptions, place: ServicePlacement, cpus: int) -> int:
    """How many workers there are. Raises UnsupportedError where one fewer is none."""
    if isinstance(options.workers, int):
        return options.workers
    if options.workers == "all":
        return cpus
    if cpus == 1:
        raise UnsupportedError(f"workers all-but-one: {place.host} has {counted(cpus, 'CPU')} for this service")
    return cpus - 1


def _programs(options: ServiceOptions) -> tuple[str, ...]:
    if not isinstance(options, NodeOptions):
        return ()
    node = ("node",) if options.node_version is None else ()
    return (*node, "taskset") if options.pin != "none" else node


NODE = Backend("node", NodeOptions, render, programs=_programs)
