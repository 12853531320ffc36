"""Deployment of services: files, setup commands, tests of configurations, and starting and stopping of processes."""

from __future__ import annotations

import secrets
import signal
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from benchkit.agent.cgroups import Cgroups
from benchkit.agent.files import FileStore
from benchkit.agent.operations import ProcessSpec, SocketAddress, StopSignal, ToFile
from benchkit.agent.processes import ProcessTable
from benchkit.errors import HostError, HostStateError, LostError, ServiceError
from benchkit.hosts.files import FileChanges, PlacedFile, hint_at_private_folder
from benchkit.hosts.host import Host
from benchkit.hosts.processes import HostProcess
from benchkit.services import container_engine
from benchkit.services.certificates import tls_paths
from benchkit.services.controller_files import files_below, mode_of
from benchkit.services.http_probe import PROGRAM, ProbeRequest, send_requests
from benchkit.services.placement import Endpoint
from benchkit.services.service import (
    ConfigTest,
    ControllerFile,
    ReadyRequest,
    Service,
    ServiceFile,
)

TEST_TIMEOUT_S = 10.0
BIND_TIMEOUT_S = 0.5
"""Time for a service to end if another program took its port while it started."""
SLOW_BIND_TIMEOUT_S = 5.0
"""Time for it to end if the other program was there before: a JVM, or a busy machine, takes seconds to listen."""
READY_PAUSE_S = 0.05
"""Time between two requests to a service that is not ready yet."""
LOG_BYTES = 1 << 20
"""Limit of a service's log, so that a service that prints without end does not fill the disk."""
IN_BACKGROUND = "its first process ended and left others in the background"
STAY_IN_FOREGROUND = "let it run in the foreground (an option like nginx's `daemon off`): its first process is watched"
MORE_TIME = "give a server that starts slowly more time: --ready-within, or ready: {within_s: 60} of a service"
NETAVARK = "netavark makes podman's bridges and published ports with iptables: install iptables on the host; `network: host` needs none"
LAST_LOG_LINES = 20
"""Lines of a log that an error message quotes."""


@dataclass(frozen=True)
class RunningService:
    """A service that was started, with its process and its log."""

    service: Service
    process: HostProcess
    log: PurePosixPath


def deploy(host: Host, services: Iterable[Service]) -> FileChanges:
    """Place the files of services on their host, run their setup commands, and test their configurations.

    This is idempotent: a second call sends no file. Raises HostError with the output of a command that fails.
    """
    wanted = list(services)
    placed = place_files(host, [file for service in wanted for file in service.files])
    for service in wanted:
        if not service.files:
            host.call(FileStore.mkdir, service.folder)  # the service starts there
        if service.container is not None:
            container_engine.bring_image(host, service.container, service.backend)
        for command in service.setup_commands:
            reason = _failure(host, command.argv, service.folder, command.timeout_s, command.env)
            if reason is not None:
                what = f"a setup command of {service.name} ({service.backend}) failed: {command.argv[0]}"
                raise HostError(what, where=host.name, why=reason)
        for test in service.config_tests:
            reason = _failure(host, test.argv, service.folder)
            if reason is not None:
                raise HostError(
                    f"the configuration of {service.name} ({service.backend}) is not valid", where=host.name, why=reason
                )
    return placed


def rendered_configs(service: Service) -> Iterator[tuple[str, str]]:
    """Yield the path on the host and the text of each configuration of a service."""
    for test in service.config_tests:
        yield str(test.config), _config_bytes(service, test).decode(errors="replace")


def config_fault(host: Host, service: Service, test: ConfigTest) -> str | None:
    """Return why the host's program rejects a configuration; None if it accepts it.

    Nothing is deployed: the file is placed with its certificates in a temporary folder, tested there and removed.
    Raises HostError.
    """
    folder = host.workdir / "judged" / secrets.token_hex(4)
    deployed, temporary = str(service.folder), str(folder)
    text = _config_bytes(service, test).replace(deployed.encode(), temporary.encode())
    config = PurePosixPath(str(test.config).replace(deployed, temporary))
    argv = tuple(argument.replace(deployed, temporary) for argument in test.argv)
    try:
        certificates = [file for file in service.files if file.path.parent == tls_paths(service.folder).key.parent]
        moved = [replace(file, path=folder / file.path.relative_to(service.folder)) for file in certificates]
        place_files(host, [ServiceFile(config, text), *moved])
        return _failure(host, argv, folder)
    finally:
        host.call(FileStore.remove, folder)


