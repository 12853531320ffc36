"""The shape that every backend has, and what a service on a host is made of.

A backend turns typed options and a place into a `Service`: files, checks, one process and the socket it opens. It
touches nothing; `benchkit.stack.deploy` carries services out, `plan` shows them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Literal

from pydantic import Field

from benchkit.errors import UnsupportedError
from benchkit.models.base import Frozen
from benchkit.scenario.model import CpuCount
from benchkit.scenario.names import Name
from benchkit.stack.endpoint import FIRST_UNPRIVILEGED_PORT, Endpoint, Listen, Protocol


class ServiceOptions(Frozen):
    """What every service of a scenario may set; a backend adds its own."""

    backend: str
    role: Name = "sut"
    listen: Listen
    cpus: CpuCount = Field(default="all", description="CPUs it may run on: the first n of its role's")


@dataclass(frozen=True)
class Program:
    """An executable of the host, as its facts name it."""

    path: str
    version: tuple[int, ...]


@dataclass(frozen=True)
class Place:
    """Where a service will run: facts of its host that decide what is rendered."""

    host: str
    address: str
    """The address at which the other hosts reach this one."""
    cpus: tuple[int, ...]
    """The CPUs that its role may use, ascending."""
    folder: PurePosixPath
    """A folder of the service's own on the host, absolute."""
    user: str
    root: bool
    goos: str
    goarch: str
    nofile: int
    """The hard limit of open files."""
    programs: Mapping[str, Program]
    """The host's executables that backends may use (nginx, node)."""

    def take_cpus(self, count: CpuCount, field_name: str) -> tuple[int, ...]:
        """The first `count` CPUs of the place. Raises UnsupportedError where it has fewer."""
        if count == "all":
            return self.cpus
        if count > len(self.cpus):
            have = len(self.cpus)
            raise UnsupportedError(f"{field_name} {count}: {self.host} has {have} CPU{'s' * (have > 1)} for this role")
        return self.cpus[:count]

    def program(self, name: str) -> Program:
        """The executable `name` of the host. Raises UnsupportedError where it is missing."""
        if name not in self.programs:
            raise UnsupportedError(f"{self.host} has no {name}", hint="benchkit hosts prepare installs it where it may")
        return self.programs[name]


@dataclass(frozen=True)
class GoSource:
    """An executable to be built on the controller from a Go module, for the host it goes to."""

    module: Path
    goos: str
    goarch: str
    go_version: str | None = None
    package: str = "."
    """What of it: the module's own program, or one that it requires."""


@dataclass(frozen=True)
class File:
    """A file that a service needs on its host: bytes, or what is built from source."""

    path: PurePosixPath
    content: bytes | GoSource
    mode: int = 0o644


@dataclass(frozen=True)
class Process:
    """One process: argument list, environment on top of the host's, CPUs, soft limit of open files."""

    argv: tuple[str, ...]
    cpus: tuple[int, ...]
    nofile: int
    env: Mapping[str, str] = field(default_factory=dict)


AdminKind = Literal["expvar", "node", "nginx"]
"""What an admin page is written in: JSON as the Go backends and the Node one give it, or nginx's stub_status."""


@dataclass(frozen=True)
class Admin:
    """Where a service tells about itself, apart from the socket that is measured; only its own host reaches it.

    One of kind `expvar` serves Go's profiles too, at `/debug/pprof/` (net/http/pprof).
    """

    kind: AdminKind
    endpoint: Endpoint
    path: str
    """Of the page with its counters: `/debug/vars`."""


@dataclass(frozen=True)
class Service:
    """A process under test, ready to be deployed: what goes to the host, what is checked there, what is started."""

    name: str
    backend: str
    host: str
    folder: PurePosixPath
    files: tuple[File, ...]
    checks: tuple[tuple[str, ...], ...]
    """Commands that must end with 0 before anything is started, like `nginx -t`."""
    process: Process
    endpoint: Endpoint
    admin: Admin | None = None
    parallelism: int | None = None
    """How many CPUs it can keep busy at once by its own settings (GOMAXPROCS, workers); None: they set no limit."""


@dataclass(frozen=True)
class Backend:
    """One kind of server: its options, what it needs on the host, and how a service of it is rendered."""

    name: str
    options: type[ServiceOptions]
    render: Callable[[Request], Service] = field(repr=False)
    protocol: Protocol = "http"
    programs: tuple[str, ...] = ()
    """Executables it needs on the host."""
    tied_to: Callable[[ServiceOptions], tuple[str, ...]] = field(default=lambda _: (), repr=False)
    """Names of the services it connects to."""


@dataclass(frozen=True)
class Request:
    """A service to be rendered: its name, checked options, place, socket, and the sockets of its stack."""

    name: str
    options: ServiceOptions
    place: Place
    endpoint: Endpoint
    peers: Mapping[str, Endpoint]


def endpoint_of(name: str, options: ServiceOptions, place: Place, protocol: Protocol) -> Endpoint:
    """The socket that a service opens at its place. Raises UnsupportedError for a port that its user may not open."""
    listen = options.listen
    if listen.port is None:
        return Endpoint(place.host, protocol, path=place.folder / f"{name}.sock")
    if listen.port < FIRST_UNPRIVILEGED_PORT and not place.root:
        raise UnsupportedError(f"listen {listen.port}: {place.user} on {place.host} may not open a port below 1024")
    return Endpoint(place.host, protocol, address=listen.address or place.address, port=listen.port)
