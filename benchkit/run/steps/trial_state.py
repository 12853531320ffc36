"""A trial under way: what it is, and what its steps have found so far."""

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
from benchkit.load.generators.execution import GeneratorRun
from benchkit.models.profile import Profiler
from benchkit.models.trial import GeneratorRecord, ProbeRecord, ProcessId, ProfileRecord, WatchRecord
from benchkit.run.plan.model import PlannedCell, RunPlan
from benchkit.scenario.profile_pass import ProfilePass
from benchkit.scenario.telemetry_options import Watching
from benchkit.scenario.trial_order import PlannedTrial
from benchkit.services.deploy import RunningService
from benchkit.services.profilers import with_perf_map


@dataclass(frozen=True)
class ProfileCapture:
    """The profile of one service, being taken or, with the reason, not."""

    running: RunningService
    profiler: Profiler
    under_way: ProfileInProgress | HostError
    mapped: tuple[int, ...] = ()
    """The processes of the service that write a map of compiled code for perf, each outside of the trial's folder."""


@dataclass
class Trial:
    """A trial under way: what it is, and what its steps have found so far."""

    trial_id: str
    planned_trial: PlannedTrial
    cell: PlannedCell
    hosts: Hosts
    folder: PurePosixPath
    """Its own folder below every host's work directory."""
    attempt: int = 1
    started_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    began: float = field(default_factory=time.monotonic)
    running: list[RunningService] = field(default_factory=list)
    probe: ProbeRecord | None = None
    warmed_up_s: float = 0.0
    cpu_s: dict[str, float] = field(default_factory=dict)
    generator_runs: tuple[GeneratorRun, ...] = ()
    generators: tuple[GeneratorRecord, ...] = ()
    profile: ProfilePass | None = None
    """What is profiled of it; None where it is a trial of another kind."""
    takings: list[ProfileCapture] = field(default_factory=list)
    profiles: tuple[ProfileRecord, ...] = ()
    watching: Watching | None = None
    """How its hosts are watched; None where they are not."""
    watched: list[Host] = field(default_factory=list)
    """The hosts that are being watched now."""
    processes_before: Mapping[str, tuple[ProcessId, ...]] = field(default_factory=dict)
    """The processes of each service just before the load; none where nothing is watched."""
    processes_after: Mapping[str, tuple[ProcessId, ...]] = field(default_factory=dict)
    watches: tuple[WatchRecord, ...] = ()
    folder_bytes: dict[str, dict[str, int]] = field(default_factory=dict)
    """Disk space of the services' own folders, by service and the folder's name."""
    files: dict[str, bytes] = field(default_factory=dict)
    """What is stored of it: name → content."""

    @property
    def load_hosts(self) -> tuple[Host, ...]:
        """The hosts of its generators; the first of them also probes."""
        return tuple(self.hosts[name] for name in dict.fromkeys(each.host for each in self.cell.generators))

    @property
    def used_hosts(self) -> tuple[Host, ...]:
        """The hosts of its services and of its generators."""
        names = [*(service.host for service in self.cell.services), *(each.host for each in self.cell.generators)]
        return tuple(self.hosts[name] for name in dict.fromkeys(names))

    def by_host(self) -> Iterable[tuple[Host, list[RunningService]]]:
        """The services that run, grouped by host."""
        for name in dict.fromkeys(each.service.host for each in self.running):
            yield self.hosts[name], [each for each in self.running if each.service.host == name]


def trial_id_of(run_id: str, planned_trial: PlannedTrial) -> str:
    """The name of a trial, by which the store knows it."""
    again = f"r{planned_trial.round}" if planned_trial.round > 1 else ""
    return f"{run_id}.b{planned_trial.block:03}{again}.p{planned_trial.position:03}"


def make_trial(plan: RunPlan, planned_trial: PlannedTrial, run_id: str, hosts: Hosts) -> Trial:
    """A trial of the plan, about to begin."""
    trial_id = trial_id_of(run_id, planned_trial)
    cell, profile = plan.cell_of(planned_trial), None
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
        watching=plan.experiment.scenario.telemetry,
    )


Step = Callable[[Trial], None]
"""One thing that a trial does; raises HostError where it cannot."""
