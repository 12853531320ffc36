"""Images as services: a container of podman or docker, on the host's network, on a bridge, or with a published port."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Annotated, Literal, Self

from pydantic import ConfigDict, Field, StrictFloat, StrictInt, StrictStr, StringConstraints, model_validator

from benchkit.agent.cgroups import PERIOD_US
from benchkit.document import SourceMap
from benchkit.errors import FieldError, UnsupportedError
from benchkit.files import BACKENDS
from benchkit.models.base import Frozen
from benchkit.models.protocol import is_tls
from benchkit.services.backend import Backend, RenderRequest, ServiceOptions
from benchkit.services.certificates import tls_paths
from benchkit.services.command import (
    LocalPath,
    Location,
    ReadyOptions,
    SourceOptions,
    StopOptions,
    VariableName,
    carried_files,
    common_placeholders,
    common_values,
    existing_files,
    existing_path,
    existing_version,
    require_placeholders,
)
from benchkit.services.images import (
    ARCHIVE,
    ENGINES,
    BuiltImage,
    EngineName,
    Image,
    LocalImage,
    ServerImage,
    find_engine,
    find_image,
)
from benchkit.services.placement import MAX_PORT, CpuQuota, Endpoint, ServicePlacement
from benchkit.services.server_options import ADMIN_SOCKET, VARS, admin_endpoint, protocol_arguments
from benchkit.services.service import (
    AdminPage,
    Container,
    ContainerNetwork,
    NetworkMode,
    Service,
    ServiceFile,
    ServiceProcess,
)
from benchkit.services.templates import CommandLine, fill_in

ImageName = Annotated[str, StringConstraints(strict=True, pattern=r"^[A-Za-z0-9][A-Za-z0-9._/:@-]{0,254}$")]
Port = Annotated[int, Field(strict=True, gt=0, le=MAX_PORT)]
MemoryLimit = (
    Annotated[str, StringConstraints(pattern=r"^[1-9][0-9]*[kmg]?$")] | Annotated[int, Field(strict=True, gt=0)]
)
Mount = Annotated[str, StringConstraints(strict=True, pattern=r"^[^:]+:/[^:]*(:(ro|rw))?$")]

FIRST_ADDRESS = 2
"""Host part of the first container's address on a bridge; the bridge itself has 1."""

GoServerName = Literal["nethttp", "fasthttp", "gnet", "netpoll", "hertz"]


