"""The telemetry of a block's hosts, from before the load to after it: one session on each host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from benchkit.agent.operations import CounterSource, SampledService, TelemetrySnapshot
from benchkit.agent.telemetry import Telemetry
from benchkit.hosts.connections import run_on_hosts
from benchkit.hosts.host import Host
from benchkit.hosts.sockets import Tcp, Udp, socket_address
from benchkit.loadtools.load_shares import turn_s
from benchkit.models.telemetry import SAMPLE_SHARES, SAMPLE_TIMES_S, generator_service
from benchkit.models.trial import ProcessId, WatchRecord
from benchkit.run.steps.slice_counts import add_slice_counts
from benchkit.run.steps.slice_telemetry import BlockTelemetry, block_service, telemetry_of_trial
from benchkit.run.steps.state import Block, Trial
from benchkit.services.deploy import RunningService, socket_of
from benchkit.services.external import EXTERNAL
from benchkit.store.telemetry_table import SampleSeries, SeriesKey, read_telemetry


def watch_hosts(block: Block) -> None:
    """Start the telemetry of every host of the block, with the services of all trials that run there."""
    options = block.telemetry_options
    if options is None:
        return
    core_interval_s = None
    if block.slice_s is not None:
        core_interval_s = min(turn_s(trial.cell.pauses, block.slice_s) for trial in block.trials)

    def begin(host: Host) -> None:
        host.compare_clocks()
        services = [
            watched_service(each, block.telemetry_name(trial, each.service.name))
            for trial in block.trials
            for each in trial.running_services
            if each.service.host == host.name
        ]
        host.call(
            Telemetry.start, block.folder / _file(host), options.interval_s, services, core_interval_s=core_interval_s
        )
        block.watched_hosts.append(host)

    run_on_hosts(block.used_hosts, begin)


class HostsSnapshot(NamedTuple):
    """A sample of all hosts at one instant, by the names of services in the telemetry."""

    processes: Mapping[str, tuple[ProcessId, ...]]
    """Living processes of each service."""
    cpu_s: Mapping[str, float]
    """CPU time of each service."""
    escapes: Mapping[str, str]
    """Reasons why CPU time of children may be missing."""


def snapshot_hosts(block: Block) -> HostsSnapshot:
    """Sample all hosts now, so that the growth of counters is known for the exact window; nothing without telemetry."""
    snapshots: list[TelemetrySnapshot] = run_on_hosts(block.watched_hosts, lambda host: host.call(Telemetry.snapshot))
    return HostsSnapshot(
        {name: processes for snapshot in snapshots for name, processes in snapshot.processes.items()},
        {name: seconds for snapshot in snapshots for name, seconds in snapshot.cpu_s.items()},
        {name: why for snapshot in snapshots for name, why in snapshot.escapes.items()},
    )


def schedule_samples(block: Block) -> None:
    """Schedule samples of generators from their starts, and of hosts at both edges of every slice and at some instants.

    In slices, the generators with the same number in all cells are sampled as one, as they take turns. Expensive
    metrics are sampled three times in each trial.
    """
    generators = [each for trial in block.trials for each in trial.cell.generators]
    expensive_s = [seconds for trial in block.trials for seconds in _expensive_s(block, trial)]

    def schedule(host: Host) -> None:
        numbers = sorted({each.number for each in generators if each.host == host.name})
        is_window = block.slice_s is None
        if numbers:
            host.call(
                Telemetry.add, [SampledService(generator_service(each), None, threads=is_window) for each in numbers]
            )
        if not is_window:
            host.call(
                Telemetry.schedule_snapshots, [edge for turn in block.turns for edge in block.window_ns(turn, host)]
            )
        host.call(
            Telemetry.schedule_samples, [host.clock.to_host_ns(block.began_s + seconds) for seconds in expensive_s]
        )

    run_on_hosts(block.watched_hosts, schedule)


def _expensive_s(block: Block, trial: Trial) -> Sequence[float]:
    own = block.turns_of(trial)
    if block.slice_s is not None:
        places = dict.fromkeys(int(share * len(own)) for share in SAMPLE_SHARES)
        return [sum(own[place].window_s) / 2 for place in places]
    duration_s = trial.cell.load.duration_s
    return SAMPLE_TIMES_S if duration_s is None else [share * duration_s for share in SAMPLE_SHARES]


def collect_telemetry(block: Block) -> None:
    """Stop the telemetry, and give each trial its part: the files, and what its hosts counted in each slice."""
    options = block.telemetry_options
    hosts = [host for host in block.used_hosts if host in block.watched_hosts]
    if options is None or not hosts:
        return
    contents: dict[str, bytes] = {}

    def collect(host: Host) -> WatchRecord:
        ended = host.call(Telemetry.stop)
        contents[host.name] = host.files.read(block.folder / _file(host))
        return WatchRecord(
            host=host.name,
            roles=host.spec.roles,
            file=_file(host),
            interval_s=options.interval_s,
            window_ns=(0, 0),
            clock_uncertainty_s=host.clock.uncertainty_s,
            cpu_quota=ended.cpu_quota if ended else None,
            unseen=ended.unavailable if ended else ("the agent had stopped its telemetry",),
            machine=host.facts.boot_id,
        )

    block.watched_hosts.clear()
    records = run_on_hosts(hosts, collect)
    if block.slice_s is None:
        (trial,) = block.trials
        for host, record in zip(hosts, records, strict=True):
            trial.files[record.file] = contents[host.name]
            (window_ns,) = block.windows_ns(trial, host)
            trial.watch_records += (record.model_copy(update={"window_ns": window_ns}),)
    else:
        telemetry = {
            name: BlockTelemetry(_series_of_living_trials(block, content)) for name, content in contents.items()
        }
        for trial in block.trials:
            for host, record in zip(hosts, records, strict=True):
                windows = block.windows_ns(trial, host)
                trial.files[record.file] = telemetry_of_trial(telemetry[host.name], block.number_of(trial), windows)
                length_ns = sum(end - start for start, end in windows)
                trial.watch_records += (record.model_copy(update={"window_ns": (0, length_ns)}),)
            add_slice_counts(block, trial, hosts, telemetry)


def _series_of_living_trials(block: Block, content: bytes) -> dict[SeriesKey, SampleSeries]:
    failed = tuple(block_service(number, "") for number in block.failed_numbers)
    return {key: each for key, each in read_telemetry(content).items() if not str(key[0]).startswith(failed)}


def unwatch_hosts(block: Block) -> None:
    """Stop the telemetry that still runs, as after a block that failed."""
    watched_hosts = list(block.watched_hosts)
    block.watched_hosts.clear()
    run_on_hosts(watched_hosts, lambda host: host.call(Telemetry.stop))


def watched_service(running: RunningService, name: str) -> SampledService:
    """Return what to sample of a service: its accept queue, its connections, and its own counters if it has some."""
    service = running.service
    admin, at = service.admin, socket_of(service.endpoint)
    if service.container is not None and isinstance(at, Tcp):
        at = Tcp(at.address, service.container.port)  # as it is in the network of the container
    counters = None
    if admin is not None:
        logs = {kind: str(path) for kind, path in admin.handshake_logs.items()}
        counters = CounterSource(admin.kind, socket_address(socket_of(admin.endpoint)), admin.path, logs)
    return SampledService(
        name=name,
        process=running.process.id,
        # Its port may belong to a proxy in front. A UDP socket has neither an accept queue nor a table of connections.
        listeners=[] if service.backend == EXTERNAL or isinstance(at, Udp) else [socket_address(at)],
        counters=counters,
    )


def _file(host: Host) -> str:
    return f"telemetry.{host.name}.jsonl"
