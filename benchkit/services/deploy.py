"""Carrying services out on their hosts: files sent where they differ, checks run, processes started and stopped."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from benchkit.errors import HostError
from benchkit.hosts.files import Placed, PlacedFile
from benchkit.hosts.host import Host
from benchkit.hosts.processes import Process, Start, ToFile
from benchkit.hosts.sockets import Tcp, Unix
from benchkit.services.backend import Check, ControllerFile, File, GoSource, Preparation, Service
from benchkit.services.endpoint import Endpoint
from benchkit.services.go_build import build

CHECK_TIMEOUT_S = 10.0
STOP_GRACE_S = 3.0
LOG_BYTES = 1 << 20
"""What is kept of a service's output; a service that floods it is not a reason to fill a disk."""
LAST_LINES = 3


@dataclass(frozen=True)
class Running:
    """A service that was started, and the process that is it."""

    service: Service
    process: Process
    log: PurePosixPath


def deploy(host: Host, services: Iterable[Service]) -> Placed:
    """Put the files of services on their host, sending only what it does not have, prepare and check them.

    Doing it again changes nothing and sends no byte of them. Raises HostError, with the command's own words where one
    fails.
    """
    wanted = list(services)
    placed = place(host, [file for service in wanted for file in service.files])
    for service in wanted:
        for preparation in service.preparations:
            _prepare(host, service, preparation)
        for check in service.checks:
            why = _refused(host, service, check.argv, service.folder, check)
            if why is not None:
                raise HostError(f"{service.name} ({service.backend}) does not pass its check", where=host.name, why=why)
    return placed


def configs(service: Service) -> Iterator[tuple[str, str]]:
    """The configurations that a service runs with, as they were rendered: path on the host, and text."""
    for check in service.checks:
        yield str(check.config), _content(service, check).decode(errors="replace")


def judge(host: Host, service: Service, check: Check) -> str | None:
    """Why a host's own program refuses a configuration of a service, with the line it speaks of; None where it takes it.

    Nothing is deployed for it: the file stands in a folder of its own while it is read, and is gone afterwards. Raises
    HostError.
    """
    folder = host.workdir / "judged" / secrets.token_hex(4)
    there, here = str(service.folder), str(folder)
    text = _content(service, check).replace(there.encode(), here.encode())
    config = PurePosixPath(str(check.config).replace(there, here))
    argv = tuple(part.replace(there, here) for part in check.argv)
    try:
        host.files.place([PlacedFile(config, text)])
        return _refused(host, service, argv, folder, check)
    finally:
        host.files.remove(folder)


def place(host: Host, files: Iterable[File]) -> Placed:
    """Put files on a host, building those that are programs first. Raises HostError, or BenchkitError where one does not build."""
    return host.files.place([_placed(file) for file in files])


def start(host: Host, service: Service, logs: PurePosixPath, *, stays: bool = False) -> Running:
    """Start a service and wait until it accepts connections; its output goes to a file in `logs`.

    One that stays is to outlive this connection: its output has no ceiling, for the agent that watches over that will be
    gone. Raises HostError, with its last words, where it does not come up; what was started is stopped again.
    """
    process, log = service.process, logs / f"{service.name}.log"
    for folder in service.scratch:
        host.files.remove(folder)
        host.files.scratch(folder)
    for path in socket_files(service):
        host.files.remove(path)  # of one that was killed: a socket's file stays, and keeps the next from being made
    if process.quota is not None:
        host.changes.group(process.quota.role, process.quota.cpus)
    started = host.processes.start(
        Start(
            process.argv,
            env=process.env,
            cwd=service.folder,
            cpus=process.cpus,
            nofile=process.nofile,
            group=process.quota.role if process.quota else None,
            stdout=ToFile(log, None if stays else LOG_BYTES),
            stderr="stdout",
        )
    )
    running = Running(service, started, log)
    try:
        host.sockets.wait_open(socket_of(service.endpoint), service.ready_timeout_s, started)
    except HostError as error:
        host.processes.stop([started], grace_s=STOP_GRACE_S)
        said = last_words(host, log)
        raise HostError(
            f"{service.name} ({service.backend}) did not come up: {error.what}", where=host.name, why=said or error.why
        ) from error
    except BaseException:
        host.processes.stop([started], grace_s=STOP_GRACE_S)
        raise
    return running


