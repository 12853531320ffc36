"""Node with its cluster module or worker_threads, run by the host's own node."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from benchkit.errors import UnsupportedError
from benchkit.files import BACKENDS
from benchkit.services.backend import Backend, RenderRequest
from benchkit.services.placement import ServicePlacement
from benchkit.services.server_options import VARS, ServerOptions, admin_endpoint, protocol_arguments, server_arguments
from benchkit.services.service import EXECUTABLE, AdminPage, Service, ServiceFile, ServiceProcess
from benchkit.units import counted

SOURCE = BACKENDS / "node"
PERF_MAP_LAUNCHER = "with-perf-map.sh"

OLDEST = (18,)
"""First long-term release with all the features that the server uses (`engines` in its `package.json`)."""


class NodeOptions(ServerOptions):
    """Options of a server on Node's cluster module."""

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
        """Return the host's node, and taskset if processes are pinned."""
        return ("node", "taskset") if options.pin != "none" else ("node",)

    def render(self, request: RenderRequest[NodeOptions]) -> Service:
        """Return one primary process with its sources."""
        options, place = request.options, request.place
        folder = place.folder / "node"
        cpus = place.select_cpus(options.cpus, "cpus")
        workers = _workers(options, place, len(cpus))
        limits = () if options.heap_mb is None else (f"--max-old-space-size={options.heap_mb}",)
        argv = (_host_node(place), *limits, str(folder / "main.js"))
        argv += (*server_arguments(request), *protocol_arguments(request))
        argv += ("-workers", str(workers), "-pin", options.pin)
        argv += ("-worker-type", options.worker_type)
        # Without work for its threads, one process does everything.
        serves_alone = workers == 0 or (options.worker_type == "thread" and options.work == "none")
        launcher = SOURCE / PERF_MAP_LAUNCHER
        return Service(
            name=request.name,
            backend=self.name,
            host=place.host,
            folder=place.folder,
            files=(
                *(ServiceFile(folder / each.name, each.read_bytes()) for each in sorted(SOURCE.glob("*.js*"))),
                ServiceFile(folder / PERF_MAP_LAUNCHER, launcher.read_bytes(), EXECUTABLE),
            ),
            process=ServiceProcess(argv, cpus, place.nofile),
            endpoint=request.endpoint,
            admin=AdminPage("node", admin_endpoint(place), VARS),
            parallelism=1 if serves_alone else workers,
            perf_map_launcher=folder / PERF_MAP_LAUNCHER,
        )


def _host_node(place: ServicePlacement) -> str:
    """Return the path of the host's node. Raises UnsupportedError where it is too old."""
    program = place.program("node")
    if program.version < OLDEST:
        found = ".".join(map(str, program.version)) or "of an unknown version"
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


NODE = NodeBackend()
