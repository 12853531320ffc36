"""Go programs of benchkit's own as parts of a service: the executable, and the process that runs it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from benchkit.services.backend import OptionsT, RenderRequest
from benchkit.services.service import File, GoSource, Process

EXECUTABLE = 0o755


def go_executable(
    request: RenderRequest[OptionsT],
    program: str,
    module: Path,
    *,
    package: str = ".",
    go_version: str | None = None,
) -> File:
    """Return the executable `program` in the service's folder, to be built from a Go module for the service's host."""
    place = request.place
    source = GoSource(module, place.goos, place.goarch, go_version, package)
    return File(place.folder / program, source, EXECUTABLE)


def go_process(
    request: RenderRequest[OptionsT],
    argv: tuple[str, ...],
    *,
    threads: int | None = None,
    env: Mapping[str, str] | None = None,
) -> Process:
    """Return the process of a Go program on the service's CPUs; `threads` is GOMAXPROCS, by default one for each CPU.

    Raises UnsupportedError where the host has too few CPUs or open files.
    """
    cpus = request.place.select_cpus(request.options.cpus, "cpus")
    environment = {**(env or {}), "GOMAXPROCS": str(threads or len(cpus))}
    return Process(argv, cpus, request.place.file_limit(request.options.nofile), environment)
