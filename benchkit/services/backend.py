"""The shape that every backend has, and what a service on a host is made of.

A backend turns typed options and a place into a `Service`: files, checks, one process and the socket it opens. It
touches nothing; `benchkit.services.deploy` carries services out, `plan` shows them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Annotated, Literal

from pydantic import Field

from benchkit.document import SourceMap
from benchkit.errors import UnsupportedError
from benchkit.models.base import Frozen
from benchkit.models.cpus import Cpus, cpu_places
from benchkit.models.levels import Name
from benchkit.services.endpoint import FIRST_UNPRIVILEGED_PORT, Endpoint, Listen, Protocol
from benchkit.units import counted


class ServiceOptions(Frozen):
    """What every service of a scenario may set; a backend adds its own."""

    backend: str
    role: Name = "sut"
    listen: Listen
    cpus: Cpus = Field(
        default="all", description="CPUs it may run on: the first n of its role's, or those at these places (`2-3`)"
    )
    nofile: Annotated[int, Field(strict=True, gt=0)] | None = Field(
        default=None, description="open files that each of its processes may have; absent: as many as the host allows"
    )
    outage: bool | Name = Field(
        default=False,
        description="stopped after the warm-up: how do the others do without it in the measured window? A name: where "
        "that is the service's own",
    )


@dataclass(frozen=True)
class Program:
    """An executable of the host, as its facts name it."""

    path: str
    version: tuple[int, ...]
    said: str | None = None
    """What it prints about itself, of those whose kind has to be told by it."""
    named: str | None = None
    """Where the inventory names it, for messages; None: it was found."""


@dataclass(frozen=True)
class Quota:
    """A share of the CPUs that all services of a role on a host get together."""

    role: str
    cpus: float


@dataclass(frozen=True)
class ServicePlacement:
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
    quota: Quota | None = None

    def take_cpus(self, wanted: Cpus, field_name: str) -> tuple[int, ...]:
        """The first so many CPUs of the place, or those at these places. Raises UnsupportedError where it has fewer."""
        if wanted == "all":
            return self.cpus
        places = range(wanted) if isinstance(wanted, int) else cpu_places(wanted)
        if max(places) >= len(self.cpus):
            raise UnsupportedError(
                f"{field_name} {wanted}: {self.host} has {counted(len(self.cpus), 'CPU')} for this role"
            )
        return tuple(self.cpus[place] for place in places)

    def take_files(self, wanted: int | None) -> int:
        """So many open files, or as many as the host allows. Raises UnsupportedError for more than that."""
        if wanted is not None and wanted > self.nofile:
            raise UnsupportedError(
                f"nofile {wanted}: {self.user} on {self.host} may have {self.nofile} at most",
                hint="where root may have more, a tuning profile can ask for it (limits: {nofile: …})",
            )
        return wanted or self.nofile

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
class ControllerFile(ABC):
    """Content that the controller makes when it is first wanted, and keeps: keys, certificates, hashed passwords.

    Fields name what is meant and hold no secret, for plans are shown.
    """

    @abstractmethod
    def read(self) -> bytes:
        """The content, made now where it was not before. Raises BenchkitError."""


@dataclass(frozen=True)
class File:
    """A file that a service needs on its host: bytes, what is built from source, or what the controller keeps."""

    path: PurePosixPath
    content: bytes | GoSource | ControllerFile
    mode: int = 0o644


@dataclass(frozen=True)
class Process:
    """One process: argument list, environment on top of the host's, CPUs, soft limit of open files."""

    argv: tuple[str, ...]
    cpus: tuple[int, ...]
    nofile: int
    env: Mapping[str, str] = field(default_factory=dict)
    quota: Quota | None = None


@dataclass(frozen=True)
class Preparation:
    """A command that makes on the host what no file brings; one that finds its work done ends at once."""

    argv: tuple[str, ...]
    timeout_s: float
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Guidance:
    """Something that people need to use a service, and what it is: a line to run, a file."""

    what: str
    value: str


