"""The profiler of a service: its own where it has one, else perf."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Literal

from benchkit.models.profile import Profiler
from benchkit.services.service import Service

PERF = "perf"
"""Program that a host needs to profile services without a profiler of their own."""

PERF_MAPS = "perf-maps"
"""Folder below that of a service in which its processes start that write maps for perf."""

PPROF_PATH = "/debug/pprof/profile"
"""Path at which net/http/pprof returns a CPU profile; the parameter `seconds` (a whole number) is its length."""

CallGraph = Literal["fp", "dwarf"]
"""The way in which perf finds the callers of a function: frame pointers, or unwind tables."""


def profiler_of(service: Service) -> Profiler:
    """Return the profiler that a service is profiled with."""
    return "pprof" if service.admin is not None and service.admin.kind == "expvar" else "perf"


def call_graph_of(service: Service) -> CallGraph:
    """Return the way in which perf walks the stacks of a service.

    Code compiled at run time has frame pointers and no unwind tables; native programs of distributions lack frame
    pointers.
    """
    return "dwarf" if service.perf_map_launcher is None else "fp"


def writes_perf_map(service: Service) -> bool:
    """Return True if the profiled service writes a map of compiled functions for perf (`/tmp/perf-PID.map`)."""
    return service.perf_map_launcher is not None and profiler_of(service) == "perf"


def with_perf_map(service: Service) -> Service:
    """Return the service as it is started to be profiled: by the program that makes it write a map, if it has one.

    It starts in a folder of its own, where its processes leave their ids, and V8 its logs.
    """
    if service.perf_map_launcher is None or not writes_perf_map(service):
        return service
    argv = (str(service.perf_map_launcher), *service.process.argv)
    return replace(service, process=replace(service.process, argv=argv, cwd=perf_map_folder(service)))


def perf_map_folder(service: Service) -> PurePosixPath:
    """Return the folder in which a service that writes maps for perf is started."""
    return service.folder / PERF_MAPS


def needs_perf(services: Iterable[Service]) -> tuple[Service, ...]:
    """Return the services that only perf can profile."""
    return tuple(service for service in services if profiler_of(service) == "perf")
