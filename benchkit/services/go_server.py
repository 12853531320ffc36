"""The backend of the Go servers in `backends/`, which share their command line and an admin page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from pydantic import Field

from benchkit.document import SourceMap
from benchkit.errors import InputError, UnsupportedError
from benchkit.files import BACKENDS
from benchkit.models.base import CpuCount
from benchkit.models.protocol import HttpProtocol, Protocol
from benchkit.services.backend import Backend, RenderRequest
from benchkit.services.go_build import oldest_release, release_numbers
from benchkit.services.go_program import go_executable, go_process
from benchkit.services.server_options import (
    VARS,
    Release,
    ServerOptions,
    admin_endpoint,
    protocol_arguments,
    server_arguments,
)
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

H2C_RELEASE = (1, 24)
"""First Go whose net/http speaks HTTP/2 without TLS (release notes of Go 1.24)."""


class GoServer(Backend[GoOptionsT]):
    """A server whose source is the Go module `backends/<name>`: one executable, one process."""

    has_own_profiler = True

    def __init__(
        self,
        name: str,
        options: type[GoOptionsT],
        protocol: Protocol | None = None,
        protocols: frozenset[HttpProtocol] = frozenset({"http1"}),
    ) -> None:
        """Take the protocol of a server that speaks no HTTP, or those of HTTP that the server can speak."""
        self.name = name
        self.options = options
        self.protocols = protocols
        self._protocol = protocol

    def protocol(self, options: GoOptionsT) -> Protocol:
        """Return the protocol that the server speaks."""
        return self._protocol or options.protocol

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
        argv = (
            str(executable.path),
            *server_arguments(request),
            *_protocol_arguments(request),
            *self.arguments(request),
        )
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


def _protocol_arguments(request: RenderRequest[GoServerOptions]) -> list[str]:
    """Return the arguments for a protocol other than plain HTTP/1.1. Raises UnsupportedError for what Go cannot do."""
    options, tls = request.options, request.endpoint.tls
    release = options.go_version
    if options.protocol == "h2c" and release is not None and release_numbers(release) < H2C_RELEASE:
        raise UnsupportedError(f"protocol h2c: net/http of Go {release} does not speak it; 1.24 does")
    if tls is not None and tls.version == "1.3" and tls.ciphers is not None:
        raise UnsupportedError("tls.ciphers: Go lets no program choose the cipher suites of TLS 1.3")
    return protocol_arguments(request)
