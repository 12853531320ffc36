"""How a service is profiled: by its own profiler where it has one, else by perf."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Literal

from benchkit.models.profile import Profiler
from benchkit.services.backend import Backend, Service
from benchkit.services.go_server import GoServerOptions

PERF = "perf"
"""The program that hosts need for what has no profiler of its own."""

PPROF = "/debug/pprof/profile"
"""Where net/http/pprof answers with a profile of the CPU, after the `seconds` (a whole number) that it is asked for."""

CallGraph = Literal["fp", "dwarf"]
"""How perf finds the callers of a function: by frame pointers, or by the tables that exceptions are unwound with."""

_COMPILES_AT_RUN_TIME = frozenset({"node"})
"""Backends whose machine code has frame pointers and no tables, and names in a map that they have to be told to write."""


def profiles_itself(backend: Backend) -> bool:
    """Whether services of a backend have a profiler of their own: our Go servers have."""
    return issubclass(backend.options, GoServerOptions)


def profiler_of(service: Service) -> Profiler:
    """What a profile of the service is taken with."""
    return "pprof" if service.admin is not None and service.admin.kind == "expvar" else "perf"


def call_graph_of(service: Service) -> CallGraph:
    """How perf walks the stacks of the service: distributions build native programs without frame pointers."""
    return "fp" if service.backend in _COMPILES_AT_RUN_TIME else "dwarf"


def writes_map(service: Service) -> bool:
    """Whether the service, when profiled, leaves a map of compiled code for perf (`/tmp/perf-PID.map`)."""
    return service.backend in _COMPILES_AT_RUN_TIME and profiler_of(service) == "perf"


def to_be_profiled(service: Service) -> Service:
    """The service as it is started where it will be profiled: V8 tells perf the names of what it compiles."""
    if not writes_map(service):
        return service
    program, *rest = service.process.argv
    return replace(service, process=replace(service.process, argv=(program, "--perf-basic-prof", *rest)))


def needs_perf(services: Iterable[Service]) -> tuple[Service, ...]:
    """Those that only perf can profile."""
    return tuple(service for service in services if profiler_of(service) == "perf")
