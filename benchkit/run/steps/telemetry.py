"""The telemetry of a block, one session on each host, and the figures of each slice of a trial."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from benchkit.agent.operations import CounterSource, SampledService, TelemetrySnapshot
from benchkit.agent.telemetry import Telemetry
from benchkit.hosts.connections import run_on_hosts
from benchkit.hosts.host import Host
from benchkit.loadtools.load_shares import turn_s
from benchkit.models.telemetry import SAMPLE_SHARES, SAMPLE_TIMES_S, generator_service
from benchkit.models.trial import ProcessId, WatchRecord
from benchkit.run.steps.slice_telemetry import BlockTelemetry, Reals, block_service, telemetry_of_trial
from benchkit.run.steps.state import Block, Trial
from benchkit.services.deploy import RunningService, socket_of
from benchkit.store.telemetry_table import SampleSeries, SeriesKey, read_telemetry

SHORT_WINDOW_S = 10.0
"""Length of windows at a held rate from which on hosts are sampled within them."""


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
            if each.service.host == host.name and trial.owner is None
        ]
        host.call(
            Telemetry.start,
            block.folder / _file_name(host),
            max(options.interval_s, *(_least_interval_s(block, trial) for trial in block.trials)),
            services,
            core_interval_s=core_interval_s,
        )
        block.watched_hosts.append(host)

    run_on_hosts(block.used_hosts, begin)


def _least_interval_s(block: Block, trial: Trial) -> float:
    """Return an interval at which no regular sample comes in a short window at a held rate.

    A sample takes a millisecond of a core, and delays the answers that are due then.
    """
    duration_s = trial.cell.load.duration_s or math.inf
    is_short = trial.is_held and block.slice_s is None and duration_s < SHORT_WINDOW_S
    return duration_s + SHORT_WINDOW_S if is_short else 0.0


class HostsSnapshot(NamedTuple):
    """A sample of all hosts at one instant, by the names of services in the telemetry."""

    processes: Mapping[str, tuple[ProcessId, ...]]
    """Living processes of each service."""
    cpu_s: Mapping[str, float]
    """CPU time of each service."""


def snapshot_hosts(block: Block) -> HostsSnapshot:
    """Sample all hosts now, so that counters are known at this edge of a window; without telemetry it is empty."""
    snapshots: list[TelemetrySnapshot] = run_on_hosts(block.watched_hosts, lambda host: host.call(Telemetry.snapshot))
    return HostsSnapshot(
        {name: processes for snapshot in snapshots for name, processes in snapshot.processes.items()},
        {name: seconds for snapshot in snapshots for name, seconds in snapshot.cpu_s.items()},
    )


def schedule_samples(block: Block) -> None:
    """Schedule the samples of generators and those of hosts at both edges of every slice.

    In slices, the generators with the same number in all cells take turns and are sampled as one. Expensive metrics
    are sampled three times in each trial, but not at a held rate.
    """
    generators = [each for trial in block.trials for each in trial.cell.generators]
    expensive_s = [seconds for trial in block.trials if not trial.is_held for seconds in _expensive_s(block, trial)]

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
    """Stop the telemetry; give each trial its files and the figures of its slices."""
    options = block.telemetry_options
    hosts = [host for host in block.used_hosts if host in block.watched_hosts]
    if options is None or not hosts:
        return
    contents: dict[str, bytes] = {}

    def collect(host: Host) -> WatchRecord:
        ended = host.call(Telemetry.stop)
        contents[host.name] = host.files.read(block.folder / _file_name(host))
        return WatchRecord(
            host=host.name,
            roles=host.spec.roles,
            file=_file_name(host),
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
                trial.files[record.file] = telemetry_of_trial(
                    telemetry[host.name], block.number_of(trial.server_trial), windows
                )
                length_ns = sum(end - start for start, end in windows)
                trial.watch_records += (record.model_copy(update={"window_ns": (0, length_ns)}),)
            add_slice_figures(block, trial, hosts, telemetry)


def _series_of_living_trials(block: Block, content: bytes) -> dict[SeriesKey, SampleSeries]:
    failed = tuple(block_service(number, "") for number in block.failed_numbers)
    return {key: each for key, each in read_telemetry(content).items() if not str(key[0]).startswith(failed)}


def unwatch_hosts(block: Block) -> None:
    """Stop the telemetry that still runs, such as after a failed block."""
    watched_hosts = list(block.watched_hosts)
    block.watched_hosts.clear()
    run_on_hosts(watched_hosts, lambda host: host.call(Telemetry.stop))


def watched_service(running: RunningService, name: str) -> SampledService:
    """Return the samples to take of a service: accept queue, connections, and its counters if it has any."""
    service = running.service
    admin, at = service.admin, socket_of(service.endpoint)
    if service.container is not None and at.kind == "tcp":
        at = replace(at, port=service.container.port)  # as it is in the network of the container
    counters = None
    if admin is not None:
        logs = {kind: str(path) for kind, path in admin.handshake_logs.items()}
        counters = CounterSource(admin.kind, socket_of(admin.endpoint), admin.path, logs)
    return SampledService(
        name=name,
        process=running.process.id,
        # A UDP socket has neither an accept queue nor a table of connections.
        listeners=[] if at.kind == "udp" else [at],
        counters=counters,
    )


def _file_name(host: Host) -> str:
    return f"telemetry.{host.name}.jsonl"


CPU_S = "cpu_s_total"
Windows = Sequence[tuple[int, int]]


def add_slice_figures(block: Block, trial: Trial, hosts: Sequence[Host], blocks: Mapping[str, BlockTelemetry]) -> None:
    """Add the figures of each slice to a trial, and the CPU time of its services and generators.

    The CPU time of an external server is unknown.
    """
    windows = {host.name: block.windows_ns(trial, host) for host in hosts}

    def cpu_s(host: str, service: str) -> Reals | None:
        return blocks[host].growth((service, CPU_S, None), windows[host])

    def cpu_s_of(of_trial: Trial, running: RunningService) -> Reals | None:
        return cpu_s(running.service.host, block.telemetry_name(of_trial, running.service.name))

    own = {each.service.name: cpu_s_of(trial, each) for each in trial.running_services}
    others = [
        cpu_s_of(other, each)
        for other in block.trials
        if other.owner is None and other is not trial.server_trial
        for each in other.running_services
    ]
    of_generators = [cpu_s(each.host, generator_service(each.number)) for each in trial.generators]
    trial.cpu_s |= {name: float(grown.sum()) for name, grown in own.items() if grown is not None}
    trial.generators = tuple(
        each if grown is None else each.model_copy(update={"cpu_s": float(grown.sum())})
        for each, grown in zip(trial.generators, of_generators, strict=True)
    )
    count = len(trial.slices)
    unknown = [None] * count
    unwatched = {each.trial_id for each in block.trials if each.owner is None and each.cell.spec.external}
    columns: dict[str, Sequence[Any]] = {
        "server_cpu_s": unknown if trial.server_trial.trial_id in unwatched else _sums([*own.values()], count),
        "neighbour_cpu_s": unknown if unwatched - {trial.server_trial.trial_id} else _sums(_known(others), count),
        "generator_cpu_s": _sums(of_generators, count),
        "server_loop_s": _loops(trial, blocks, windows) if trial.running_services else unknown,
        "time_wait": _time_wait(trial, blocks, windows) if trial.running_services else unknown,
    }
    trial.slices = tuple(
        replace(each, **{name: column[place] for name, column in columns.items()})
        for place, each in enumerate(trial.slices)
    )


def _sums(parts: Sequence[Reals | None], count: int) -> list[float | None]:
    """Return the sum of parts in each slice; None where a part is unknown."""
    known = _known(parts)
    if len(known) < len(parts):
        return [None] * count
    return [float(value) for value in np.sum(known, axis=0)] if known else [0.0] * count


def _known(parts: Iterable[Reals | None]) -> list[Reals]:
    return [part for part in parts if part is not None]


def _loops(trial: Trial, blocks: Mapping[str, BlockTelemetry], windows: Mapping[str, Windows]) -> list[float | None]:
    """Return the mean duration of the fixed loop on the servers' CPUs in each slice; None without a sample."""
    host = trial.running_services[0].service.host
    cpus = {cpu for each in trial.running_services if each.service.host == host for cpu in each.service.process.cpus}
    keys: list[SeriesKey] = [(None, "cpu_loop_s", str(cpu)) for cpu in sorted(cpus)]
    return blocks[host].mean_in(keys, windows[host])


def _time_wait(trial: Trial, blocks: Mapping[str, BlockTelemetry], windows: Mapping[str, Windows]) -> list[int | None]:
    names = list(dict.fromkeys(each.service.host for each in trial.running_services))
    columns = [blocks[name].first_in((None, "tcp_sockets", "time_wait"), windows[name]) for name in names]
    return [
        None if any(value is None for value in values) else int(sum(value for value in values if value is not None))
        for values in zip(*columns, strict=True)
    ]