def place_files(host: Host, files: Iterable[ServiceFile]) -> FileChanges:
    """Place files on a host; build those that are programs first. Raises HostError, BenchkitError if a build fails."""
    return host.files.place([placed for file in files for placed in _load(file)])


def start(host: Host, service: Service, logs: PurePosixPath, *, stays: bool = False) -> RunningService:
    """Start a service and wait until it accepts connections; its output goes to a file in the folder `logs`.

    With `stays` it will outlive this connection; its log has no limit then, because the agent that enforces it will be
    gone. Raises ServiceError with the last lines of the log where the service does not open its socket; it is stopped
    then.
    """
    process, log, container = service.process, log_path(service, logs), service.container
    for folder in service.scratch_folders:
        host.call(FileStore.remove, folder)
        host.call(FileStore.mkdir_temporary, folder)
    # A killed process leaves its socket's file, with which the next one cannot bind.
    for path in (*service.fresh_files, *socket_files(service)):
        host.call(FileStore.remove, path)
    if process.quota is not None and container is None:
        host.call(Cgroups.create, process.quota.role, process.quota.cpus)
    spec = ProcessSpec(
        process.argv if container is None else container_engine.start_arguments(host, service, container, logs.name),
        env=process.env,
        cwd=process.cwd or service.folder,
        cpus=process.cpus,
        nofile=process.nofile,
        group=process.quota.role if process.quota and container is None else None,
        stdout=ToFile(log, None if stays else LOG_BYTES),
        stderr="stdout",
        stop=service.stop,
    )
    try:
        started = host.processes.start(spec)
    except HostError as error:
        error.hint = error.hint or hint_at_private_folder(error.what)
        raise
    running = RunningService(service, started, log)
    try:
        try:
            _wait_until_ready(host, service, started)
        except (LostError, HostStateError):
            raise
        except HostError as error:
            raise _explain_failed_start(host, running, error) from error
    except BaseException:
        stop(host, [running])
        raise
    return running


def stop(host: Host, services: Sequence[RunningService]) -> tuple[str, ...]:
    """Stop services with all their descendants; return a sentence for each group that had to be killed.

    Raises HostError naming the processes that do not end.
    """
    groups: dict[StopSignal, list[RunningService]] = {}
    for running in services:
        groups.setdefault(running.service.stop, []).append(running)
    killed = []
    for how, group in groups.items():
        names_of_killed = host.processes.stop(
            [each.process for each in group], signum=signal.Signals(how.signum), grace_s=how.within_s
        )
        if names_of_killed:
            names = " and ".join(each.service.name for each in group)
            killed.append(
                f"{names} did not end within {how.within_s:g} s of {signal.Signals(how.signum).name}, and was killed: "
                f"{', '.join(names_of_killed)}"
            )
    for running in services:
        if running.service.container is not None:
            container_engine.remove(host, running.service.container)
    return tuple(killed)


def is_in_background(host: Host, running: RunningService) -> bool:
    """Return True where the first process of a service has ended, and others still run. Raises HostError."""
    return running.process.wait(0) is not None and bool(host.call(ProcessTable.members, running.process.id))


def explain_end(host: Host, running: RunningService) -> str | None:
    """Return what its engine and its log know about the end of a service. Raises HostError."""
    container = running.service.container
    known = None if container is None else container_engine.why_ended(host, container, running.process)
    return "; ".join(filter(None, (known, last_log_lines(host, running.log)))) or None


