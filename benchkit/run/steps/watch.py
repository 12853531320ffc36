"""The hosts of a trial watched, from before the load of its services to after it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from benchkit.hosts.host import Host
from benchkit.hosts.processes import Process
from benchkit.hosts.watch import Counters, TelemetrySnapshot, WatchedService
from benchkit.load.generators.execution import GeneratorProcess
from benchkit.models.telemetry import SAMPLE_SHARES, SAMPLE_TIMES_S, generator_service, reducer_service
from benchkit.models.trial import ProcessId, WatchRecord
from benchkit.run.steps.trial_state import Trial
from benchkit.services.deploy import RunningService, socket_of

Found = TypeVar("Found")


def watch_hosts(trial: Trial) -> None:
    """Begin to watch every host of the trial, with the services that run there."""
    if trial.watching is None:
        return
    interval_s = trial.watching.interval_s

    def begin(host: Host) -> None:
        host.compare_clocks()
        services = [watched_service(each) for each in trial.running if each.service.host == host.name]
        host.telemetry.start(trial.folder / _file(host), interval_s, services)
        trial.watched.append(host)

    on_each(trial.used_hosts, begin)


def look(trial: Trial) -> dict[str, tuple[ProcessId, ...]]:
    """Look at all hosts now, so that what counters grow by between two looks is known to the end.

    The living processes of each service; none where nothing is watched.
    """
    looks: list[TelemetrySnapshot] = on_each(trial.watched, lambda host: host.telemetry.look())
    return {name: processes for each in looks for name, processes in each.processes.items()}


def watch_generators(trial: Trial, members: Sequence[GeneratorProcess]) -> None:
    """Watch the generators, which have just started, and have what is dear looked at within the window."""
    started_s = min(member.started_s for member in members)
    duration_s = trial.cell.load.duration_s
    after_s = SAMPLE_TIMES_S if duration_s is None else [part * duration_s for part in SAMPLE_SHARES]

    def add(host: Host) -> None:
        if own := [each for member in members if member.host is host for each in _generator(member)]:
            host.telemetry.add(own)
        host.telemetry.look_at([host.clock.on_host_ns(started_s + seconds) for seconds in after_s])

    on_each(trial.watched, add)


def collect_telemetry(trial: Trial) -> None:
    """End the watch, and bring what was seen to the controller."""
    if trial.watching is None:
        return
    interval_s = trial.watching.interval_s
    start_s = min(each.started_s for each in trial.generator_runs)
    end_s = max(each.ended_s for each in trial.generator_runs)

    def collect(host: Host) -> WatchRecord:
        ended = host.telemetry.stop()
        trial.files[_file(host)] = host.files.read(trial.folder / _file(host))
        return WatchRecord(
            host=host.name,
            roles=host.spec.roles,
            file=_file(host),
            interval_s=interval_s,
            window_ns=(host.clock.on_host_ns(start_s), host.clock.on_host_ns(end_s)),
            clock_uncertainty_s=host.clock.uncertainty_s,
            cpu_quota=ended.cpu_quota if ended else None,
            unseen=ended.unseen if ended else ("the agent was not watching any more",),
        )

    watched = [host for host in trial.used_hosts if host in trial.watched]
    trial.watched.clear()
    trial.watches = tuple(on_each(watched, collect))


def unwatch_hosts(trial: Trial) -> None:
    """End what is still being watched, as after a trial that failed."""
    watched = list(trial.watched)
    trial.watched.clear()
    on_each(watched, lambda host: host.telemetry.stop())


def watched_service(running: RunningService) -> WatchedService:
    """A service as it is watched: its accept queue, its connections, and its own counters where it tells them."""
    service = running.service
    admin = service.admin
    return WatchedService(
        name=service.name,
        process=running.process,
        listens=[socket_of(service.endpoint)],
        counters=None if admin is None else Counters(admin.kind, socket_of(admin.endpoint), admin.path),
    )


def _generator(member: GeneratorProcess) -> list[WatchedService]:
    """A generator, and what reads its rows beside it."""
    number = member.generator.number
    parts: list[tuple[str, Process | None]] = [
        (generator_service(number), member.process),
        (reducer_service(number), member.reducer),
    ]
    return [
        WatchedService(name, process, threads=process is member.process)
        for name, process in parts
        if process is not None
    ]


def _file(host: Host) -> str:
    return f"telemetry.{host.name}.jsonl"


def on_each(hosts: Sequence[Host], do: Callable[[Host], Found]) -> list[Found]:
    """Do something on these hosts at once, and on every one of them even where it fails on another.

    Raises the HostError of the first on which it failed, when all are over.
    """
    if not hosts:
        return []
    with ThreadPoolExecutor(len(hosts)) as pool:
        each = [pool.submit(do, host) for host in hosts]  # `map` would cancel what has not begun when one fails
    return [one.result() for one in each]
