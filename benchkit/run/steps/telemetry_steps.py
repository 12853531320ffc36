"""The telemetry of a trial's hosts, from before the load to after it."""

from __future__ import annotations

from collections.abc import Sequence

from benchkit.agent.operations import TelemetrySnapshot
from benchkit.hosts.connections import run_on_hosts
from benchkit.hosts.host import Host
from benchkit.hosts.host_telemetry import CounterPage, WatchedService
from benchkit.loadtools.generators.execution import GeneratorProcess
from benchkit.models.telemetry import SAMPLE_SHARES, SAMPLE_TIMES_S, generator_service
from benchkit.models.trial import ProcessId, WatchRecord
from benchkit.run.steps.trial_state import Trial
from benchkit.services.deploy import RunningService, socket_of


def watch_hosts(trial: Trial) -> None:
    """Start the telemetry of every host of the trial, with the services that run there."""
    if trial.telemetry_options is None:
        return
    interval_s = trial.telemetry_options.interval_s

    def begin(host: Host) -> None:
        host.compare_clocks()
        services = [watched_service(each) for each in trial.running_services if each.service.host == host.name]
        host.telemetry.start(trial.folder / _file(host), interval_s, services)
        trial.watched_hosts.append(host)

    run_on_hosts(trial.used_hosts, begin)


def snapshot_hosts(trial: Trial) -> dict[str, tuple[ProcessId, ...]]:
    """Sample all hosts now, so that the growth of counters is known for the exact window.

    Returns the living processes of each service; none without telemetry.
    """
    snapshots: list[TelemetrySnapshot] = run_on_hosts(trial.watched_hosts, lambda host: host.telemetry.snapshot())
    return {name: processes for snapshot in snapshots for name, processes in snapshot.processes.items()}


def watch_generators(trial: Trial, processes: Sequence[GeneratorProcess]) -> None:
    """Add the generators, which have just started, and schedule the expensive samples within the window."""
    started_s = min(process.started_s for process in processes)
    duration_s = trial.cell.load.duration_s
    after_s = SAMPLE_TIMES_S if duration_s is None else [share * duration_s for share in SAMPLE_SHARES]

    def add(host: Host) -> None:
        generators = [
            WatchedService(generator_service(each.generator.number), each.process, threads=True)
            for each in processes
            if each.host is host
        ]
        if generators:
            host.telemetry.add(generators)
        host.telemetry.schedule_samples([host.clock.to_host_ns(started_s + seconds) for seconds in after_s])

    run_on_hosts(trial.watched_hosts, add)


def collect_telemetry(trial: Trial) -> None:
    """Stop the telemetry and fetch its files."""
    if trial.telemetry_options is None:
        return
    interval_s = trial.telemetry_options.interval_s
    start_s = min(each.started_s for each in trial.generator_runs)
    end_s = max(each.measured_until_s for each in trial.generator_runs)

    def collect(host: Host) -> WatchRecord:
        ended = host.telemetry.stop()
        trial.files[_file(host)] = host.files.read(trial.folder / _file(host))
        return WatchRecord(
            host=host.name,
            roles=host.spec.roles,
            file=_file(host),
            interval_s=interval_s,
            window_ns=(host.clock.to_host_ns(start_s), host.clock.to_host_ns(end_s)),
            clock_uncertainty_s=host.clock.uncertainty_s,
            cpu_quota=ended.cpu_quota if ended else None,
            unseen=ended.unavailable if ended else ("the agent had stopped its telemetry",),
        )

    watched_hosts = [host for host in trial.used_hosts if host in trial.watched_hosts]
    trial.watched_hosts.clear()
    trial.watch_records = tuple(run_on_hosts(watched_hosts, collect))


def unwatch_hosts(trial: Trial) -> None:
    """Stop the telemetry that still runs, as after a trial that failed."""
    watched_hosts = list(trial.watched_hosts)
    trial.watched_hosts.clear()
    run_on_hosts(watched_hosts, lambda host: host.telemetry.stop())


def watched_service(running: RunningService) -> WatchedService:
    """Return what to sample of a service: its accept queue, its connections, and its own counters where it has some."""
    service = running.service
    admin = service.admin
    return WatchedService(
        name=service.name,
        process=running.process,
        listeners=[socket_of(service.endpoint)],
        counters=None
        if admin is None
        else CounterPage(admin.kind, socket_of(admin.endpoint), admin.path, admin.handshake_logs),
    )


def _file(host: Host) -> str:
    return f"telemetry.{host.name}.jsonl"