def socket_files(service: Service) -> list[PurePosixPath]:
    """Return the files of a service's unix sockets; a killed service leaves them behind."""
    endpoints = [service.endpoint, *([service.admin.endpoint] if service.admin else [])]
    return [*(endpoint.path for endpoint in endpoints if endpoint.path is not None), *service.inner_sockets]


def require_ports_free(host: Host, services: Iterable[Service]) -> None:
    """Raise HostError where a port that one of the services needs is in use, naming the process that has it."""
    own = [service for service in services if service.container is None or service.container.network != "bridge"]
    of_tcp, of_udp = (
        [each.port for service in own if (each := socket_of(service.endpoint)).kind == kind] for kind in ("tcp", "udp")
    )
    host.sockets.require_free(of_tcp)
    if of_udp:
        host.sockets.require_free(of_udp, udp=True)


def log_path(service: Service, logs: PurePosixPath) -> PurePosixPath:
    """Return the file in the folder `logs` with the output of a service."""
    return logs / f"{service.name}.log"


def last_log_lines(host: Host, log: PurePosixPath) -> str | None:
    """Return the last lines of a log on a host, each on a line of its own, for messages; None if it is empty."""
    lines = host.files.read(log).decode(errors="replace").strip().splitlines()
    if len(lines) <= 1:
        return "".join(lines) or None
    shown = lines[-LAST_LOG_LINES:]
    title = f"the last {len(shown)} of {len(lines)} lines of its log" if len(shown) < len(lines) else "its log"
    return "\n    ".join([f"{title}:", *shown])


def socket_of(endpoint: Endpoint) -> SocketAddress:
    """Return the socket of an endpoint as the agent addresses it."""
    if endpoint.path is not None:
        return SocketAddress("unix", str(endpoint.path))
    if endpoint.address is None or endpoint.port is None:
        raise ValueError(f"{endpoint}: neither a path nor an address with a port")
    return SocketAddress("udp" if endpoint.protocol == "h3" else "tcp", endpoint.address, endpoint.port)


def group_by_host(services: Iterable[Service]) -> Mapping[str, list[Service]]:
    """Return the services of each host, in their order."""
    grouped: dict[str, list[Service]] = {}
    for service in services:
        grouped.setdefault(service.host, []).append(service)
    return grouped


def _wait_until_ready(host: Host, service: Service, process: HostProcess) -> None:
    """Wait until a service accepts connections, answers its ready request, and has its data. Raises HostError."""
    deadline = time.monotonic() + service.ready_timeout_s
    if service.container is not None:
        container_engine.adopt(host, service.container, process)
    socket = socket_of(service.endpoint)
    try:
        host.sockets.wait_open(socket, service.ready_timeout_s, process)
    except (LostError, HostStateError):
        raise
    except HostError as error:
        _explain_no_connection(host, service, process, error)
        raise
    is_in_network = service.container is None or service.container.network == "host"
    if socket.kind != "unix" and is_in_network:
        host.sockets.require_own_listener(process, socket, BIND_TIMEOUT_S, SLOW_BIND_TIMEOUT_S)
    if service.endpoint.path is not None:
        # Processes of other users, such as the workers of nginx, connect to it if they may enter its folder.
        shared = host.processes.run(["chmod", "a+rw", str(service.endpoint.path)])
        if not shared.ok:
            raise HostError("a socket cannot be shared", where=host.name, why=shared.printed_errors)
    if service.container is not None:
        container_engine.wait_ready(host, service.container, process, deadline)
    if service.ready_request is not None:
        _wait_answer(host, service, process, service.ready_request, deadline)
    if service.container is not None:
        container_engine.prepare(host, service, service.container)


def _explain_no_connection(host: Host, service: Service, process: HostProcess, error: HostError) -> None:
    """Add to the error of a service that accepts no connections where it listens instead."""
    listeners = host.sockets.listeners(process, udp=service.endpoint.protocol == "h3")
    if listeners and process.wait(0) is None:
        error.why = f"it listens on {' and '.join(map(str, listeners))} instead; {error.why}"
        error.hint = (
            f"let it listen on {service.endpoint.authority}: {{host}} and {{port}} in its command line stand for that "
            "address and port; `listen` in a scenario file names others"
        )


