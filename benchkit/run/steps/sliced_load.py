"""The load of a sliced block: its timetable, the run of all slices, and what each trial has of them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import PurePosixPath

from benchkit.errors import HostError
from benchkit.hosts.connections import Hosts, run_on_hosts
from benchkit.hosts.host import Host
from benchkit.hosts.other_programs import busiest_programs, take_snapshot
from benchkit.loadtools.generators.execution import START_LEAD_ROUND_TRIPS, START_LEAD_S
from benchkit.loadtools.generators.generator import Generator
from benchkit.loadtools.generators.slices import PlannedSlice, SliceRun, prepare_slices, run_slices
from benchkit.loadtools.registry import get_tool
from benchkit.models.telemetry import SAMPLE_SHARES
from benchkit.models.trial import GeneratorRecord, ProcessId, SliceRecord
from benchkit.plan.slice_timetable import Turn, plan_turns, slice_count
from benchkit.run.steps.probe import MiddleProbes
from benchkit.run.steps.trial_state import Trial, start_uncertainty_s
from benchkit.store.slice_files import pack_slices

MESSAGE_S = 0.001
"""Time to send one planned start to its host, in the estimate of when the first can be."""


@dataclass
class SlicedLoad:
    """State of the shared part of a sliced block, which its steps read and fill."""

    trials: list[Trial]
    """Trials that have not failed."""
    slice_s: float
    seed: int
    began_s: float = 0.0
    """Start of the first turn, on the controller's `time.monotonic()`."""
    turns: tuple[Turn, ...] = ()
    runs: tuple[list[SliceRun], ...] = ()
    """Records of the generators in each turn."""
    folder_hosts: list[Host] = field(default_factory=list)
    """Hosts on which the folder of the block was made."""
    watched_hosts: list[Host] = field(default_factory=list)
    processes_before: Mapping[str, tuple[ProcessId, ...]] = field(default_factory=dict)
    """Processes of each service before the load, by its name in the telemetry of the block."""
    processes_after: Mapping[str, tuple[ProcessId, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Give each cell its number in the block, from 1."""
        self.numbers = {trial.cell.cell_id: number for number, trial in enumerate(self.trials, 1)}

    @property
    def hosts(self) -> Hosts:
        """Hosts of the run."""
        return self.trials[0].hosts

    @property
    def used_hosts(self) -> tuple[Host, ...]:
        """Hosts of all trials."""
        by_name = {host.name: host for trial in self.trials for host in trial.used_hosts}
        return tuple(by_name.values())

    @cached_property
    def folder(self) -> PurePosixPath:
        """Folder of the block below every host's work directory."""
        first = self.trials[0].folder
        return first.with_name(f"{first.name}.block")

    def turns_of(self, trial: Trial) -> list[tuple[Turn, list[SliceRun]]]:
        """Return the turns of a trial, each with what its generators did."""
        pairs = zip(self.turns, self.runs, strict=True)
        return [(turn, runs) for turn, runs in pairs if turn.cell_id == trial.cell.cell_id]

    def windows_ns(self, trial: Trial, host: Host) -> list[tuple[int, int]]:
        """Return the windows of a trial's slices on the clock of a host."""
        return [self.window_ns(turn, host) for turn in self.turns if turn.cell_id == trial.cell.cell_id]

    def window_ns(self, turn: Turn, host: Host) -> tuple[int, int]:
        """Return the window of a turn on the clock of a host."""
        start_s, end_s = turn.window_s
        return host.clock.to_host_ns(self.began_s + start_s), host.clock.to_host_ns(self.began_s + end_s)


def make_block_folder(load: SlicedLoad) -> None:
    """Make the folder of the block on the hosts of all trials; it is removed there even if the controller is lost."""

    def make(host: Host) -> None:
        load.folder_hosts.append(host)
        host.files.mkdir_temporary(load.folder)

    run_on_hosts(load.used_hosts, make)


def remove_block_folder(load: SlicedLoad) -> None:
    """Remove the folder of the block from its hosts. Raises HostError."""
    run_on_hosts(load.folder_hosts, lambda host: host.files.remove(load.folder))


def measure_slices(load: SlicedLoad) -> None:
    """Run the slices of all trials by one timetable, sampling the hosts at the edges of each.

    Each server is probed once in a slice of its own, so that the others stay idle.
    """
    counts = {trial.cell.cell_id: slice_count(trial.cell.load.duration_s or 0.0, load.slice_s) for trial in load.trials}
    pauses = {trial.cell.cell_id: trial.cell.pauses for trial in load.trials}
    block = load.trials[0].planned_trial.block
    load.turns = tuple(plan_turns(counts, pauses, load.slice_s, load.seed, block))
    generators = {trial.cell.cell_id: _as_slices(trial, load.slice_s) for trial in load.trials}
    names = {cell_id: f"cell{number}" for cell_id, number in load.numbers.items()}
    prepare_slices(load.hosts, {names[cell_id]: each for cell_id, each in generators.items()}, load.folder)
    programs = take_snapshot(load.hosts) if load.trials[0].telemetry_options else None
    load.processes_before = snapshot_block(load)
    load.began_s = _first_start(load)
    schedule_snapshots(load)
    slices = [
        PlannedSlice(
            name=f"{names[turn.cell_id]}.{turn.round}",
            cell=names[turn.cell_id],
            generators=generators[turn.cell_id],
            at_s=load.began_s + turn.start_s,
            window_end_s=load.began_s + turn.window_s[1],
        )
        for turn in load.turns
    ]
    with MiddleProbes(len(load.trials)) as probes:
        for trial in load.trials:
            own = [turn for turn in load.turns if turn.cell_id == trial.cell.cell_id]
            probes.add(trial, load.began_s + sum(own[len(own) // 2].window_s) / 2)
        load.runs = tuple(run_slices(load.hosts, slices, load.folder))
    load.processes_after = snapshot_block(load)
    if programs is not None:
        others = busiest_programs(programs, take_snapshot(load.hosts))
        for trial in load.trials:
            trial.other_programs = others


def collect_slices(load: SlicedLoad) -> None:
    """Give each trial the files and records of its generators, and the places of its slices."""
    first_s = load.turns[0].window_s[0]
    for trial in load.trials:
        of_trial = load.turns_of(trial)
        trial.slices = tuple(
            SliceRecord(
                number=turn.round,
                place=turn.place,
                started_s=turn.window_s[0] - first_s,
                duration_s=load.slice_s,
                late_s=max(run.process.late_s for run in runs),
            )
            for turn, runs in of_trial
        )
        trial.slice_failures = tuple(
            f"slice {turn.round}: {run.failure}" for turn, runs in of_trial for run in runs if run.failure
        )
        trial.start_spread_s = max(_start_spread_s(load.hosts, runs) for _, runs in of_trial)
        trial.clock_uncertainty_s = start_uncertainty_s(trial.load_hosts)
        for place, generator in enumerate(trial.cell.generators):
            runs = [slice_runs[place] for _, slice_runs in of_trial]
            name = f"slices.{generator.name}.tar"
            trial.files[name] = pack_slices([run.output for run in runs])
            trial.generators += (_generator_record(runs, generator, name, load.slice_s),)


def require_slices(trial: Trial) -> None:
    """Check that the load tool ended well in every slice. Raises HostError naming the first that failed."""
    if trial.slice_failures:
        more = f"; {len(trial.slice_failures)} in all" if len(trial.slice_failures) > 1 else ""
        raise HostError(f"{trial.slice_failures[0]}{more}", where=trial.cell.generators[0].host)


def snapshot_block(load: SlicedLoad) -> dict[str, tuple[ProcessId, ...]]:
    """Sample all hosts now; return the living processes of each service by its name in the telemetry of the block."""
    snapshots = run_on_hosts(load.watched_hosts, lambda host: host.telemetry.snapshot())
    return {name: processes for snapshot in snapshots for name, processes in snapshot.processes.items()}


def schedule_snapshots(load: SlicedLoad) -> None:
    """Have all hosts sampled at both edges of every slice, and what is expensive at three instants of each trial."""
    expensive = [turn for trial in load.trials for turn in _sampled_turns(load, trial)]

    def schedule(host: Host) -> None:
        edges = [edge for turn in load.turns for edge in load.window_ns(turn, host)]
        host.telemetry.schedule_snapshots(edges)
        host.telemetry.schedule_samples([sum(load.window_ns(turn, host)) // 2 for turn in expensive])

    run_on_hosts(load.watched_hosts, schedule)


def _sampled_turns(load: SlicedLoad, trial: Trial) -> list[Turn]:
    own = [turn for turn in load.turns if turn.cell_id == trial.cell.cell_id]
    places = dict.fromkeys(int(share * len(own)) for share in SAMPLE_SHARES)
    return [own[place] for place in places]


def _as_slices(trial: Trial, slice_s: float) -> tuple[Generator, ...]:
    return tuple(each.as_slice(slice_s, trial.cell.pauses.lead_s) for each in trial.cell.generators)


def _first_start(load: SlicedLoad) -> float:
    """Return the start of the first turn: late enough to send the timetable to every host before it."""
    slowest_round_trip_s = max(2 * host.clock.uncertainty_s for host in load.used_hosts)
    lead_s = START_LEAD_S + START_LEAD_ROUND_TRIPS * slowest_round_trip_s + MESSAGE_S * len(load.turns)
    return time.monotonic() + lead_s


def _start_spread_s(hosts: Hosts, runs: Sequence[SliceRun]) -> float:
    """Return the time from the start of the first generator of a slice to that of the last, in seconds."""
    starts_s = [hosts[run.generator.host].clock.to_controller_s(run.process.started_ns) for run in runs]
    return max(starts_s) - min(starts_s)


def _generator_record(runs: list[SliceRun], generator: Generator, name: str, slice_s: float) -> GeneratorRecord:
    """Return the record of a generator; its CPU time is that within the windows, estimated until telemetry is read."""
    cpu_s = 0.0
    for run in runs:
        if run.ended is not None:
            wall_s = (run.ended.at_ns - run.process.started_ns) / 1e9
            cpu_s += (run.ended.user_s + run.ended.system_s) * min(1.0, slice_s / wall_s)
    return GeneratorRecord(
        overruns=sum(run.process.overran for run in runs),
        number=generator.number,
        host=generator.host,
        argv=runs[0].generator.argv,
        load=generator.load,
        files={"slices": name},
        started_s=0.0,
        wall_s=slice_s * len(runs),
        late_s=max(run.process.late_s for run in runs),
        cpu_s=cpu_s,
        cpus=generator.cpus,
        threads=get_tool(generator.tool).threads(generator.load),
    )
