"""One trial as it was carried out: what `trial.json` beside its raw files holds."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Literal

from pydantic import Field

from benchkit.models.base import Frozen
from benchkit.models.load import Load
from benchkit.models.load_result import LoadResult
from benchkit.models.profile import Profiler
from benchkit.models.run import TrialKind

ProcessId = tuple[int, int]
"""A process for good: its pid, and when it started, in the kernel's ticks since boot (a pid may be used again)."""


class ServiceRecord(Frozen):
    """A service of the trial, from its start to its end."""

    name: str
    backend: str
    host: str
    pid: int
    argv: tuple[str, ...]
    cpu_s: float | None = Field(default=None, description="CPU time of its process tree over the measured window")
    cpus: tuple[int, ...] = Field(default=(), description="CPUs that it may run on (affinity); empty: not recorded")
    quota: float | None = Field(
        default=None,
        description="CPUs' worth of time that the services of its role on the host get together; None: no quota",
    )
    parallelism: int | None = Field(
        default=None, description="CPUs that its options let it use at once (GOMAXPROCS, workers); None: no limit"
    )
    pids_before: tuple[ProcessId, ...] = Field(
        default=(),
        description="the processes of its tree just before the measured window, without those that end by themselves; "
        "empty: not looked at",
    )
    pids_after: tuple[ProcessId, ...] = Field(default=(), description="the same just after it")
    folder_bytes: Mapping[str, int] = Field(
        default_factory=dict, description="what its own folders, such as a cache, take on the disk after the window"
    )


class GeneratorRecord(Frozen):
    """One process of the load tool."""

    number: int = Field(description="from 1, over all load hosts")
    host: str
    argv: tuple[str, ...]
    load: Load = Field(description="its share")
    files: Mapping[Literal["stdout", "stderr", "reduction"], str] = Field(
        description="names of the raw files that hold what it left"
    )
    started_s: float = Field(description="from the start of the first one, on the controller's clock")
    wall_s: float
    late_s: float | None = Field(default=None, description="start after the agreed instant; None: it was alone")
    cpu_s: float = Field(description="CPU time of its process")
    cpus: tuple[int, ...] = Field(default=(), description="CPUs that it may run on (affinity); empty: not recorded")
    threads: int | None = Field(default=None, description="threads that put load on, at most; None: the tool sets none")
    result: LoadResult | None = Field(default=None, description="what it said by itself; None: it could not be read")

    @property
    def ended_s(self) -> float:
        """When it ended, from the start of the first one."""
        return self.started_s + self.wall_s


class ProbeRecord(Frozen):
    """The answer to one request before the load: what the cell sends."""

    status: int
    header_bytes: int = Field(description="from the status line to the blank line, both included")
    headers: tuple[tuple[str, str], ...]
    body_bytes: int
    body_sha256: str


class WatchRecord(Frozen):
    """How a host was watched during the trial: what its raw telemetry cannot say by itself."""

    host: str
    roles: tuple[str, ...] = Field(description="those of the trial's roles that the host has")
    file: str = Field(description="name of the raw file that holds the samples")
    interval_s: float
    window_ns: tuple[int, int] = Field(description="start and end of the window on the host's monotonic clock")
    clock_uncertainty_s: float = Field(description="`window_ns` lies within this of the truth")
    cpu_quota: float | None = Field(
        default=None, description="CPUs' worth of time that control groups grant the host; None: no quota"
    )
    unseen: tuple[str, ...] = Field(default=(), description="what could not be watched there and why, for people")


class ProfileRecord(Frozen):
    """A profile of a service in a trial that is there to be profiled, or why there is none."""

    service: str
    host: str
    profiler: Profiler
    file: str | None = Field(default=None, description="name of the raw file that holds it")
    started_s: float | None = Field(default=None, description="from the start of the window")
    ended_s: float | None = Field(default=None, description="likewise; of pprof, when its answer had come")
    cpu_s: float | None = Field(
        default=None, description="taken by perf, which runs beside the service; pprof is a part of it"
    )
    why_not: str | None = Field(default=None, description="why there is none, for people")


class TrialRecord(Frozen):
    """One trial that ended: when, under what load, on which processes, at what overhead."""

    trial_id: str
    cell_id: str
    levels: Mapping[str, str | int | float | bool]
    block: int
    position: int
    round: int = Field(default=1, description="of the block: one that was cut by a pause is run again as its next")
    attempt: int = Field(default=1, description="2 and more: a host was lost in those before")
    kind: TrialKind = "measure"
    started_at: datetime
    wall_s: float = Field(description="from the first step to the last")
    warmed_up_s: float = Field(default=0, description="what the warm-up took; a tool may end it early")
    load: Load
    target: str
    services: tuple[ServiceRecord, ...]
    generators: tuple[GeneratorRecord, ...]
    start_spread_s: float = Field(default=0, description="from the start of the first generator to that of the last")
    clock_uncertainty_s: float = Field(
        default=0, description="starts on different hosts may be off by so much, one against the other"
    )
    probe: ProbeRecord
    watched: tuple[WatchRecord, ...] = Field(default=(), description="empty: telemetry was off")
    profiles: tuple[ProfileRecord, ...] = Field(default=(), description="of services, where the trial is for that")

    @property
    def window_s(self) -> float:
        """How long the measured window was: from the start of the first generator to the end of the last."""
        return max(generator.ended_s for generator in self.generators)