@dataclass(frozen=True)
class GoSettings:
    """What `go env -w` is given on the machines of those who use a service."""

    go: str
    """The go command of the host."""
    values: Mapping[str, str]


READY_TIMEOUT_S = 10.0
"""A server that takes longer to open its socket has a reason to."""

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
class Check:
    """A command that judges a file of a service, and must end with 0 before anything is started, like `nginx -t`."""

    argv: tuple[str, ...]
    config: PurePosixPath
    """The file that it reads."""
    field: str | None = None
    """The option of the scenario that the file comes from; None: from all of them."""


@dataclass(frozen=True)
class Service:
    """A process under test, ready to be deployed: what goes to the host, what is checked there, what is started."""

    name: str
    backend: str
    host: str
    folder: PurePosixPath
    files: tuple[File, ...]
    checks: tuple[Check, ...]
    process: Process
    endpoint: Endpoint
    admin: Admin | None = None
    parallelism: int | None = None
    """How many CPUs it can keep busy at once by its own settings (GOMAXPROCS, workers); None: they set no limit."""
    preparations: tuple[Preparation, ...] = ()
    """Carried out at deployment, between files and checks."""
    scratch: tuple[PurePosixPath, ...] = ()
    """Folders that are made anew before each start, so that every trial begins with nothing in them."""
    ready_timeout_s: float = READY_TIMEOUT_S
    outage: bool = False
    """Stopped between warm-up and measured window."""
    forks: bool = False
    """It starts processes for what it is asked: only the first one of its tree has to stay the same."""
    client: bool = False
    """It uses the others, and is no part of what is kept up without load."""
    guidance: tuple[Guidance, ...] = ()
    go_settings: GoSettings | None = None


@dataclass(frozen=True)
class Backend:
    """One kind of server: its options, what it needs on the host, and how a service of it is rendered."""

    name: str
    options: type[ServiceOptions]
    render: Callable[[Request], Service] = field(repr=False)
    protocol: Protocol = "http"
    protocol_by: Callable[[ServiceOptions], Protocol] | None = field(default=None, repr=False)
    """Where the protocol depends on the options (TLS or none); else it is `protocol`."""
    programs: Callable[[ServiceOptions], tuple[str, ...]] = field(default=lambda _: (), repr=False)
    """Executables it needs on the host, by the names that facts or the inventory have for them."""
    settle: Callable[[ServiceOptions, SourceMap], ServiceOptions] = field(
        default=lambda options, _: options, repr=False
    )
    """What its options mean where they stand: the files that they name, found. Raises InputError naming the field."""
    tied_to: Callable[[ServiceOptions], tuple[str, ...]] = field(default=lambda _: (), repr=False)
    """Names of the services it connects to."""


@dataclass(frozen=True)
class Request:
    """A service to be rendered: its name, checked options, place, socket, and the sockets of its stack."""

    name: str
    options: ServiceOptions
    place: ServicePlacement
    endpoint: Endpoint
    peers: Mapping[str, Endpoint]


def protocol_of(backend: Backend, options: ServiceOptions) -> Protocol:
    """What a service with these options speaks."""
    return backend.protocol if backend.protocol_by is None else backend.protocol_by(options)


def endpoint_of(name: str, options: ServiceOptions, place: ServicePlacement, protocol: Protocol) -> Endpoint:
    """The socket that a service opens at its place. Raises UnsupportedError for a port that its user may not open."""
    listen = options.listen
    if listen.port is None:
        return Endpoint(place.host, protocol, path=place.folder / f"{name}.sock")
    if listen.port < FIRST_UNPRIVILEGED_PORT and not place.root:
        raise UnsupportedError(f"listen {listen.port}: {place.user} on {place.host} may not open a port below 1024")
    user = place.user if protocol == "ssh" else None
    return Endpoint(place.host, protocol, address=listen.address or place.address, port=listen.port, user=user)
