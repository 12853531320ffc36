"""The Go servers in `backends/`, which share their command line and an admin page: a declaration for each.

`go_executable` and `go_process` serve Go programs of other backends too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, TypeVar

from pydantic import Field, PositiveInt

from benchkit.errors import FieldError, UnsupportedError
from benchkit.files import BACKENDS
from benchkit.models.base import CpuCount, Name
from benchkit.models.protocol import HttpProtocol, Protocol
from benchkit.services.backend import Backend, OptionsT, RenderRequest
from benchkit.services.go_build import GoSource
from benchkit.services.placement import ServicePlacement
from benchkit.services.server_options import (
    VARS,
    BodySize,
    ServerOptions,
    admin_endpoint,
    protocol_arguments,
    server_arguments,
)
from benchkit.services.service import EXECUTABLE, AdminPage, Service, ServiceFile, ServiceProcess


def go_executable(place: ServicePlacement, program: str, module: Path, package: str = ".") -> ServiceFile:
    """Return the executable `program` in the folder of a place, to be built from a Go module for its host."""
    return ServiceFile(place.folder / program, GoSource(module, place.goos, place.goarch, package), EXECUTABLE)


def go_process(
    request: RenderRequest[OptionsT],
    argv: tuple[str, ...],
    *,
    threads: int | None = None,
    env: Mapping[str, str] | None = None,
) -> ServiceProcess:
    """Return the process of a Go program on the service's CPUs; `threads` is GOMAXPROCS, by default one for each CPU.

    Raises UnsupportedError where the host has too few CPUs.
    """
    cpus = request.place.select_cpus(request.options.cpus, "cpus")
    environment = {**(env or {}), "GOMAXPROCS": str(threads or len(cpus))}
    return ServiceProcess(argv, cpus, request.place.nofile, environment)


class GoServerOptions(ServerOptions):
    """Options of every Go server."""

    gomaxprocs: CpuCount = Field(default="all", description="threads that run Go code; all: one for each of its CPUs")


GoOptionsT = TypeVar("GoOptionsT", bound=GoServerOptions)


class GoServer(Backend[GoOptionsT]):
    """A server whose source is the Go module `backends/<name>`: one executable, one process."""

    has_own_profiler = True

    def __init__(
        self,
        name: str,
        options: type[GoOptionsT],
        *,
        protocol: Protocol | None = None,
        protocols: frozenset[HttpProtocol] = frozenset({"http1"}),
        modules: Mapping[HttpProtocol, Path] | None = None,
        arguments: Callable[[RenderRequest[GoOptionsT]], Sequence[str]] | None = None,
    ) -> None:
        """Take the `protocol` of a server that speaks no HTTP, or the `protocols` of HTTP that a server can speak.

        `modules` has a Go module for each protocol that `backends/<name>` does not speak itself. `arguments` returns
        the server's arguments beyond the arguments of every server.
        """
        self.name = name
        self.options = options
        self.protocols = protocols
        self.own_protocol = protocol
        self._arguments = arguments
        self._modules = modules or {}

    def render(self, request: RenderRequest[GoOptionsT]) -> Service:
        """Return the server. Raises UnsupportedError for what Go cannot do."""
        options, place, tls = request.options, request.place, request.endpoint.tls
        if tls is not None and tls.version == "1.3" and tls.ciphers is not None:
            raise UnsupportedError("tls.ciphers: Go lets no program choose the cipher suites of TLS 1.3")
        executable = go_executable(place, self.name, self._modules.get(options.protocol, BACKENDS / self.name))
        argv = (
            str(executable.path),
            *server_arguments(request),
            *protocol_arguments(request),
            *(() if self._arguments is None else self._arguments(request)),
        )
        cpus = place.select_cpus(options.cpus, "cpus")
        threads = len(cpus) if options.gomaxprocs == "all" else options.gomaxprocs
        return Service(
            name=request.name,
            backend=self.name,
            host=place.host,
            folder=place.folder,
            files=(executable,),
            process=go_process(request, argv, threads=threads),
            endpoint=request.endpoint,
            admin=AdminPage("expvar", admin_endpoint(place), VARS),
            parallelism=threads,
        )


class GoStringOptions(GoServerOptions):
    """Options of a net/http server that writes a string."""

    body_size: BodySize | None = Field(default=2, description="bytes of the string")


class FileServerOptions(GoServerOptions):
    """Options of a net/http server of a file, or of a folder's listing."""

    body_size: BodySize | None = Field(default=None, description="bytes of each file; absent: 12", examples=[1024])
    listing: Annotated[int, Field(strict=True, ge=1, le=100_000)] | None = Field(
        default=None,
        description="serve the listing of a folder with this many files instead of one file",
        examples=[100],
    )


