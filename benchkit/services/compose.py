"""Compose files as services: each service of the file becomes a container of the stack.

Of the Compose specification, only fields are read that a measurement needs and both engines support. Any other field
is refused by name. So every service is started, measured and removed as any container, without an engine's own compose.
"""

from __future__ import annotations

import functools
import logging
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from benchkit.document import Document, SourceMap, read_document
from benchkit.errors import InputError, raise_faults, suggestion
from benchkit.models.base import Cpus, Name
from benchkit.services.backend import BackendOptions
from benchkit.services.command import LocalPath, ReadyOptions, StopOptions
from benchkit.services.images import find_image
from benchkit.services.placement import ListenOption
from benchkit.services.templates import CommandLine

COMPOSE = "compose"
"""The value of `backend` in scenarios."""

TOP_LEVEL = ("version", "name", "services", "volumes", "networks", "secrets")
FIELDS = (
    *("image", "build", "command", "environment", "ports", "expose", "volumes", "depends_on"),
    *("healthcheck", "user", "read_only", "cpus", "mem_limit", "stop_signal", "secrets"),
)
"""Fields of a service that are read."""
IGNORED = ("restart", "container_name", "networks", "hostname", "labels", "logging", "stdin_open", "tty")
"""Fields that change nothing here: benchkit starts and names containers itself, and all of them reach each other."""
BUILD_FIELDS = ("context", "dockerfile", "target", "args")

_PLACEHOLDER = re.compile(r"\{([a-z][a-z_]*)\}")
_VOLUME = re.compile(r"(?P<source>[^:]+):(?P<target>/[^:]*)(:(?P<mode>ro|rw))?")
_PORT = re.compile(r"(.*:)?(?P<port>[0-9]{1,5})(/tcp)?")


progress_logger = logging.getLogger(f"{__name__}.progress")
"""Messages for users, which the command line shows without any option."""


class ComposeOptions(BackendOptions):
    """Options of the services of a Compose file, which start in the order of `depends_on` and are each measured."""

    file: LocalPath = Field(description="Compose file, relative to the scenario's", examples=["../shop/compose.yaml"])
    entry: Annotated[str, StringConstraints(strict=True, pattern=r"^[a-zA-Z0-9._-]+:[0-9]{1,5}$")] = Field(
        description="service that gets the load, and its port in the container", examples=["web:80"]
    )
    listen: ListenOption = Field(description="port of the host that leads to the entry", examples=[8080])
    role: Name = Field(default="sut", description="role of the host that it runs on")
    cpus: Cpus = Field(default="all", description="CPUs that all of its services may run on, as of any service")
    override: Mapping[str, Mapping[str, Any]] = Field(
        default_factory=dict,
        description="fields of the file's services to override; levels of factors belong here",
        examples=[{"web": {"environment": {"POOL": "$pool"}}}],
    )
    engine: Literal["auto", "podman", "docker"] = Field(
        default="auto", description="auto: podman where the host has it, else docker"
    )
    pull: Literal["never", "missing"] = Field(
        default="never", description="missing: the host pulls images that this machine does not have"
    )
    ready: ReadyOptions = Field(
        default_factory=ReadyOptions, description="when the entry is ready for load", examples=[{"path": "/health"}]
    )
    prepare: Mapping[str, CommandLine] = Field(
        default_factory=dict,
        description="commands in containers that fill fresh volumes before the load, by service; their time is not measured",
        examples=[{"db": "psql -U postgres -f /init.sql"}],
    )


def compose_containers(name: str, options: ComposeOptions, source: SourceMap) -> Iterator[tuple[str, Document]]:
    """Yield the services of a Compose file, in the order in which they start: their names and options as containers.

    The entry has the name of the stack's service, each other one this name and its own: `shop-db`. Raises InputError
    naming file, line and field.
    """
    path = source.file(options.file, "file")
    document, services = _read(path, options, source)
    entry, _, entry_port = options.entry.rpartition(":")
    for field, wanted in (("entry", [entry]), ("prepare", options.prepare)):
        for service in wanted:
            if service not in services:
                message = f"{path} has no service {service!r}; {suggestion(service, services)}"
                raise InputError(source.fault((field,), message))
    if ignored := tuple(field for field in IGNORED if any(field in each for each in services.values())):
        _note_ignored(path, ignored)
    plain = {service: re.sub(r"[^a-z0-9_-]", "-", service.lower()) for service in services}
    names = {service: name if service == entry else f"{name}-{plain[service]}" for service in services}
    for service in _in_order(services, document):
        reader = _ServiceReader(
            Document(services[service], document.source.at("services", service)),
            path.parent,
            options,
            document.data.get("secrets") or {},
        )
        data = reader.container(int(entry_port) if service == entry else None)
        peers = {other: names[other] for other in services if other != service}
        prepare = {"prepare": list(options.prepare[service])} if service in options.prepare else {}
        yield names[service], Document({**data, "peers": peers, **prepare}, source)


