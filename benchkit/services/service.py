"""A service as data: the files, commands, process and socket that a backend renders and `deploy` puts on a host.

Nothing here touches a host, so a plan can show a service and a test can compare it.
"""

from __future__ import annotations

import signal
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Literal

from benchkit.agent.operations import StopSignal
from benchkit.models.profile import Profiler
from benchkit.services.placement import CpuQuota, Endpoint

READY_TIMEOUT_S = 10.0
"""Default time for a service to open its socket."""
STOP_TIMEOUT_S = 3.0
"""Default time for a service to end; what is running then is killed."""
EXECUTABLE = 0o755
"""Mode of a program."""
DEFAULT_STOP = StopSignal(signal.SIGTERM, STOP_TIMEOUT_S)


@dataclass(frozen=True)
class ControllerFile(ABC):
    """A file or folder that the controller builds, creates or downloads on first use and keeps: programs, keys, images.

    The fields identify the content and hold no secret, because plans are shown.
    """

    @abstractmethod
    def read(self) -> bytes | Path:
        """Return the content, or the path of a file or folder with it; create it first if it does not exist yet.

        Raises BenchkitError.
        """


@dataclass(frozen=True)
class ServiceFile:
    """A file that a service needs on its host: bytes, or what the controller has or makes.

    The files of a folder keep their names below `path`, and executables stay executable.
    """

    path: PurePosixPath
    content: bytes | ControllerFile
    mode: int = 0o644
    owner: str | None = None
    """User of the host who owns a file that only its owner may read; None: the login user."""


@dataclass(frozen=True)
class ServiceProcess:
    """The process of a service: arguments, environment added to the host's, CPUs, soft limit of open files."""

    argv: tuple[str, ...]
    cpus: tuple[int, ...]
    nofile: int
    env: Mapping[str, str] = field(default_factory=dict)
    quota: CpuQuota | None = None
    cwd: PurePosixPath | None = None
    """Folder in which it starts; None: the service's own."""


@dataclass(frozen=True)
class SetupCommand:
    """An idempotent command that prepares the host at deployment, between placing files and testing configurations."""

    argv: tuple[str, ...]
    timeout_s: float
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ConfigTest:
    """A command that tests a configuration file and exits with 0 if it is valid, like `nginx -t`."""

    argv: tuple[str, ...]
    config: PurePosixPath
    """The file that the command reads."""
    is_optional: bool = False
    """True: where a host's program rejects the file, the cell is unsupported; False: the scenario has an error."""


AdminKind = Literal["expvar", "node", "nginx"]
"""Format of an admin page: JSON of the Go backends, JSON of the Node backend, or nginx's stub_status."""


@dataclass(frozen=True)
class AdminPage:
    """A page with a service's own counters, on a socket that only its host reaches and that no load goes to.

    A service with a page of kind `expvar` also serves Go's profiles, at `/debug/pprof/` (net/http/pprof).
    """

    kind: AdminKind
    endpoint: Endpoint
    path: str
    """Path of the page: `/debug/vars`."""
    handshake_logs: Mapping[str, PurePosixPath] = field(default_factory=dict)
    """Logs of TLS handshakes that are not on the page, by their kind (full, resumed): a line of two bytes for each."""


@dataclass(frozen=True)
class Instruction:
    """Instruction for the users of a service, shown after `service up`: a command to run, a file to copy."""

    what: str
    value: str


@dataclass(frozen=True)
class ReadyRequest:
    """A request whose answer tells that a service is ready for load."""

    path: str
    status: int


NetworkMode = Literal["host", "bridge", "published"]
"""The way to a container's port: the host's own network, an address on a bridge, or a port of the host (NAT)."""


@dataclass(frozen=True)
class ContainerNetwork:
    """A bridge for the containers of one cell on a host."""

    name: str
    subnet: str
    """`10.213.4.0/24`."""


@dataclass(frozen=True)
class Container:
    """The container that a service runs in; its process has the engine's arguments."""

    engine: str
    """Path of the engine's program on the host."""
    name: str
    image: str
    """Name of its image on the host."""
    archive: PurePosixPath | None
    """File on the host to load the image from; None: the host pulls it where it is missing."""
    network: NetworkMode
    port: int
    """Port at which its server listens inside."""
    bridge: ContainerNetwork | None = None
    """None: the network of the host, or the engine's default one."""
    volumes: tuple[str, ...] = ()
    """Volumes with names, which are created before the container."""
    ready: tuple[str, ...] = ()
    """Command in the container that ends with 0 once it is ready; empty: none."""
    prepare: tuple[str, ...] = ()
    """Command in the container that prepares its data once it is ready; empty: none."""


@dataclass(frozen=True)
class Service:
    """A process under test, ready to be deployed: what is sent to the host, tested there and started."""

    name: str
    backend: str
    host: str
    folder: PurePosixPath
    files: tuple[ServiceFile, ...]
    process: ServiceProcess
    endpoint: Endpoint
    config_tests: tuple[ConfigTest, ...] = ()
    admin: AdminPage | None = None
    inner_sockets: tuple[PurePosixPath, ...] = ()
    """Unix sockets that it opens for itself, beside its endpoint and its admin page."""
    parallelism: int | None = None
    """CPUs that it can keep busy at once by its own settings (GOMAXPROCS, workers); None: no limit is set."""
    setup_commands: tuple[SetupCommand, ...] = ()
    """Commands run at deployment, between placing files and testing configurations."""
    scratch_folders: tuple[PurePosixPath, ...] = ()
    """Folders that are emptied before each start, so that no trial finds data of the one before."""
    ready_timeout_s: float = READY_TIMEOUT_S
    ready_request: ReadyRequest | None = None
    """None: it is ready when it accepts connections."""
    stop: StopSignal = DEFAULT_STOP
    outage: bool = False
    """True: stopped between warm-up and measured window."""
    forks_per_request: bool = False
    """True: it starts processes to answer requests; only the first process of its tree must live through a trial."""
    is_verifier: bool = False
    """True: a client that tests the other services before it opens its socket; `service up` runs it once and stops
    it."""
    fresh_files: tuple[PurePosixPath, ...] = ()
    """Files that it appends to, removed before each start."""
    perf_map_launcher: PurePosixPath | None = None
    """Program that starts it so that perf gets the names of compiled functions (`/tmp/perf-PID.map`); None: not
    needed."""
    instructions: tuple[Instruction, ...] = ()
    container: Container | None = None
    """None: a process of the host."""


PERF, BPFTRACE = "perf", "bpftrace"
"""Program that a host needs to profile services without a profiler of their own."""

PERF_MAPS = "perf-maps"
"""Folder within a service's own, in which processes start that write maps for perf."""

PPROF_PATH = "/debug/pprof/profile"
"""Path at which net/http/pprof returns a CPU profile; the parameter `seconds` (a whole number) is its length."""


def profiler_of(service: Service) -> Profiler:
    """Return the profiler that a service is profiled with."""
    return "pprof" if service.admin is not None and service.admin.kind == "expvar" else "perf"


def with_perf_map(service: Service) -> Service:
    """Return the service as it is started to be profiled: by the program that makes it write a map, if it has one.

    It starts in a folder of its own, where its processes leave their ids, and V8 its logs.
    """
    if service.perf_map_launcher is None:
        return service
    argv = (str(service.perf_map_launcher), *service.process.argv)
    return replace(service, process=replace(service.process, argv=argv, cwd=perf_map_folder(service)))


def perf_map_folder(service: Service) -> PurePosixPath:
    """Return the folder in which a service that writes maps for perf is started."""
    return service.folder / PERF_MAPS
