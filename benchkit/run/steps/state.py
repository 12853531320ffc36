"""State of a running block and of its trials, which the steps read and change, and the record of a trial."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import PurePosixPath

from benchkit.errors import HostError, InputError
from benchkit.hosts.connections import Hosts
from benchkit.hosts.host import Host
from benchkit.hosts.profilers import PerfCapture, PprofCapture, TraceCapture
from benchkit.loadtools.generators.execution import GeneratorRun
from benchkit.loadtools.load_shares import ANSWERS_S, LEAST_LEAD_S
from benchkit.models.capacity import CapacityEstimate
from benchkit.models.design import compared_cell, is_held
from benchkit.models.profile import Profiler
from benchkit.models.rows import LoadCurveRow, SliceRow
from benchkit.models.trial import (
    GeneratorRecord,
    OtherProgram,
    ProbeRecord,
    ProbeRound,
    ProcessId,
    ProfileRecord,
    ServiceRecord,
    TraceRecord,
    TrialRecord,
    WatchRecord,
)
from benchkit.plan.model import PlannedCell, RunPlan
from benchkit.run.steps.slice_telemetry import block_service
from benchkit.scenario.model import TelemetryOptions
from benchkit.scenario.trial_order import PlannedTrial, ProfilePass, TracePass, Turn
from benchkit.services.deploy import RunningService
from benchkit.services.service import Service, with_perf_map


@dataclass(frozen=True)
class ProfileCapture:
    """Capture of the profile of one service."""

    running: RunningService
    profiler: Profiler
    profile: PprofCapture | PerfCapture | HostError
    """The profile in progress, or the error that prevented it."""


@dataclass(frozen=True)
class TraceInProgress:
    """Trace of the services of one host."""

    record: TraceRecord
    capture: TraceCapture | HostError
    """The trace in progress, or the error that prevented it."""


@dataclass
class Trial:
    """State of a running trial: one cell of a block."""

    trial_id: str
    planned_trial: PlannedTrial
    cell: PlannedCell
    hosts: Hosts
    folder: PurePosixPath
    """Folder of the trial below every host's work directory."""
    owner: Trial | None = None
    """Trial of the same cell at full speed that started the servers; None if this trial starts its own."""
    attempt: int = 1
    capacity: CapacityEstimate | None = None
    """Result of the search for the capacity of its cell, which ran before it."""
    profile: ProfilePass | None = None
    """Options of its profile; None for other kinds of trials."""
    trace: TracePass | None = None
    """Options of its trace; None for other kinds of trials."""
    telemetry_options: TelemetryOptions | None = None
    """Options of telemetry; None where there is none."""
    started_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    running_services: list[RunningService] = field(default_factory=list)
    probes: tuple[ProbeRecord, ...] = ()
    probe_rounds: tuple[ProbeRound, ...] = ()
    """Second and later probes, in their order."""
    warmed_up_s: float = 0.0
    cpu_s: dict[str, float] = field(default_factory=dict)
    """CPU time of its services under the load, where it is known."""
    runs: list[list[GeneratorRun]] = field(default_factory=list)
    """Runs of its generators, a list for each slice."""
    generators: tuple[GeneratorRecord, ...] = ()
    start_spread_s: float = 0.0
    """Time between the first and the last start of a generator; with slices, the largest."""
    clock_uncertainty_s: float = 0.0
    """Largest error of the time between starts on different hosts; 0 on one host."""
    captures: list[ProfileCapture] = field(default_factory=list)
    perf_map_errors: dict[str, HostError] = field(default_factory=dict)
    """Reasons why perf lacks the map of the compiled functions of a service, by service."""
    profiles: tuple[ProfileRecord, ...] = ()
    traces_in_progress: list[TraceInProgress] = field(default_factory=list)
    traces: tuple[TraceRecord, ...] = ()
    slices: tuple[SliceRow, ...] = ()
    """Slices of its window, in a sliced block."""
    load_curve: tuple[LoadCurveRow, ...] = ()
    """Points of its load curve, of a trial that measures one."""
    load_failures: tuple[HostError, ...] = ()
    """Reasons why output of the load tool cannot be used, each with its host, and its slice where there are several."""
    has_hung: bool = False
    """True where a load tool had to be terminated without a result."""
    processes_before: Mapping[str, tuple[ProcessId, ...]] = field(default_factory=dict)
    """Processes of each service just before the load; empty without telemetry."""
    processes_after: Mapping[str, tuple[ProcessId, ...]] = field(default_factory=dict)
    watch_records: tuple[WatchRecord, ...] = ()
    folder_bytes: dict[str, dict[str, int]] = field(default_factory=dict)
    """Disk space of the services' own folders, by service and the folder's name."""
    other_programs: tuple[OtherProgram, ...] = ()
    """Other programs that used CPU time of its hosts, the busiest first."""
    killed: list[str] = field(default_factory=list)
    """Sentences on services that did not end by themselves when they were stopped."""
    files: dict[str, bytes] = field(default_factory=dict)
    """Files to store, name → content."""

    @property
    def server_trial(self) -> Trial:
        """Trial that started the servers under its load: itself, or its `owner`."""
        return self.owner or self

    @property
    def own_services(self) -> tuple[Service, ...]:
        """Services that it starts and stops."""
        return self.cell.services if self.owner is None else ()

    @property
    def is_held(self) -> bool:
        """True for the second phase of a cell, at a held rate.

        Its server is probed and sampled under full load. Here that would delay some of few answers by a millisecond.
        """
        return self.planned_trial.kind == "held"

    @property
    def measures_curve(self) -> bool:
        """True if it measures the load curve of its cell instead of one load."""
        is_search = self.planned_trial.kind in {"calibrate", "probe"}
        return is_search and self.capacity is None and self.cell.load.rate is None

    @property
    def overran(self) -> bool:
        """True where a generator did not end by itself, so that the services' CPU time covers more than the window."""
        return any(run.overran for runs in self.runs for run in runs)

    @property
    def load_hosts(self) -> tuple[Host, ...]:
        """Hosts of its generators; the first of them also probes."""
        return tuple(self.hosts[name] for name in dict.fromkeys(each.host for each in self.cell.generators))

    @property
    def used_hosts(self) -> tuple[Host, ...]:
        """Hosts of its services and of its generators."""
        names = [*(service.host for service in self.cell.services), *(each.host for each in self.cell.generators)]
        return tuple(self.hosts[name] for name in dict.fromkeys(names))

    def services_by_host(self) -> Iterable[tuple[Host, list[RunningService]]]:
        """Yield the running services, grouped by host."""
        for name in dict.fromkeys(each.service.host for each in self.running_services):
            yield self.hosts[name], [each for each in self.running_services if each.service.host == name]