def _read(path: Path, options: ComposeOptions, source: SourceMap) -> tuple[Document, dict[str, dict[str, Any]]]:
    """Return a Compose file, and its services with what the scenario overrides. Raises InputError."""
    document = read_document(path)
    _require_known(document, (), TOP_LEVEL)
    for part in ("services", "volumes", "networks", "secrets"):
        if not isinstance(document.data.get(part) or {}, dict):
            raise InputError(document.fault((part,), "allowed: a mapping"))
    services: dict[str, dict[str, Any]] = dict(document.data.get("services") or {})
    for service, fields in options.override.items():
        if service not in services:
            message = f"{path} has no service {service!r}; {suggestion(service, services)}"
            raise InputError(source.fault(("override", service), message))
        services[service] = _overridden(services[service], fields)
    return document, services


@functools.cache
def _note_ignored(path: Path, fields: tuple[str, ...]) -> None:
    progress_logger.warning(
        "%s: ignored: %s (benchkit starts, names and connects containers itself)", path, ", ".join(fields)
    )


class _ServiceReader:
    """One service of a Compose file, converted to the options of a container."""

    def __init__(self, document: Document, folder: Path, options: ComposeOptions, secrets: Mapping[str, Any]) -> None:
        self._document, self._folder, self._options, self._secrets = document, folder, options, secrets
        self._data: dict[str, Any] = document.data

    def container(self, entry_port: int | None) -> dict[str, Any]:
        """Return the options of its container; `entry_port`: the port that gets the load. Raises InputError."""
        _require_known(self._document, (), (*FIELDS, *IGNORED))
        if text := next(_interpolations(self._data), None):
            raise self._fault(
                (), f"{text} needs interpolation, which is not supported: write the value, or use `override`"
            )
        options, port = self._options, entry_port or self._port()
        files, mounts = self._volumes()
        command, ready = self._data.get("command"), self._health()
        words = shlex.split(command) if isinstance(command, str) else command or ()
        listen: int | str | None = options.listen.port
        if options.listen.address is not None:
            listen = f"{options.listen.address}:{listen}"
        found = {
            "backend": "container",
            **self._image(),
            "pull": options.pull,
            "role": options.role,
            "cpus": options.cpus,
            "engine": options.engine,
            "listen": listen if entry_port else port,
            "port": port,
            "network": "published" if entry_port else "bridge",
            "environment": self._environment(),
            "files": files,
            "mounts": mounts,
            "command": None if command is None else [_escaped(str(word)) for word in words],
            "ready_command": ready,
            "ready": (options.ready if entry_port else ReadyOptions(within_s=options.ready.within_s)).model_dump(),
            "user": None if "user" not in self._data else str(self._data["user"]),
            "read_only": self._data.get("read_only", False),
            "quota": None if "cpus" not in self._data else float(self._data["cpus"]),
            "memory": str(self._data["mem_limit"]).lower().removesuffix("b") if "mem_limit" in self._data else None,
        }
        if "stop_signal" in self._data:
            found["stop"] = StopOptions(signal=str(self._data["stop_signal"]).removeprefix("SIG")).model_dump()
        return {field: value for field, value in found.items() if value is not None}

    def _fault(self, field: tuple[str | int, ...], message: str) -> InputError:
        return InputError(self._document.fault(field, message))

    def _image(self) -> dict[str, Any]:
        build = self._data.get("build")
        if build is None:
            return {"image": self._data.get("image")}
        if isinstance(build, str):
            build = {"context": build}
        else:
            _require_known(self._document, ("build",), BUILD_FIELDS)
        options = {
            "context": str(self._folder / build.get("context", ".")),
            "file": build.get("dockerfile", "Dockerfile"),
        }
        options |= {"target": build["target"]} if "target" in build else {}
        return {"build": {**options, "args": _pairs(build.get("args") or {})}}

    def _port(self) -> int:
        """Return the port that a service without load opens when it is ready."""
        for field in ("expose", "ports"):
            for each in self._data.get(field) or ():
                if match := _PORT.fullmatch(str(each)):
                    return int(match["port"])
        if self._data.get("image") is not None and "build" not in self._data:
            found = find_image(str(self._data["image"]))
            if found is not None and found[1].ports:
                return found[1].ports[0]
        raise self._fault((), "no port is known at which it is ready; name one with `expose`")

    def _environment(self) -> dict[str, Any]:
        pairs = _pairs(self._data.get("environment") or {})
        for name, value in pairs.items():
            if value is None:
                raise self._fault(("environment",), f"{name} has no value, and this machine's value is not passed on")
        return {name: _escaped(str(value)) for name, value in pairs.items()}

    def _volumes(self) -> tuple[list[str], list[str]]:
        """Return the files to copy, and the mounts, secrets included."""
        files, mounts = [], []
        for i, secret in enumerate(self._data.get("secrets") or ()):
            file = (self._secrets.get(secret) or {}).get("file") if isinstance(secret, str) else None
            if file is None:
                raise self._fault(("secrets", i), "allowed: the name of a secret that has a `file`")
            path = (self._folder / file).resolve()
            files.append(str(path))
            mounts.append(f"./{path.name}:/run/secrets/{secret}:ro")
        for i, volume in enumerate(self._data.get("volumes") or ()):
            if isinstance(volume, str) and volume.startswith("/") and ":" not in volume:
                mounts.append(f"anonymous-{i}:{volume}:rw")
                continue
            match = _VOLUME.fullmatch(str(volume)) if isinstance(volume, str) else None
            if match is None:
                raise self._fault(("volumes", i), "allowed: SOURCE:TARGET or SOURCE:TARGET:ro")
            text, mode = match["source"], match["mode"] or "rw"
            if text.startswith("."):
                path = (self._folder / text).resolve()
                files.append(str(path))
                text = f"./{path.name}"
            mounts.append(f"{text}:{match['target']}:{mode}")
        return files, mounts

    def _health(self) -> list[str] | None:
        test = (self._data.get("healthcheck") or {}).get("test")
        match test:
            case None | ["NONE"]:
                return None
            case ["CMD", *words]:
                return [str(word) for word in words]
            case ["CMD-SHELL", text] | str(text):
                return ["sh", "-c", str(text)]
        raise self._fault(("healthcheck", "test"), "allowed: text, [CMD, …], [CMD-SHELL, TEXT] or [NONE]")


