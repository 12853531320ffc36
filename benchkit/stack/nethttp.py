"""Go's net/http on its own."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from benchkit.resources import BACKENDS
from benchkit.scenario.model import CpuCount
from benchkit.stack.backend import Backend, File, GoSource, Process, Request, Service, ServiceOptions


class NetHttpOptions(ServiceOptions):
    """A net/http server that answers every request with the same bytes."""

    gomaxprocs: CpuCount = Field(default="all", description="threads that run Go code; all: one for each of its CPUs")
    body_size: Annotated[int, Field(strict=True, ge=0, le=1 << 30)] | None = Field(
        default=None, description="bytes of body; absent: the 12 bytes of `Hello World\\n`"
    )
    work: Annotated[str, StringConstraints(pattern=r"^(none|loop:(100000000|[1-9][0-9]{0,7}))$")] = Field(
        default="none", description="none, or loop:N to add the numbers below N (at most 10^8) for each request"
    )
    go_version: Annotated[str, StringConstraints(pattern=r"^1\.[0-9]+\.[0-9]+$")] | None = Field(
        default=None, description="Go release to build with, in full as 1.24.0; absent: the one its module pins"
    )
    fault: tuple[str, ...] = Field(default=(), description="faults to inject, for tests of the checks")


def render(request: Request) -> Service:
    """A Go server: one executable built on the controller, one process."""
    options, place = request.options, request.place
    if not isinstance(options, NetHttpOptions):
        raise TypeError(f"{request.name}: options of another backend")
    binary = place.folder / "nethttp"
    cpus = place.take_cpus(options.cpus, "cpus")
    threads = len(cpus) if options.gomaxprocs == "all" else options.gomaxprocs
    argv = [str(binary), "-listen", request.endpoint.authority, "-work", options.work]
    if options.body_size is not None:
        argv += ["-body-size", str(options.body_size)]
    for fault in options.fault:
        argv += ["-inject-fault", fault]
    go = GoSource(BACKENDS / "nethttp", place.goos, place.goarch, options.go_version)
    return Service(
        name=request.name,
        backend="nethttp",
        host=place.host,
        folder=place.folder,
        files=(File(binary, go, 0o755),),
        checks=(),
        process=Process(tuple(argv), cpus, place.nofile, {"GOMAXPROCS": str(threads)}),
        endpoint=request.endpoint,
    )


NETHTTP = Backend("nethttp", NetHttpOptions, render)
