"""State of a running trial, which its steps read and fill."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import PurePosixPath

from benchkit.errors import HostError
from benchkit.hosts.connections import Hosts
from benchkit.hosts.host import Host
from benchkit.hosts.profilers import ProfileInProgress
from benchkit.loadtools.generators.execution import GeneratorRun
from benchkit.models.capacity import CapacityEstimate
from benchkit.models.profile import Profiler
from benchkit.models.trial import (
    GeneratorRecord,
    OtherProgram,
    ProbeRecord,
    ProbeRound,
    ProcessId,
    ProfileRecord,
    SliceRecord,
    WatchRecord,
)
from benchkit.plan.model import PlannedCell, RunPlan
from benchkit.scenario.model import TelemetryOptions
from benchkit.scenario.trial_order import PlannedTrial, ProfilePass
from benchkit.services.deploy import RunningService
from benchkit.services.service import with_perf_map


@dataclass(frozen=True)
class ProfileCapture:
    """Capture of the profile of one service."""

    running: RunningService
    profiler: Profiler
    profile: ProfileInProgress | HostError
    """The profile being captured, or why there is none."""


@dataclass
class Trial:
    """State of a running trial, which its steps read and fill."""

    trial_id: str
    planned_trial: PlannedTrial
    cell: PlannedCell
    hosts: Hosts
    folder: PurePosixPath
    """Folder of the trial below every host's work directory."""
    attempt: int = 1
    testbed: str | None = None
    """Testbed of the inventory that it runs on; None where all hosts are one."""
    capacity: CapacityEstimate | None = None
    """Search for its capacity that it follows."""
    started_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    started_s: float = field(default_factory=time.monotonic)
    running_services: list[RunningService] = field(default_factory=list)
    probes: tuple[ProbeRecord, ...] = ()
    probe_rounds: tuple[ProbeRound, ...] = ()
    """Further probes, in their order."""
    warmed_up_s: float = 0.0
    cpu_s: dict[str, float] = field(default_factory=dict)
    generator_runs: tuple[GeneratorRun, ...] = ()
    generators: tuple[GeneratorRecord, ...] = ()
    start_spread_s: float = 0.0
    """Time from the start of the first generator to that of the last; with slices, the largest of any."""
    clock_uncertainty_s: float = 0.0
    """Largest error of the time between starts on different hosts; 0 on one host."""
    profile: ProfilePass | None = None
    """Options of its profile; None for other kinds of trials."""
    captures: list[ProfileCapture] = field(default_factory=list)
    perf_map_errors: dict[str, HostError] = field(default_factory=dict)
    """Reasons why perf cannot use the maps of compiled functions that a service writes, by service."""
    profiles: tuple[ProfileRecord, ...] = ()
    slices: tuple[SliceRecord, ...] = ()
    """Slices of its window, in a sliced block."""
    slice_failures: tuple[str, ...] = ()
    """Slices in which the load tool failed, each with the reason."""
    wall_s: float | None = None
    """Its share of the duration of a sliced block; None: from its first step to now."""
    telemetry_options: TelemetryOptions | None = None
    """Options of telemetry; None where there is none."""
    watched_hosts: list[Host] = field(default_factory=list)
    """Hosts whose telemetry runs."""
    processes_before: Mapping[str, tuple[ProcessId, ...]] = field(default_factory=dict)
    """Processes of each service just before the load; empty without telemetry."""
    processes_after: Mapping[str, tuple[ProcessId, ...]] = field(default_factory=dict)
    watch_records: tuple[WatchRecord, ...] = ()
    folder_bytes: dict[str, dict[str, int]] = field(default_factory=dict)
    """Disk space of the services' own folders, by service and the folder's name."""
    other_programs: tuple[OtherProgram, ...] = ()
    """Programs that used CPU time of its hosts besides, the busiest first."""
    killed: list[str] = field(default_factory=list)
    """Sentences on services that did not end by themselves when they were stopped."""
    files: dict[str, bytes] = field(default_factory=dict)
    """Files to store, name → content."""

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
        testbed=plan.testbed,
        profile=profile,
        telemetry_options=plan.experiment.scenario.telemetry,
    )


def start_uncertainty_s(hosts: Iterable[Host]) -> float:
    """Return the largest error of the time between starts on two of these hosts, in seconds; 0 for one host."""
    by_name = {host.name: host.clock.uncertainty_s for host in hosts}
    return 2 * max(by_name.values()) if len(by_name) > 1 else 0.0


Step = Callable[[Trial], None]
"""One thing that a trial does; raises HostError where it cannot."""
