"""The backend of the Go servers in `backends/`, which share their command line and an admin page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from pydantic import Field

from benchkit.document import SourceMap
from benchkit.errors import InputError
from benchkit.models.cpus import CpuCount
from benchkit.resources import BACKENDS
from benchkit.services.backend import Backend, RenderRequest
from benchkit.services.endpoint import Protocol
from benchkit.services.go_build import oldest_release, release_numbers
from benchkit.services.go_program import go_executable, go_process
from benchkit.services.server_options import VARS, Release, ServerOptions, admin_endpoint, server_arguments
from benchkit.services.service import AdminPage, Service


class GoServerOptions(ServerOptions):
    """Options of every Go server."""

    gomaxprocs: CpuCount = Field(default="all", description="threads that run Go code; all: one for each of its CPUs")
    go_version: Release | None = Field(
        default=None,
        description="Go release to build with, in full as 1.24.0; absent: the one its module pins",
        examples=["1.24.0"],
    )


GoOptionsT = TypeVar("GoOptionsT", bound=GoServerOptions)


class GoServer(Backend[GoOptionsT]):
    """A server whose source is the Go module `backends/<name>`: one executable, one process."""

    has_own_profiler = True

    def __init__(self, name: str, options: type[GoOptionsT], protocol: Protocol = "http") -> None:
        self.name = name
        self.options = options
        self._protocol = protocol

    def protocol(self, options: GoOptionsT) -> Protocol:
        """Return the protocol that the server speaks."""
        del options
        return self._protocol

    def arguments(self, request: RenderRequest[GoOptionsT]) -> Sequence[str]:
        """Return the arguments that this server has in addition to those of every server."""
        del request
        return ()

    def resolve(self, options: GoOptionsT, source: SourceMap) -> GoOptionsT:
        """Return the options unchanged if their Go release compiles the module. Raises InputError naming the field."""
        wanted, oldest = options.go_version, oldest_release(BACKENDS / self.name)
        if wanted is not None and release_numbers(wanted) < release_numbers(oldest):
            message = f"found {wanted!r}; {self.name} needs Go {oldest} or newer"
            raise InputError(source.fault(("go_version",), message))
        return options

    def render(self, request: RenderRequest[GoOptionsT]) -> Service:
        """Return the server."""
        options, place = request.options, request.place
        executable = go_executable(request, self.name, BACKENDS / self.name, go_version=options.go_version)
        argv = (str(executable.path), *server_arguments(request), *self.arguments(request))
        cpus = place.select_cpus(options.cpus, "cpus")
        threads = len(cpus) if options.gomaxprocs == "all" else options.gomaxprocs
        return Service(
            name=request.name,
            backend=self.name,
            host=place.host,
            folder=place.folder,
            files=(executable,),
            checks=(),
            process=go_process(request, argv, threads=threads),
            endpoint=request.endpoint,
            admin=AdminPage("expvar", admin_endpoint(place), VARS),
            parallelism=threads,
        )