@dataclass
class Block:
    """State of trials that run together: each cell has its own servers, and slices of load take turns.

    A trial that runs alone is a block of one cell with one slice, its whole window.
    """

    trials: list[Trial]
    """Trials that have not failed."""
    seed: int
    slice_s: float | None = None
    """Length of a slice; None: one trial, whose window is in one piece."""
    failures: dict[str, HostError | InputError] = field(default_factory=dict)
    """Errors of the trials that failed by their own fault, by trial id."""
    started_s: float = field(default_factory=time.monotonic)
    turns: tuple[Turn, ...] = ()
    """Timetable of the slices; a window in one piece is one turn."""
    began_s: float = 0.0
    """Start of the first turn, on the controller's `time.monotonic()`."""
    folder_hosts: list[Host] = field(default_factory=list)
    """Hosts on which a folder of the block was made."""
    watched_hosts: list[Host] = field(default_factory=list)
    """Hosts whose telemetry runs."""

    def __post_init__(self) -> None:
        """Give each trial its number in the block, from 1, and choose the folder that the trials share.

        A phase at a held rate uses the servers of its cell, which start first.
        """
        first, by_cell = self.trials[0], {trial.cell.cell_id: trial for trial in self.trials}
        for trial in self.trials:
            if is_held(trial.cell.cell_id):
                trial.owner = by_cell.get(compared_cell(trial.cell.cell_id))
        self.trials.sort(key=lambda trial: trial.owner is not None)
        self.hosts = first.hosts
        self.telemetry_options = first.telemetry_options
        self.title = first.trial_id if len(self.trials) == 1 else f"{first.trial_id} and {len(self.trials) - 1} others"
        self.folder = first.folder if self.slice_s is None else first.folder.with_name(f"{first.folder.name}.block")
        self._numbers = {trial.trial_id: number for number, trial in enumerate(self.trials, 1)}

    @property
    def load_hosts(self) -> tuple[Host, ...]:
        """Hosts of all generators."""
        return tuple({host.name: host for trial in self.trials for host in trial.load_hosts}.values())

    @property
    def used_hosts(self) -> tuple[Host, ...]:
        """Hosts of all trials."""
        return tuple({host.name: host for trial in self.trials for host in trial.used_hosts}.values())

    def number_of(self, trial: Trial) -> int:
        """Return the number of a trial in the block."""
        return self._numbers[trial.trial_id]

    @property
    def failed_numbers(self) -> list[int]:
        """Numbers of the trials that have failed."""
        return [number for trial_id, number in self._numbers.items() if trial_id in self.failures]

    def telemetry_name(self, trial: Trial, service: str) -> str:
        """Return the name of a trial's service in the telemetry of the block."""
        return service if self.slice_s is None else block_service(self.number_of(trial.server_trial), service)

    def turns_of(self, trial: Trial) -> list[Turn]:
        """Return the turns of a trial."""
        return [turn for turn in self.turns if turn.cell_id == trial.cell.cell_id]

    def windows_ns(self, trial: Trial, host: Host) -> list[tuple[int, int]]:
        """Return the windows of a trial's slices on the clock of a host."""
        if self.slice_s is not None:
            return [self.window_ns(turn, host) for turn in self.turns_of(trial)]
        (runs,) = trial.runs
        start_s, end_s = min(run.started_s for run in runs), max(run.measured_until_s for run in runs)
        return [(host.clock.to_host_ns(start_s), host.clock.to_host_ns(end_s))]

    def window_ns(self, turn: Turn, host: Host) -> tuple[int, int]:
        """Return the window of a turn on the clock of a host, with the pauses beside it at a held rate.

        There, samples of the host at its edges delay no request.
        """
        start_s, end_s = turn.window_s
        if is_held(turn.cell_id):
            start_s, end_s = start_s - LEAST_LEAD_S / 2, end_s + ANSWERS_S
        return host.clock.to_host_ns(self.began_s + start_s), host.clock.to_host_ns(self.began_s + end_s)