class FastHttpOptions(GoServerOptions):
    """Options of a server on fasthttp."""

    concurrency: PositiveInt | None = Field(
        default=None,
        description="connections that it serves at a time (Server.Concurrency), others get status 503; absent: 262144",
        examples=[1000],
    )


class PgHttpOptions(GoServerOptions):
    """Options of a server whose handlers ask a database."""

    database: Name = Field(description="the service of backend `postgres` that it asks", examples=["database"])
    pool: Annotated[int, Field(strict=True, ge=1, le=10_000)] = Field(
        default=8, description="connections to the database, all open before the first request"
    )
    rows: Annotated[int, Field(strict=True, ge=1, le=10_000_000)] = Field(
        default=10_000, description="rows of the table that it creates in the database at its start"
    )


class PgHttpServer(GoServer[PgHttpOptions]):
    """A server whose handlers ask a PostgreSQL of the stack."""

    def connects_to(self, options: PgHttpOptions) -> tuple[str, ...]:
        """Return the name of the service that is its database."""
        return (options.database,)


def _pghttp_arguments(request: RenderRequest[PgHttpOptions]) -> Sequence[str]:
    """Return the database, the pool and the rows. Raises FieldError where the database is none."""
    options, database = request.options, request.peers[request.options.database]
    if database.protocol != "postgres":
        raise FieldError("database", f"{options.database} speaks {database.protocol}; allowed: a service of postgres")
    url = f"postgres://postgres@{database.authority}/postgres?sslmode=disable"
    return ("-database", url, "-pool", str(options.pool), "-rows", str(options.rows))


def _fileserver_arguments(request: RenderRequest[FileServerOptions]) -> Sequence[str]:
    listing = request.options.listing
    listed = [] if listing is None else ["-listing", str(listing)]
    return ["-root", str(request.place.folder / "www"), *listed]


def _fasthttp_arguments(request: RenderRequest[FastHttpOptions]) -> Sequence[str]:
    limit = request.options.concurrency
    return () if limit is None else ("-concurrency", str(limit))


NETHTTP = GoServer(
    "nethttp",
    GoServerOptions,
    protocols=frozenset({"http1", "https1", "h2", "h2c", "h3"}),
    modules={"h3": BACKENDS / "nethttp" / "h3"},
)
"""Go's net/http without a front end; over HTTP/3 its handler on quic-go."""
FCGI = GoServer("fcgi", GoServerOptions, protocol="fastcgi")
"""Go's net/http/fcgi behind an nginx: the handler of `nethttp`, over TCP or a unix socket."""
GOSTRING = GoServer("gostring", GoStringOptions)
"""Go's net/http with a handler that writes a fixed string, by default of two bytes."""
FILESERVER = GoServer("fileserver", FileServerOptions, arguments=_fileserver_arguments)
"""Go's http.FileServer on files that it creates on its host: one of them at `/`, or a listing of their folder."""
FASTHTTP = GoServer(
    "fasthttp", FastHttpOptions, protocols=frozenset({"http1", "https1"}), arguments=_fasthttp_arguments
)
"""The HTTP server valyala/fasthttp."""
GNET = GoServer("gnet", GoServerOptions)
"""HTTP/1.1 on the event loops of panjf2000/gnet."""
NETPOLL = GoServer("netpoll", GoServerOptions)
"""HTTP/1.1 on the event loops of cloudwego/netpoll."""
HERTZ = GoServer("hertz", GoServerOptions)
"""The HTTP framework cloudwego/hertz, which is built on cloudwego/netpoll."""
PGHTTP = PgHttpServer("pghttp", PgHttpOptions, arguments=_pghttp_arguments)
"""Go's net/http with handlers that ask PostgreSQL by a pool of connections of jackc/pgx."""

GO_SERVERS = (NETHTTP, FCGI, GOSTRING, FILESERVER, FASTHTTP, GNET, NETPOLL, HERTZ, PGHTTP)
