"""The services of a trial: started afresh, still there after the load, stopped and cleared away."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from benchkit.errors import HostError, LostError
from benchkit.hosts.host import Host
from benchkit.run.steps.trial_state import Trial
from benchkit.services import deploy

KIB = 1024
NOTICED_S = 0.5
"""A load tool may hear that a service is gone before whoever waits for the service does."""


def require_free_ports(trial: Trial) -> None:
    """Nobody may listen where the services will; after the trial, nobody may listen there any more."""
    for host, services in deploy.group_by_host(trial.cell.services).items():
        deploy.require_ports_free(trial.hosts[host], services)


def make_folders(trial: Trial) -> None:
    """Make the trial's folder on its hosts, noted there, so that it goes even if nobody comes back to clear it away."""
    for host in _hosts(trial):
        host.files.scratch(trial.folder)


def start_services(trial: Trial) -> None:
    """Start every service afresh, each when those before it accept connections."""
    for service in trial.cell.services:
        trial.running.append(deploy.start(trial.hosts[service.host], service, trial.folder))


def cause_outages(trial: Trial) -> None:
    """Stop the services that the cell wants to be gone in the measured window."""
    for host, services in trial.by_host():
        leaving = [each for each in services if each.service.outage]
        if leaving:
            deploy.stop(host, leaving)


@contextmanager
def blaming_services(trial: Trial) -> Iterator[None]:
    """Where the load fails because a service has ended, have that said: the load tool's own words would mislead."""
    try:
        yield
    except LostError:
        raise
    except HostError:
        require_alive(trial, NOTICED_S)
        raise


def require_alive(trial: Trial, noticed_s: float = 0.0) -> None:
    """A service that ended under the load makes the trial worthless, unless that was wanted.

    One that ends just now is waited for so long.
    """
    for host, services in trial.by_host():
        for each in services:
            if each.service.outage:
                continue
            ended = each.process.wait(noticed_s)
            if ended is not None:
                raise HostError(
                    f"{each.service.name} ({each.service.backend}) ended during the trial with {ended}",
                    where=host.name,
                    why=deploy.last_log_lines(host, each.log),
                )


def measure_disk_usage(trial: Trial) -> None:
    """Note how much the services have put into their own folders: a cache, above all."""
    for host, services in trial.by_host():
        for service in (each.service for each in services):
            for folder in service.scratch_folders:
                done = host.processes.run(["du", "-sk", str(folder)])
                if not done.stdout:  # else it may have failed over a file that went while it looked
                    why = done.stderr.decode(errors="replace").strip()
                    raise HostError(f"cannot tell the size of {folder}", where=host.name, why=why)
                size = int(done.stdout.split()[0]) * KIB
                trial.folder_bytes.setdefault(service.name, {})[folder.name] = size


def collect_logs(trial: Trial) -> None:
    """Bring what the services wrote to the controller."""
    for host, services in trial.by_host():
        for each in services:
            if log := host.files.read(each.log):
                trial.files[f"{each.service.name}.{host.name}.log"] = log


def stop_services(trial: Trial) -> None:
    """Stop everything that was started."""
    failures = []
    for host, services in trial.by_host():
        try:
            deploy.stop(host, services)
        except HostError as error:
            failures.append(error)
    for failure in failures:
        raise failure


def remove_folders(trial: Trial) -> None:
    """Remove the trial's folder from its hosts, and what its services wrote; from each, whatever becomes of the others."""
    wanted = [(host, trial.folder) for host in _hosts(trial)]
    for service in trial.cell.services:
        left = (*service.scratch_folders, *deploy.socket_files(service))
        wanted += [(trial.hosts[service.host], path) for path in left]
    failures = []
    for host, path in wanted:
        try:
            host.files.remove(path)
        except HostError as error:
            failures.append(error)
    for failure in failures:
        raise failure


def _hosts(trial: Trial) -> list[Host]:
    """The hosts that have a part in the trial."""
    names = [*(host.name for host in trial.load_hosts), *(service.host for service in trial.cell.services)]
    return [trial.hosts[name] for name in dict.fromkeys(names)]