def _wait_answer(host: Host, service: Service, process: HostProcess, request: ReadyRequest, deadline: float) -> None:
    """Wait until a service answers a request with the status that it states. Raises HostError."""
    while True:
        timeout_s = max(READY_PAUSE_S, deadline - time.monotonic())
        try:
            status = _status_of(host, service, request.path, timeout_s)
            found = f"it answers {status}"
        except (LostError, HostStateError):
            raise
        except HostError as error:
            status, found = None, error.why or error.what
        if status == request.status:
            return
        ended = process.wait(0)
        if ended is not None:
            raise HostError(f"{process.argv[0]} ended before it was ready", where=host.name, why=str(ended))
        if time.monotonic() + READY_PAUSE_S > deadline:
            raise HostError(
                f"{request.path} does not answer {request.status} within {service.ready_timeout_s:g} s",
                where=host.name,
                why=found,
            )
        time.sleep(READY_PAUSE_S)


def _status_of(host: Host, service: Service, path: str, timeout_s: float) -> int:
    """Return the status of a service's answer to a GET request. Raises HostError."""
    endpoint = service.endpoint
    if endpoint.protocol == "http1":
        found = host.sockets.get_http(socket_of(endpoint), path, host_header=endpoint.host_header, timeout_s=timeout_s)
        return found.status
    request = ProbeRequest("GET", path, [("Host", endpoint.host_header), ("Connection", "close")])
    authority = tls_paths(service.folder).authority
    program = service.folder / PROGRAM
    (answer,) = send_requests(host, program, endpoint, [request], ca_file=authority, timeout_s=timeout_s)
    return answer.status


def _explain_failed_start(host: Host, running: RunningService, error: HostError) -> ServiceError:
    """Return the error of a service that is not ready, with the end of its log and what it does instead."""
    service, process = running.service, running.process
    instead, hint = None, error.hint
    if service.container is None and is_in_background(host, running):
        instead, hint = IN_BACKGROUND, STAY_IN_FOREGROUND
    if service.container is not None and process.wait(0) is not None:
        instead = container_engine.why_ended(host, service.container, process)
    log = host.files.read(running.log).decode(errors="replace")
    hint = hint or hint_at_private_folder(
        " ".join(process.argv),
        log,
        is_on_host=lambda path: host.processes.run(("test", "-e", path), timeout_s=TEST_TIMEOUT_S).ok,
    )
    if service.container is not None and "netavark" in log:
        hint = NETAVARK
    if hint is None and process.wait(0) is None:
        hint = MORE_TIME
    return ServiceError(
        f"{service.name} ({service.backend}) did not start: {error.what}",
        where=host.name,
        why="; ".join(filter(None, (instead, error.why, last_log_lines(host, running.log)))),
        hint=hint,
    )


def _failure(
    host: Host,
    argv: tuple[str, ...],
    folder: PurePosixPath,
    timeout_s: float = TEST_TIMEOUT_S,
    env: Mapping[str, str] | None = None,
) -> str | None:
    """Run a command, and return why it failed; None: it exited with code 0."""
    done = host.processes.run(argv, env=env, cwd=folder, timeout_s=timeout_s)
    if done.ok:
        return None
    return done.printed or (f"it did not end within {timeout_s:g} s" if done.timed_out else str(done.ended))


def _config_bytes(service: Service, test: ConfigTest) -> bytes:
    content = next(file.content for file in service.files if file.path == test.config)
    if not isinstance(content, bytes):
        raise TypeError(f"{test.config} is not text")
    return content


def _load(file: ServiceFile) -> Iterator[PlacedFile]:
    content = file.content.read() if isinstance(file.content, ControllerFile) else file.content
    if isinstance(content, Path) and content.is_dir():
        for path in files_below(content):
            yield PlacedFile(file.path / path.relative_to(content), path, mode_of(path))
    else:
        yield PlacedFile(file.path, content, file.mode, file.owner)