def _in_order(services: Mapping[str, Mapping[str, Any]], document: Document) -> Iterable[str]:
    """Return the services, each after those that it depends on. Raises InputError."""
    wanted: dict[str, list[str]] = {}
    for service, fields in services.items():
        names = fields.get("depends_on") or ()
        for name, how in names.items() if isinstance(names, dict) else ():
            if (how or {}).get("condition") == "service_completed_successfully":
                where = ("services", service, "depends_on", name)
                raise InputError(document.fault(where, "a service that ends is not supported; use `prepare`"))
        for name in names:
            if name not in services:
                message = f"no service {name!r}; {suggestion(name, services)}"
                raise InputError(document.fault(("services", service, "depends_on"), message))
        wanted[service] = list(names)
    try:
        return tuple(TopologicalSorter(wanted).static_order())
    except CycleError as error:
        circle = " → ".join(error.args[1])
        raise InputError(document.fault(("services",), f"they depend on each other: {circle}")) from None


def _require_known(document: Document, location: tuple[str | int, ...], known: Iterable[str]) -> None:
    """Raise InputError naming each field that is not read; extensions (`x-…`) are ignored."""
    data = document.at(*location).data
    if not isinstance(data, dict):
        raise InputError(document.fault(location, "allowed: a mapping"))
    raise_faults(
        document.fault((*location, field), f"{field} is not supported; supported: {', '.join(known)}")
        for field in data
        if field not in known and not str(field).startswith("x-")
    )


def _overridden(service: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    merged = {**service, **fields}
    if "environment" in fields:
        merged["environment"] = {**_pairs(service.get("environment") or {}), **_pairs(fields["environment"])}
    return merged


def _pairs(value: Mapping[str, Any] | Iterable[str]) -> dict[str, Any]:
    """Return variables, which a file has as a mapping or as a list of `NAME=VALUE`."""
    if isinstance(value, Mapping):
        return dict(value)
    split = (str(each).partition("=") for each in value)
    return {name: text if equals else None for name, equals, text in split}


def _escaped(text: str) -> str:
    """Return a text with words in braces escaped, so that none is a placeholder, and with `$` for `$$`."""
    return _PLACEHOLDER.sub(r"{{\1}}", text).replace("$$", "$")


def _interpolations(value: object) -> Iterator[str]:
    match value:
        case str():
            yield from re.findall(r"(?<!\$)(?:\$\$)*(\$\{?[A-Za-z_]\w*)", value)
        case dict() | list():
            for each in value.values() if isinstance(value, dict) else value:
                yield from _interpolations(each)
