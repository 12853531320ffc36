"""Node's cluster module: a primary process and its workers, run by the host's own node."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Annotated, Literal

from pydantic import Field

from benchkit.errors import FieldError, UnsupportedError
from benchkit.resources import BACKENDS
from benchkit.stack.backend import Admin, Backend, File, Place, Process, Request, Service, ServiceOptions
from benchkit.stack.goserver import VARS, ServerOptions, admin_endpoint, server_arguments
from benchkit.units import counted

SOURCE = BACKENDS / "node"

OLDEST = (18,)
"""The first long-term release that has all that the server is written with (its `package.json`, engines)."""


class NodeOptions(ServerOptions):
    """A server on Node's cluster module."""

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
    node = _node(place)
    cpus = place.take_cpus(options.cpus, "cpus")
    workers = _workers(options, place, len(cpus))
    folder = place.folder / "node"
    argv = (node, str(folder / "main.js"), *server_arguments(request, options))
    argv += ("-workers", str(workers), "-pin", options.pin, "-scheduling", options.scheduling)
    return Service(
        name=request.name,
        backend="node",
        host=place.host,
        folder=place.folder,
        files=tuple(_sources(folder)),
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


def _node(place: Place) -> str:
    """The host's node. Raises FieldError for what is none, UnsupportedError for one that is too old."""
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


def _workers(options: NodeOptions, place: Place, cpus: int) -> int:
    """How many workers there are. Raises UnsupportedError where one fewer is none."""
    if isinstance(options.workers, int):
        return options.workers
    if options.workers == "all":
        return cpus
    if cpus == 1:
        raise UnsupportedError(f"workers all-but-one: {place.host} has {counted(cpus, 'CPU')} for this service")
    return cpus - 1


def _programs(options: ServiceOptions) -> tuple[str, ...]:
    pinned = isinstance(options, NodeOptions) and options.pin != "none"
    return ("node", "taskset") if pinned else ("node",)


NODE = Backend("node", NodeOptions, render, programs=_programs)