def stop(host: Host, running: Sequence[Running]) -> None:
    """Stop services with all their descendants. Raises HostError naming what does not end."""
    host.processes.stop([each.process for each in running], grace_s=STOP_GRACE_S)


def socket_files(service: Service) -> list[PurePosixPath]:
    """The files of a service's unix sockets; one that is killed leaves them."""
    endpoints = [service.endpoint, *([service.admin.endpoint] if service.admin else [])]
    return [endpoint.path for endpoint in endpoints if endpoint.path is not None]


def require_free(host: Host, services: Iterable[Service]) -> None:
    """Raise HostError where a port that one of the services needs is taken, naming who has it."""
    host.sockets.require_free(service.endpoint.port for service in services if service.endpoint.port is not None)


def last_words(host: Host, log: PurePosixPath) -> str | None:
    """The last lines of a file of a host's."""
    text = host.files.read(log).decode(errors="replace").strip()
    return " / ".join(text.splitlines()[-LAST_LINES:]) or None


def socket_of(endpoint: Endpoint) -> Tcp | Unix:
    """The socket of an endpoint, as hosts name it."""
    if endpoint.path is not None:
        return Unix(endpoint.path)
    if endpoint.address is None or endpoint.port is None:
        raise ValueError(f"{endpoint}: neither a path nor an address with a port")
    return Tcp(endpoint.address, endpoint.port)


def by_host(services: Iterable[Service]) -> Mapping[str, list[Service]]:
    """Services grouped by the host they run on, in their order."""
    found: dict[str, list[Service]] = {}
    for service in services:
        found.setdefault(service.host, []).append(service)
    return found


def _refused(host: Host, service: Service, argv: tuple[str, ...], folder: PurePosixPath, check: Check) -> str | None:
    """Run a check in a folder; its own words where it does not end with 0."""
    done = host.processes.run(argv, cwd=folder, timeout_s=CHECK_TIMEOUT_S)
    if done.ok:
        return None
    said = (done.stderr or done.stdout).decode(errors="replace").strip()
    if not said:
        return "it did not end" if done.timed_out else str(done.ended)
    return explained(said, check.config.name, _content(service, check).decode(errors="replace"))


def explained(said: str, name: str, text: str) -> str:
    """What a program says against its configuration, each line of that it speaks of beside the words; pure.

    `name` is the file's, `text` its content.
    """
    lines = text.splitlines()
    shown = []
    for word in said.splitlines():
        found = re.search(rf"(?:in )?(?P<path>\S*/{re.escape(name)}):(?P<line>[0-9]+)", word)
        number = int(found["line"]) if found else 0
        if found and 0 < number <= len(lines):
            shown.append(f"{word.replace(found['path'], name)}: `{lines[number - 1].strip()}`")
        elif not word.endswith("test failed"):
            shown.append(word)
    return " / ".join(shown)


def _content(service: Service, check: Check) -> bytes:
    content = next(file.content for file in service.files if file.path == check.config)
    if not isinstance(content, bytes):
        raise TypeError(f"{check.config} is no text")
    return content


def _placed(file: File) -> PlacedFile:
    if isinstance(file.content, GoSource):
        source = file.content
        built = build(
            source.module, goos=source.goos, goarch=source.goarch, go_version=source.go_version, package=source.package
        )
        return PlacedFile(file.path, built.path, file.mode)
    content = file.content.read() if isinstance(file.content, ControllerFile) else file.content
    return PlacedFile(file.path, content, file.mode)


def _prepare(host: Host, service: Service, preparation: Preparation) -> None:
    argv = preparation.argv
    done = host.processes.run(argv, env=preparation.env, cwd=service.folder, timeout_s=preparation.timeout_s)
    if not done.ok:
        said = (done.stderr or done.stdout).decode(errors="replace").strip()
        why = said or (f"it did not end in {preparation.timeout_s:g} s" if done.timed_out else str(done.ended))
        raise HostError(f"{service.name} ({service.backend}) cannot be prepared", where=host.name, why=why)