class ImageBuildOptions(Frozen):
    """The build of an image."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    context: LocalPath = Field(
        default=".",
        description="folder of its sources, relative to the scenario's file, or to `source`",
        examples=["../myserver"],
    )
    file: LocalPath = Field(default="Dockerfile", description="its Containerfile, relative to the context")
    target: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][\w.-]*$")] | None = Field(
        default=None, description="stage to build; absent: the last one", examples=["production"]
    )
    args: Mapping[VariableName, StrictStr | StrictInt | StrictFloat] = Field(
        default_factory=dict, description="build arguments (ARG)", examples=[{"GO_VERSION": "1.24"}]
    )


class ContainerOptions(ServiceOptions):
    """Options of a container; one of `image`, `build` and `server` is required."""

    image: ImageName | None = Field(
        default=None,
        description="image of this machine's engine, which is copied to the host",
        examples=["me/app:1.2"],
    )
    build: ImageBuildOptions | None = Field(
        default=None, description="image that is built on this machine", examples=[{"context": "../myserver"}]
    )
    server: GoServerName | None = Field(
        default=None,
        description="one of benchkit's Go servers, alone in an image: the executable that the backend of this name starts",
        examples=["nethttp"],
    )
    source: SourceOptions | None = Field(
        default=None,
        description="version to build, in a clean checkout, to which `build.context` is then relative; absent: the files as they are",
        examples=[{"git": "../myserver", "ref": "$ref"}],
    )
    pull: Literal["never", "missing"] = Field(
        default="never", description="missing: the host pulls an image that this machine does not have"
    )
    command: CommandLine | None = Field(
        default=None,
        description="arguments after the image's entrypoint; absent: the image's own",
        examples=[["--listen", "{host}:{port}"]],
    )
    environment: Mapping[VariableName, StrictStr | StrictInt | StrictFloat] = Field(
        default_factory=dict, description="environment variables", examples=[{"PORT": "{port}"}]
    )
    files: tuple[LocalPath, ...] = Field(
        default=(),
        description="files and folders to copy to its folder on the host, as in `command`; `mounts` gives them a place",
        examples=[["site/", "nginx.conf.j2"]],
    )
    mounts: tuple[Mount, ...] = Field(
        default=(),
        description="`SOURCE:TARGET`, read-only, or `SOURCE:TARGET:rw`; SOURCE: `./x` of `files`, `/x` of the host, or the "
        "name of a volume, which is always writable",
        examples=[["./site:/srv", "data:/var/lib/app"]],
    )
    port: Port | None = Field(
        default=None, description="port in the container; absent: the port of `listen`", examples=[80]
    )
    network: NetworkMode = Field(
        default="published",
        description="host: the host's own network; published: `listen` leads to `port`; bridge: an address of its own, "
        "which only its host reaches",
    )
    memory: MemoryLimit | None = Field(
        default=None, description="bytes of memory that it may use, or a number with k, m or g", examples=["256m"]
    )
    user: Annotated[str, StringConstraints(strict=True, pattern=r"^[\w.-]+(:[\w.-]+)?$")] | None = Field(
        default=None, description="user (and group) in the container; absent: the image's", examples=["1000:1000"]
    )
    read_only: bool = Field(default=False, description="its root file system cannot be written")
    engine: Literal["auto", "podman", "docker"] = Field(
        default="auto", description="auto: podman where the host has it, else docker"
    )
    ready: ReadyOptions = Field(
        default_factory=ReadyOptions, description="when it is ready for load", examples=[{"path": "/health"}]
    )
    ready_command: CommandLine | None = Field(
        default=None,
        description="command in the container that ends with 0 once it is ready, beside `ready`",
        examples=["pg_isready -U postgres"],
    )
    stop: StopOptions = Field(
        default_factory=StopOptions, description="how it is stopped", examples=[{"signal": "QUIT", "within_s": 10}]
    )
    prepare: CommandLine | None = Field(
        default=None,
        description="command in the container that fills fresh volumes before the load; its time is not measured",
        examples=["psql -U postgres -f /init.sql"],
    )
    may_use_cpus: Annotated[int, Field(strict=True, gt=0)] | None = Field(
        default=None,
        description="CPUs that it can keep busy at once by its own settings; absent: all of its CPUs",
        examples=[1],
    )
    peers: Mapping[str, str] = Field(
        default_factory=dict,
        description="other containers of the stack that it reaches by a name: name → service",
        examples=[{"db": "database"}],
    )

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        if sum(each is not None for each in (self.image, self.build, self.server)) != 1:
            raise ValueError("one of `image`, `build` and `server` is required")
        if self.source is not None and self.build is None:
            raise ValueError("source: a version needs a `build`")
        if self.listen.port is None:
            raise ValueError("listen: a container needs a port")
        if self.network == "host" and self.port not in (None, self.listen.port):
            raise ValueError("port: on the host's network it is the port of `listen`")
        return self

    @property
    def host_port(self) -> int | None:
        """The port of its host that it takes; None: it has an address of its own."""
        return None if self.network == "bridge" else self.listen.port

    @property
    def container_port(self) -> int:
        """The port at which it listens inside, without the shift of a placement."""
        return self.port or self.listen.port or 0


class ContainerBackend(Backend[ContainerOptions]):
    """A container of an image, which an engine of the host runs.

    In `command` and `environment`, {host} and {port} stand for the socket inside, {protocol} for its protocol, {cpus}
    for the number of its CPUs. With TLS, {certificate} and {certificate_key} are files that are mounted.
    """

    name = "container"
    options = ContainerOptions
    protocols = frozenset({"http1", "https1", "h2", "h2c", "h3"})

    def endpoint(self, name: str, options: ContainerOptions, place: ServicePlacement, names: Sequence[str]) -> Endpoint:
        """Return the socket at which others reach it."""
        if options.network != "bridge":
            return super().endpoint(name, options, place, names)
        tls = options.tls if is_tls(options.protocol) else None
        return Endpoint(
            place.host, options.protocol, address=_address(name, place, names), port=options.container_port, tls=tls
        )

    def programs(self, options: ContainerOptions) -> tuple[str, ...]:
        """Return the engine, where the scenario names one."""
        return () if options.engine == "auto" else (options.engine,)

    def connects_to(self, options: ContainerOptions) -> tuple[str, ...]:
        """Return the services that it reaches by name."""
        return tuple(dict.fromkeys(options.peers.values()))

    def resolve(self, options: ContainerOptions, source: SourceMap) -> ContainerOptions:
        """Return the options with the paths of files and of the sources of its build. Raises InputError."""
        texts: list[tuple[Location, str]] = [(("command",), text) for text in options.command or ()]
        texts += ((("environment", name), str(value)) for name, value in options.environment.items())
        require_placeholders(texts, ("host", "port", *common_placeholders(options)), source)
        build, version = options.build, options.source
        if build is not None and version is None:
            build = build.model_copy(
                update={"context": str(existing_path(build.context, source, ("build", "context")))}
            )
        if version is not None:
            version, _ = existing_version(version, source)
        files = existing_files(options.files, source)
        return options.model_copy(update={"build": build, "source": version, "files": files})

    def local_files(self, options: ContainerOptions) -> tuple[Path, ...]:
        """Return the files to copy."""
        return tuple(map(Path, options.files))

    def render(self, request: RenderRequest[ContainerOptions]) -> Service:
        """Return the service."""
        options, place, endpoint = request.options, request.place, request.endpoint
        engine = _engine(options, place)
        cpus = place.select_cpus(options.cpus, "cpus")
        is_shared = options.network == "host"
        values = {
            "host": str(endpoint.address) if is_shared else "0.0.0.0",  # noqa: S104 - inside of the container
            "port": str(endpoint.port if is_shared else options.container_port),
            **common_values(request, cpus),
        }
        image = _image(options, place)
        name = f"benchkit-{_cell_digest(place)}-{request.name}"
        limits = [each for each in (options.quota, place.quota.cpus if place.quota else None) if each is not None]
        quota = CpuQuota(options.role, min(limits), is_own=True) if limits else None
        container = Container(
            engine=place.program(engine).path,
            name=name,
            image=options.image or "" if image is None else image.reference,
            archive=None if image is None else place.folder / ARCHIVE,
            network=options.network,
            port=endpoint.port or 0 if is_shared else options.container_port,
            bridge=None if is_shared else _network(place),
            volumes=tuple(f"{name}-{each}" for each in _volumes(options)),
            ready=() if options.ready_command is None else options.ready_command,
            prepare=() if options.prepare is None else options.prepare,
        )
        # podman warns of a missing program for DNS, which nobody needs: names are in /etc/hosts of each container.
        quiet = ("--log-level", "error") if engine == "podman" else ()
        argv = [container.engine, *quiet, "run", "--name", name, "--pull", "never", "--log-driver", "none"]
        # podman passes on its own limits, which the agent sets; the daemon of docker has others.
        argv += (
            ["--cgroups", "no-conmon", "--ulimit", "host"]
            if engine == "podman"
            else ["--ulimit", f"nofile={place.nofile}"]
        )
        argv += ["--cpuset-cpus", ",".join(map(str, cpus))]
        if quota is not None and quota.cpus == options.quota:  # in the engine's periods of 100 ms
            argv += ["--cpus", f"{quota.cpus:g}"]
        elif quota is not None:  # of its role, in the periods that processes have
            argv += ["--cpu-period", f"{PERIOD_US}", "--cpu-quota", f"{round(quota.cpus * PERIOD_US)}"]
        argv += ["--memory", str(options.memory)] if options.memory is not None else []
        argv += ["--user", options.user] if options.user is not None else []
        argv += ["--read-only"] if options.read_only else []
        argv += _network_arguments(request, container)
        argv += _mounts(options, place, name)
        if endpoint.tls is not None:
            folder = tls_paths(place.folder).certificate.parent
            argv += ["--volume", f"{folder}:{folder}:ro"]
        own, command = {}, list(options.command or ())
        if options.server is not None:
            own = {"GOMAXPROCS": options.may_use_cpus or len(cpus)}
            argv += ["--volume", f"{place.folder}:{place.folder}"]
            admin = ["-listen", "{host}:{port}", "-admin", f"unix:{place.folder / ADMIN_SOCKET}"]
            command = [*admin, *protocol_arguments(request), *command]
        argv += [
            word
            for variable, value in (own | dict(options.environment)).items()
            for word in ("--env", f"{variable}={fill_in(str(value), values)}")
        ]
        return Service(
            name=request.name,
            backend=self.name,
            host=place.host,
            folder=place.folder,
            files=(
                *carried_files(options.files, place, values),
                *(() if container.archive is None or image is None else (ServiceFile(container.archive, image),)),
            ),
            process=ServiceProcess(
                (*argv, container.image, *(fill_in(word, values) for word in command)),
                cpus,
                place.nofile,
                quota=quota,
            ),
            endpoint=endpoint,
            admin=None if options.server is None else AdminPage("expvar", admin_endpoint(place), VARS),
            parallelism=options.may_use_cpus or (None if options.server is None else len(cpus)),
            ready_timeout_s=options.ready.within_s,
            ready_request=options.ready.request,
            stop=options.stop.stop_signal,
            container=container,
        )


def _engine(options: ContainerOptions, place: ServicePlacement) -> EngineName:
    """Return the engine of the host. Raises UnsupportedError where it has none."""
    names = ENGINES if options.engine == "auto" else (options.engine,)
    found = next((name for name in names if name in place.programs), None)
    if found is None:
        raise UnsupportedError(f"{place.host} has no {' or '.join(names)}", hint="install podman there, or docker")
    return found


def _image(options: ContainerOptions, place: ServicePlacement) -> Image | None:
    """Return the image to copy to the host; None where the host pulls it.

    Raises UnsupportedError for an image of another platform, FieldError where this machine does not have it, InputError
    where it has no engine.
    """
    if options.server is not None:
        module = BACKENDS / options.server / ("h3" if options.protocol == "h3" else "")
        if not module.exists():
            raise UnsupportedError(f"protocol h3: {options.server} does not speak it (nethttp does)")
        return ServerImage(find_engine(), place.goarch, module, "Dockerfile")
    if options.build is not None:
        context, state, args = Path(options.build.context), None, options.build.args.items()
        if options.source is not None:
            state, context = options.source.checkout(options.build.context)
        pairs = tuple(sorted((name, str(value)) for name, value in args))
        return BuiltImage(find_engine(), place.goarch, context, options.build.file, options.build.target, pairs, state)
    name = options.image or ""
    if options.pull == "missing":
        return None
    found = find_image(name)
    if found is None:
        hint = "build or load it with podman or docker, or let the host pull it: pull: missing"
        raise FieldError("image", f"no container engine on this machine has an image {name}", hint=hint)
    engine, facts = found
    if facts.goarch != place.goarch:
        raise UnsupportedError(f"the image {name} is for {facts.goarch}, and {place.host} is {place.goarch}")
    return LocalImage(engine, place.goarch, name, facts.image_id)


def _cell_digest(place: ServicePlacement) -> str:
    return hashlib.sha256(str(place.folder.parent).encode()).hexdigest()[:8]


def _network(place: ServicePlacement) -> ContainerNetwork:
    """Return the bridge of a cell, in a part of 10.0.0.0/8 (RFC 1918) that its folder decides."""
    digest = _cell_digest(place)
    third, second = int(digest[:2], 16), 192 + int(digest[2:4], 16) % 32
    return ContainerNetwork(f"benchkit-{digest}", f"10.{second}.{third}.0/24")


def _address(name: str, place: ServicePlacement, names: Sequence[str]) -> str:
    first, _, _ = _network(place).subnet.rpartition(".")
    return f"{first}.{FIRST_ADDRESS + list(names).index(name)}"


def _network_arguments(request: RenderRequest[ContainerOptions], container: Container) -> Iterator[str]:
    options, endpoint = request.options, request.endpoint
    if container.bridge is None:
        yield from ("--network", "host")
    else:
        address = _address(request.name, request.place, list(request.peers))
        yield from ("--network", container.bridge.name, "--ip", address)
    if options.network == "published":
        published = f"{endpoint.address}:{endpoint.port}:{options.container_port}"
        yield from ("--publish", f"{published}/tcp")
        if endpoint.protocol == "h3":
            yield from ("--publish", f"{published}/udp")
    for alias, peer in options.peers.items():
        where = "127.0.0.1" if container.bridge is None else _address(peer, request.place, list(request.peers))
        yield from ("--add-host", f"{alias}:{where}")


def _volumes(options: ContainerOptions) -> list[str]:
    sources = (mount.split(":")[0] for mount in options.mounts)
    return [source for source in dict.fromkeys(sources) if re.fullmatch(r"[A-Za-z0-9][\w-]*", source)]


def _mounts(options: ContainerOptions, place: ServicePlacement, name: str) -> Iterator[str]:
    """Yield the mounts as engines take them. Raises FieldError for a source that is not a file of `files`.

    With `--volume` docker creates a folder of the host that is missing, and leaves it.
    """
    volumes = _volumes(options)
    for mount in options.mounts:
        source, target, *mode = mount.split(":")
        if source in volumes:
            yield from ("--volume", f"{name}-{source}:{target}")
            continue
        if not source.startswith(("/", "./")):
            raise FieldError("mounts", f"{mount}: write ./{source} for a file of `files`, or a name for a volume")
        path = PurePosixPath(source) if source.startswith("/") else place.folder / source
        text = f"type=bind,source={path},target={target}"
        yield from ("--mount", text if mode == ["rw"] else f"{text},readonly")


CONTAINER = ContainerBackend()
