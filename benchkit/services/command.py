"""Any program as a service: a command line, its files, and the command that builds it."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Annotated

from pydantic import AfterValidator, ConfigDict, Field, StrictFloat, StrictInt, StrictStr, StringConstraints

from benchkit.agent.operations import StopSignal
from benchkit.document import SourceMap
from benchkit.errors import FieldError, InputError, raise_faults
from benchkit.models.base import Frozen
from benchkit.models.protocol import is_tls
from benchkit.services.backend import Backend, RenderRequest, ServiceOptions
from benchkit.services.builds import BuiltFolder
from benchkit.services.certificates import tls_paths
from benchkit.services.controller_files import TEMPLATE_SUFFIX, files_in, mode_of
from benchkit.services.git_source import GitState, resolve_ref
from benchkit.services.placement import ServicePlacement
from benchkit.services.service import (
    READY_TIMEOUT_S,
    STOP_TIMEOUT_S,
    ReadyRequest,
    Service,
    ServiceFile,
    ServiceProcess,
)
from benchkit.services.templates import CommandLine, fill_in, render_config

Location = tuple[str | int, ...]
"""Path of a field in a service's options."""
TimeoutS = Annotated[float, Field(gt=0, le=3600)]
Status = Annotated[int, Field(strict=True, ge=100, le=599)]
VariableName = Annotated[str, StringConstraints(strict=True, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
LocalPath = Annotated[str, StringConstraints(strict=True, min_length=1, pattern=r"^[^\x00]+$")]
"""A file or folder of the controller."""
RequestPath = Annotated[str, StringConstraints(strict=True, pattern=r"^/[!-~]*$")]


def _validate_signal(name: str) -> str:
    if f"SIG{name}" not in signal.Signals.__members__ or name in {"KILL", "STOP", "CONT"}:
        raise ValueError(f"found {name!r}; allowed: the name of a signal that ends programs, such as TERM, INT or QUIT")
    return name


SignalName = Annotated[str, StringConstraints(strict=True, pattern=r"^[A-Z0-9]+$"), AfterValidator(_validate_signal)]


class BuildOptions(Frozen):
    """The command that builds a server."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    run: CommandLine = Field(
        description="command, as in the option `run`; what it writes to the folder `{out}` is copied to the service's folder",
        examples=[["go", "build", "-o", "{out}/app", "."]],
    )
    from_: LocalPath = Field(
        default=".",
        alias="from",
        description="folder in which it runs, relative to the scenario's file",
        examples=["../myserver"],
    )
    env: Mapping[VariableName, StrictStr | StrictInt | StrictFloat] = Field(
        default_factory=dict,
        description="environment variables of the command, added to its machine's",
        examples=[{"GOTOOLCHAIN": "go1.22.10"}],
    )


class SourceOptions(Frozen):
    """A version of the server in a git repository."""

    git: LocalPath = Field(
        default=".", description="folder in the repository, relative to the scenario's file", examples=["../myserver"]
    )
    ref: Annotated[str, StringConstraints(strict=True, min_length=1, pattern=r"^[^-\x00-\x20][^\x00-\x20]*$")] = Field(
        description="tag, branch or commit to build, or `worktree`: the files as they are, without what git ignores",
        examples=["v1.2"],
    )

    def checkout(self, folder: str) -> tuple[GitState, Path]:
        """Return the state that `ref` names, and the path of a folder in its checkout. Raises InputError."""
        state = resolve_ref(Path(self.git), self.ref)
        return state, (Path(self.git) / folder).resolve().relative_to(state.repository.resolve())


class ReadyOptions(Frozen):
    """The condition under which a started server is ready."""

    path: RequestPath | None = Field(
        default=None,
        description="path that must answer with `status`; absent: it is ready when its socket accepts connections",
        examples=["/health"],
    )
    status: Status = Field(default=200, description="status of that answer")
    within_s: TimeoutS = Field(default=READY_TIMEOUT_S, description="time from the start, after which it has failed")

    @property
    def request(self) -> ReadyRequest | None:
        """Request that must be answered; None: there is none."""
        return None if self.path is None else ReadyRequest(self.path, self.status)


class StopOptions(Frozen):
    """The way in which a server is stopped."""

    signal: SignalName = Field(
        default="TERM", description="signal to its whole process tree: TERM, INT, QUIT, …", examples=["INT"]
    )
    within_s: TimeoutS = Field(
        default=STOP_TIMEOUT_S, description="time after which its remaining processes are killed"
    )

    @property
    def stop_signal(self) -> StopSignal:
        """Signal and its time limit, in the form that a host takes."""
        return StopSignal(signal.Signals[f"SIG{self.signal}"], self.within_s)


class CommandOptions(ServiceOptions):
    """Options of a server that is started by its command line."""

    run: CommandLine = Field(
        description="its command line: a list of arguments, or text that is split as a shell splits it; no shell runs it",
        examples=[["./app", "--port", "{port}"]],
    )
    build: BuildOptions | None = Field(
        default=None,
        description="the command that builds it; absent: nothing is built",
        examples=[{"run": ["go", "build", "-o", "{out}/app", "."], "from": "../myserver"}],
    )
    source: SourceOptions | None = Field(
        default=None,
        description="version to build, in a clean checkout, to which `build.from` is then relative; absent: the files as they are",
        examples=[{"git": "../myserver", "ref": "$ref"}],
    )
    files: tuple[LocalPath, ...] = Field(
        default=(),
        description="files and folders to copy to its folder, relative to the scenario's file; a file `NAME.j2` is "
        "rendered by Jinja to `NAME`",
        examples=[["site/", "config.toml.j2"]],
    )
    cwd: Annotated[str, StringConstraints(strict=True, pattern=r"^/[^\x00]*$")] | None = Field(
        default=None,
        description="folder on its host in which it starts, absolute; absent: its own folder, with its files",
        examples=["/srv/app"],
    )
    env: Mapping[VariableName, StrictStr | StrictInt | StrictFloat] = Field(
        default_factory=dict,
        description="environment variables, added to its host's",
        examples=[{"MODE": "production"}],
    )
    ready: ReadyOptions = Field(
        default_factory=ReadyOptions, description="when it is ready for load", examples=[{"path": "/health"}]
    )
    stop: StopOptions = Field(
        default_factory=StopOptions, description="how it is stopped", examples=[{"signal": "INT", "within_s": 10}]
    )
    may_use_cpus: Annotated[int, Field(strict=True, gt=0)] | None = Field(
        default=None,
        description="CPUs that it can keep busy at once by its own settings, such as 1 for one thread; absent: all of its CPUs",
        examples=[1],
    )


class CommandBackend(Backend[CommandOptions]):
    """Any server, started by its command line, with files of yours and a command that builds it.

    In `run` and `env`, {host} and {port} or {socket} stand for its socket, {protocol} for its protocol, and {cpus} for
    the number of its CPUs. {folder} or {out} is its folder, where it starts, with its files and build output. With
    TLS, {certificate} and {certificate_key} stand for the files of its certificate. Templates know the same names.
    {{port}} stands for the text {port}.
    """

    name = "command"
    options = CommandOptions
    protocols = frozenset({"http1", "https1", "h2", "h2c", "h3"})

    def programs(self, options: CommandOptions) -> tuple[str, ...]:
        """Return the program, unless it is in the service's own folder."""
        return (options.run[0],) if _is_of_host(options.run[0]) else ()

    def resolve(self, options: CommandOptions, source: SourceMap) -> CommandOptions:
        """Return the options with the paths of files and of the sources of its build. Raises InputError."""
        known = (*(("host", "port") if options.listen.port else ("socket",)), *common_placeholders(options), "out")
        texts: list[tuple[Location, str]] = [(("run",), text) for text in options.run]
        texts += ((("env", name), str(value)) for name, value in options.env.items())
        require_placeholders(texts, known, source)
        if options.build is not None:
            require_placeholders(((("build", "run"), text) for text in options.build.run), ("out",), source)
        files = existing_files(options.files, source)
        build, version = options.build, options.source
        if version is not None:
            if build is None:
                message = "a version needs a build; to copy files as they are: build: {run: cp -r . {out}}"
                raise InputError(source.fault(("source",), message))
            version, state = existing_version(version, source)
            if not (Path(version.git) / build.from_).resolve().is_relative_to(state.repository.resolve()):
                raise InputError(source.fault(("build", "from"), f"it is outside of the repository {state.repository}"))
        elif build is not None:
            folder = existing_path(build.from_, source, ("build", "from"))
            if not folder.is_dir():
                raise InputError(source.fault(("build", "from"), f"{folder} is not a folder"))
            build = build.model_copy(update={"from_": str(folder)})
        return options.model_copy(update={"files": files, "build": build, "source": version})

    def local_files(self, options: CommandOptions) -> tuple[Path, ...]:
        """Return the files to copy."""
        return tuple(map(Path, options.files))

    def render(self, request: RenderRequest[CommandOptions]) -> Service:
        """Return the service."""
        options, place, endpoint = request.options, request.place, request.endpoint
        cpus = place.select_cpus(options.cpus, "cpus")
        values = {"out": str(place.folder), **common_values(request, cpus)}
        if endpoint.path is None:
            values |= {"host": str(endpoint.address), "port": str(endpoint.port)}
        else:
            values["socket"] = str(endpoint.path)
        files, build = list(carried_files(options.files, place, values)), options.build
        if build is not None:
            state, folder = (
                (None, Path(build.from_)) if options.source is None else options.source.checkout(build.from_)
            )
            env = tuple(sorted((name, str(value)) for name, value in build.env.items()))
            built = BuiltFolder(build.run, folder, place.goos, place.goarch, state, env)
            files.append(ServiceFile(place.folder, built))
        program, *arguments = (fill_in(word, values) for word in options.run)
        cwd = None if options.cwd is None else PurePosixPath(options.cwd)
        path = place.program(program).path if _is_of_host(options.run[0]) else str((cwd or place.folder) / program)
        return Service(
            name=request.name,
            backend=self.name,
            host=place.host,
            folder=place.folder,
            files=tuple(files),
            process=ServiceProcess(
                (path, *arguments),
                cpus,
                place.nofile,
                {name: fill_in(str(value), values) for name, value in options.env.items()},
                cwd=cwd,
            ),
            endpoint=endpoint,
            parallelism=options.may_use_cpus,
            ready_timeout_s=options.ready.within_s,
            ready_request=options.ready.request,
            stop=options.stop.stop_signal,
        )


def common_placeholders(options: ServiceOptions) -> tuple[str, ...]:
    """Return the names of the placeholders that commands and containers share, without those of its socket."""
    return ("protocol", "cpus", "folder", *(("certificate", "certificate_key") if is_tls(options.protocol) else ()))


def common_values(request: RenderRequest[ServiceOptions], cpus: Sequence[int]) -> dict[str, str]:
    """Return the values of `common_placeholders`."""
    folder = request.place.folder
    values = {"protocol": request.options.protocol, "cpus": str(len(cpus)), "folder": str(folder)}
    if request.endpoint.tls is not None:
        paths = tls_paths(folder)
        values |= {"certificate": str(paths.certificate), "certificate_key": str(paths.key)}
    return values


def existing_version(version: SourceOptions, source: SourceMap) -> tuple[SourceOptions, GitState]:
    """Return a version with the absolute path of its folder, and the state that it names. Raises InputError."""
    folder = existing_path(version.git, source, ("source", "git"))
    with source.located("source", "ref"):
        state = resolve_ref(folder, version.ref)
    return version.model_copy(update={"git": str(folder)}), state


def _is_of_host(program: str) -> bool:
    """Return True for a program that its host must have: by its name on the PATH there, or by an absolute path."""
    return program.startswith("/") or not re.search(r"[/{]", program)


def require_placeholders(texts: Iterable[tuple[Location, str]], known: Iterable[str], source: SourceMap) -> None:
    """Raise InputError naming the line of each placeholder of `texts` that is not among `known`."""
    values, faults = dict.fromkeys(known, ""), []
    for field, text in texts:
        try:
            fill_in(text, values)
        except ValueError as error:
            faults.append(source.fault(field, str(error)))
    raise_faults(faults)


def existing_path(path: str, source: SourceMap, field: Location) -> Path:
    """Return the absolute path of what a field names, relative to the scenario's file. Raises InputError."""
    found = source.file(path, *field)
    if not found.exists():
        raise InputError(source.fault(field, f"{found} does not exist"))
    return found


def existing_files(names: Iterable[str], source: SourceMap) -> tuple[str, ...]:
    """Return the absolute paths of the option `files`. Raises InputError."""
    return tuple(str(existing_path(path, source, ("files", i))) for i, path in enumerate(names))


def carried_files(names: Iterable[str], place: ServicePlacement, values: Mapping[str, str]) -> tuple[ServiceFile, ...]:
    """Return the files and folders of the controller for a service's folder, templates rendered. Raises FieldError."""
    files: dict[PurePosixPath, ServiceFile] = {}
    for text in names:
        path = Path(text)
        try:
            if text.endswith(TEMPLATE_SUFFIX) and path.is_file():
                rendered = render_config(path, **values).encode()
                name = path.name.removesuffix(TEMPLATE_SUFFIX)
                found: Sequence[ServiceFile] = [ServiceFile(place.folder / name, rendered, mode_of(path))]
            else:
                found = files_in(path, place.folder / path.resolve().name)
        except InputError as error:
            raise FieldError("files", error.summary, hint=error.hint) from None
        for file in found:
            if file.path in files:
                raise FieldError("files", f"two of them have the name {file.path.relative_to(place.folder)}")
            files[file.path] = file
    return tuple(files.values())


COMMAND = CommandBackend()