def trial_id_of(run_id: str, planned_trial: PlannedTrial) -> str:
    """Return the id of a trial, unique in a store."""
    round_ = f"r{planned_trial.round}" if planned_trial.round > 1 else ""
    probe = f".q{planned_trial.probe:02}" if planned_trial.probe else ""
    return f"{run_id}.b{planned_trial.block:03}{round_}.p{planned_trial.position:03}{probe}"


def make_trial(plan: RunPlan, planned_trial: PlannedTrial, cell: PlannedCell, run_id: str, hosts: Hosts) -> Trial:
    """Return the state of a trial of a cell before its first step."""
    trial_id = trial_id_of(run_id, planned_trial)
    profile = None
    if planned_trial.kind == "profile":
        profile = plan.experiment.scenario.profile
        cell = replace(cell, services=tuple(with_perf_map(service) for service in cell.services))
    return Trial(
        trial_id=trial_id,
        planned_trial=planned_trial,
        cell=cell,
        hosts=hosts,
        folder=PurePosixPath("trials") / trial_id,
        profile=profile,
        trace=plan.experiment.scenario.trace if planned_trial.kind == "trace" else None,
        telemetry_options=plan.experiment.scenario.telemetry,
    )


def make_record(trial: Trial) -> TrialRecord:
    """Return the record of a trial whose steps have run, without `wall_s`, of which a block knows only the sum."""
    if not trial.probes or not trial.generators:
        raise AssertionError("a step did not run")
    return TrialRecord(
        trial_id=trial.trial_id,
        cell_id=compared_cell(trial.cell.cell_id),
        levels=trial.cell.spec.levels,
        block=trial.planned_trial.block,
        position=trial.planned_trial.position,
        round=trial.planned_trial.round,
        attempt=trial.attempt,
        kind=trial.planned_trial.kind,
        started_at=trial.started_at,
        wall_s=0.0,
        warmed_up_s=trial.warmed_up_s,
        load=trial.cell.load,
        target=trial.cell.target,
        protocol=trial.cell.generators[0].target.protocol,
        tls=trial.cell.generators[0].target.tls,
        services=tuple(
            ServiceRecord(
                name=each.service.name,
                backend=each.service.backend,
                host=each.service.host,
                pid=each.process.pid,
                argv=each.service.process.argv,
                cpu_s=trial.cpu_s.get(each.service.name),
                cpus=each.service.process.cpus,
                parallelism=each.service.parallelism,
                quota=each.service.process.quota.cpus if each.service.process.quota else None,
                has_own_quota=each.service.process.quota is not None and each.service.process.quota.is_own,
                pids_before=_lasting_processes(each, trial.processes_before),
                pids_after=_lasting_processes(each, trial.processes_after),
                folder_bytes=trial.folder_bytes.get(each.service.name, {}),
            )
            for each in trial.running_services
        ),
        generators=trial.generators,
        start_spread_s=trial.start_spread_s,
        clock_uncertainty_s=trial.clock_uncertainty_s,
        probe=trial.probes[0],
        other_probes=trial.probes[1:],
        probe_rounds=trial.probe_rounds,
        watched=trial.watch_records,
        profiles=trial.profiles,
        traces=trial.traces,
        external=tuple(service.name for service in trial.cell.spec.external),
        other_programs=trial.other_programs,
        killed=tuple(trial.killed),
        capacity=trial.capacity,
        slices=trial.slices,
        load_curve=trial.load_curve,
    )


def _lasting_processes(
    running: RunningService, processes: Mapping[str, tuple[ProcessId, ...]]
) -> tuple[ProcessId, ...]:
    """Return the processes that must stay the same during the window: all, or the main one of a service that forks."""
    of_service = processes.get(running.service.name, ())
    if running.service.forks_per_request:
        return tuple(each for each in of_service if each[0] == running.process.pid)
    return of_service
