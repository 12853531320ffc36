"""The steps of a trial that handle its services: start, outages, checks after the load, disk usage, logs, stop."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from benchkit.agent.files import FileStore
from benchkit.agent.operations import ProcessSpec, ToFile
from benchkit.errors import (
    HostError,
    HostStateError,
    LostError,
    ServiceError,
    collect_errors,
    raise_first,
)
from benchkit.hosts.connections import run_on_hosts
from benchkit.hosts.host import Host
from benchkit.run.steps.state import Trial
from benchkit.services import deploy
from benchkit.services.deploy import RunningService
from benchkit.services.service import Service
from benchkit.store.run_log import log_step

logger = logging.getLogger(__name__)

KIB = 1024
PORT_IN_USE = re.compile("address (?:already )?in use|EADDRINUSE", re.IGNORECASE)
"""The error of bind(2) as C, Go, Java, Node, Perl, Python and Rust print it."""
ROOM_BYTES = 1 << 20
"""Size of a test file that shows that a host has free space: more than a program frees when it fails."""
ROOM_TIMEOUT_S = 5.0
EXIT_DELAY_S = 0.5
"""Longest wait for the exit of a service, which a load tool may notice earlier by a closed connection."""


def require_free_ports(trial: Trial) -> None:
    """Check that no process listens on the services' ports."""
    for host, services in deploy.group_by_host(trial.own_services).items():
        deploy.require_ports_free(trial.hosts[host], services)


def make_folders(trial: Trial) -> None:
    """Make the trial's folder on its hosts, which remove it even if the controller is lost."""
    run_on_hosts(trial.used_hosts, lambda host: host.call(FileStore.mkdir_temporary, trial.folder))


def require_room(trial: Trial) -> None:
    """Check that the trial's hosts accept another folder, process, and file of `ROOM_BYTES`. Raises HostStateError."""
    for host in trial.used_hosts:
        folder = trial.folder / "room"
        try:
            host.call(FileStore.mkdir_temporary, folder)
            command = ("head", "-c", str(ROOM_BYTES), "/dev/zero")
            writer = host.processes.start(ProcessSpec(command, stdout=ToFile(folder / "file")))
            writer.wait(ROOM_TIMEOUT_S)
            written = writer.outputs()["stdout"]
            if written.is_host_state:
                raise HostStateError("no room in the work directory", where=host.name, why=written.error)
        finally:
            host.call(FileStore.remove, folder)


def start_services(trial: Trial) -> None:
    """Start the services one after the other, each as soon as the previous one accepts connections."""
    if trial.owner is not None:
        trial.running_services = trial.owner.running_services
    for service in trial.own_services:
        with log_step(logger, f"start {service.name} ({service.backend})", service.host):
            host = trial.hosts[service.host]
            try:
                trial.running_services.append(deploy.start(host, service, trial.folder))
            except ServiceError:
                deploy.require_ports_free(host, [service])  # another process may have taken its port meanwhile
                raise


def cause_outages(trial: Trial) -> None:
    """Stop the services for which the cell plans an outage in the measured window."""
    for host, services in trial.services_by_host():
        failing = [each for each in services if each.service.outage]
        if failing:
            with log_step(logger, f"stop {', '.join(each.service.name for each in failing)} (outage)", host.name):
                deploy.stop(host, failing)


@contextmanager
def blame_ended_service(trial: Trial) -> Iterator[None]:
    """Replace an error of the load by the error of the service whose end caused it."""
    try:
        yield
    except (LostError, HostStateError):
        raise
    except HostError:
        require_alive(trial, EXIT_DELAY_S)
        raise


def require_alive(trial: Trial, wait_s: float = 0.0) -> None:
    """Check that no service has ended during the trial, unless the cell plans its outage.

    Waits `wait_s` seconds for the end of each. Raises ServiceError with the last lines of the service's log.
    """
    for host, services in trial.services_by_host():
        for each in services:
            if each.service.outage:
                continue
            ended = each.process.wait(wait_s)
            if ended is not None:
                in_background = each.service.container is None and deploy.is_in_background(host, each)
                raise ServiceError(
                    f"{each.service.name} ({each.service.backend}) ended during the trial with {ended}",
                    where=host.name,
                    why=deploy.IN_BACKGROUND if in_background else deploy.explain_end(host, each),
                    hint=deploy.STAY_IN_FOREGROUND if in_background else None,
                )


def measure_disk_usage(trial: Trial) -> None:
    """Measure the disk space of the services' own folders, such as a cache."""
    for host, services in trial.services_by_host():
        for service in (each.service for each in services):
            for folder in service.scratch_folders:
                usage = host.processes.run(["du", "-sk", str(folder)])
                if not usage.stdout:  # du prints a total even if a file vanishes meanwhile
                    what = f"cannot measure the size of {folder}"
                    raise HostError(what, where=host.name, why=usage.printed_errors)
                size = int(usage.stdout.split()[0]) * KIB
                trial.folder_bytes.setdefault(service.name, {})[folder.name] = size


def collect_logs(trial: Trial) -> None:
    """Fetch the logs of all services, including one that failed to start.

    If a host fails, the logs of the others are still fetched. Raises the first HostError afterwards.
    """

    def fetch(host: Host, services: Sequence[Service]) -> None:
        sizes = host.call(FileStore.list_folder, trial.folder)
        for log in (deploy.log_path(service, trial.folder) for service in services):
            if sizes.get(log.name):
                trial.files[f"{log.stem}.{host.name}.log"] = host.files.read(log)

    by_host = deploy.group_by_host(trial.cell.services).items()
    raise_first(collect_errors(partial(fetch, trial.hosts[name], services) for name, services in by_host))


def stop_services(trial: Trial) -> None:
    """Stop all services, even if a host fails. Raises the first HostError afterwards."""

    def stop(host: Host, services: Sequence[RunningService]) -> None:
        with log_step(logger, f"stop {', '.join(running.service.name for running in services)}", host.name):
            trial.killed += deploy.stop(host, services)

    if trial.owner is None:
        raise_first(collect_errors(partial(stop, host, services) for host, services in trial.services_by_host()))


def remove_folders(trial: Trial) -> None:
    """Remove the trial's folder and the services' own files, even if one fails. Raises the first HostError."""
    by_host = deploy.group_by_host(trial.own_services)

    def remove(host: Host) -> None:
        paths = [trial.folder]
        for service in by_host.get(host.name, ()):
            paths += [*service.scratch_folders, *deploy.socket_files(service)]
        raise_first(collect_errors(partial(host.call, FileStore.remove, path) for path in paths))

    run_on_hosts(trial.used_hosts, remove)
