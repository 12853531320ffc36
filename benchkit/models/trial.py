"""The record of one trial, stored as `trial.json` with its raw files."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal

from pydantic import AwareDatetime, Field

from benchkit.models.base import Stored
from benchkit.models.capacity import CapacityEstimate
from benchkit.models.load import NS_PER_S, Load
from benchkit.models.load_result import LoadResult
from benchkit.models.profile import Profiler
from benchkit.models.protocol import HttpProtocol, Negotiated, TlsOptions
from benchkit.models.request import ResponseHeaders
from benchkit.models.rows import LoadCurveRow, SliceRow
from benchkit.models.run import RawFileName, TrialId, TrialKind

ProcessId = tuple[int, int]
"""Unique identity of a process: its pid, and its start time in the kernel's ticks since boot (pids are reused)."""


class ServiceRecord(Stored):
    """A service of the trial."""

    name: str
    backend: str
    host: str
    pid: int
    argv: tuple[str, ...]
    cpu_s: float | None = Field(default=None, description="CPU time of its processes in the measured window")
    cpus: tuple[int, ...] = Field(default=(), description="CPUs that it may run on (affinity); empty: not recorded")
    quota: float | None = Field(default=None, description="CPU quota that it shares with its role's services, in CPUs")
    has_own_quota: bool = Field(default=False, description="true: the quota is for this service alone")
    parallelism: int | None = Field(default=None, description="CPUs that its options allow (GOMAXPROCS, workers)")
    pids_before: tuple[ProcessId, ...] = Field(default=(), description="its processes just before the measured window")
    pids_after: tuple[ProcessId, ...] = Field(default=(), description="the same just after the window")
    folder_bytes: Mapping[str, int] = Field(default_factory=dict, description="disk usage of its folders afterwards")


class GeneratorRecord(Stored):
    """One process of the load tool."""

    number: int = Field(description="from 1, over all load hosts")
    host: str
    argv: tuple[str, ...]
    load: Load = Field(description="its share of the cell's load")
    files: Mapping[Literal["stdout", "stderr", "reduction", "slices"], RawFileName] = Field(
        description="its raw files; `slices` is an archive with the files of all slices"
    )
    started_s: float = Field(description="start, counted from the first generator's, on the controller's clock")
    wall_s: float
    late_s: float = Field(default=0.0, description="delay of its start after the planned instant")
    cpu_s: float = Field(description="CPU time of its process")
    cpus: tuple[int, ...] = Field(default=(), description="CPUs that it may run on (affinity); empty: not recorded")
    threads: int | None = Field(default=None, description="threads that generate load; None: the tool sets no limit")
    result: LoadResult | None = Field(default=None, description="its own result; None: its output could not be parsed")

    @property
    def ended_s(self) -> float:
        """End time, from the start of the first generator."""
        return self.started_s + self.wall_s


class ImportedOutput(Stored):
    """The output of a load tool that ran elsewhere: all that is known of its trial."""

    file: RawFileName = Field(description="name of its raw file")
    name: str = Field(description="name of the file that was imported")
    duration_s: float | None = Field(default=None, gt=0, description="measured window, where it is stated")
    result: LoadResult


ProbeMoment = Literal["before", "during", "after"]
"""Time of a probe: before the load, in the middle of the measured window, or after it."""


class ProbeRecord(Stored):
    """The response to one probed request: what the server sends for it."""

    status: int
    header_bytes: int = Field(description="up to the blank line; of HTTP/2 as it would be in HTTP/1.1")
    headers: ResponseHeaders = Field(description="in their order; values of secret ones are not stored")
    body_bytes: int
    body_sha256: str
    closes: bool = Field(default=False, description="the server closed the connection after it")
    negotiated: Negotiated | None = Field(default=None, description="protocol and TLS of its connection; None: unknown")

    @property
    def media_type(self) -> str | None:
        """Media type of its body without parameters, in lower case; None where the server states none."""
        stated = next((value for name, value in self.headers if name.lower() == "content-type"), "")
        return stated.partition(";")[0].strip().lower() or None


class ProbeRound(Stored):
    """One further round of probes: each request of the load is sent once."""

    moment: ProbeMoment
    responses: tuple[ProbeRecord, ...] = Field(
        default=(), description="in the order of `request_mix`; empty: incomplete"
    )
    faults: tuple[str, ...] = Field(default=(), description="what differs from the expected responses, as clauses")
    failure: str | None = Field(default=None, description="reason why not all came")


class WatchRecord(Stored):
    """The sampling of a host during the trial: the context that its raw telemetry lacks."""

    host: str
    roles: tuple[str, ...] = Field(description="the trial's roles on this host")
    file: RawFileName = Field(description="name of the raw file with the samples")
    interval_s: float
    window_ns: tuple[int, int] = Field(description="start and end of the measured window on the host's monotonic clock")
    clock_uncertainty_s: float = Field(description="maximum error of `window_ns`")
    cpu_quota: float | None = Field(default=None, description="CPU quota of the host by control groups, in CPUs")
    unseen: tuple[str, ...] = Field(default=(), description="metrics that could not be sampled, with the reason")
    machine: str | None = Field(default=None, description="boot id of its machine, which hosts of a lab share")

    @property
    def window_s(self) -> float:
        """Length of the measured window."""
        return (self.window_ns[1] - self.window_ns[0]) / NS_PER_S


class ProfileRecord(Stored):
    """A profile of a service in a profile trial, or the reason why it is missing."""

    service: str
    host: str
    profiler: Profiler
    file: RawFileName | None = Field(default=None, description="name of its raw file")
    started_s: float | None = Field(default=None, description="start, counted from the start of the measured window")
    ended_s: float | None = Field(default=None, description="end, likewise; for pprof, the end of its response")
    cpu_s: float | None = Field(default=None, description="CPU time of perf; pprof's belongs to the service")
    why_not: str | None = Field(default=None, description="reason why it is missing")


class TraceRecord(Stored):
    """A trace of services on a host in a trace trial, or the reason why it is missing."""

    services: tuple[str, ...] = Field(description="names of the services, which the trace numbers from 1")
    host: str
    machine: str = Field(description="architecture, which numbers the system calls")
    file: RawFileName | None = Field(default=None, description="name of its raw file")
    started_s: float | None = Field(default=None, description="start, counted from the start of the measured window")
    ended_s: float | None = Field(default=None, description="end, likewise")
    cpu_s: float | None = Field(default=None, description="CPU time of bpftrace")
    why_not: str | None = Field(default=None, description="reason why it is missing")


class OtherProgram(Stored):
    """A program outside the run that used CPU time of a host during a trial."""

    name: str = Field(description="name of its command, as the kernel has it")
    pid: int = Field(description="its process, or the parent that waited for it")
    cores: float = Field(description="CPU seconds per second")

    @property
    def title(self) -> str:
        """Its command and pid."""
        return f"{self.name} (pid {self.pid})"


class TrialRecord(Stored):
    """One trial that ended: its times, its load, its processes and its overhead."""

    trial_id: TrialId
    cell_id: str
    levels: Mapping[str, str | int | float | bool]
    block: int
    position: int
    round: int = Field(default=1, description="an interrupted block is repeated as the next round")
    attempt: int = Field(default=1, description="from 1; a host was lost in earlier attempts")
    kind: TrialKind = "measure"
    started_at: AwareDatetime
    wall_s: float = Field(description="its warm-up and load, with its share of the other time of its block")
    warmed_up_s: float = Field(default=0, description="duration of the warm-up")
    load: Load
    target: str | None
    protocol: HttpProtocol = Field(default="http1", description="protocol that the scenario wants of the entry")
    tls: TlsOptions | None = Field(default=None, description="options of its TLS; None without TLS")
    services: tuple[ServiceRecord, ...]
    generators: tuple[GeneratorRecord, ...] = Field(description="processes of the load tool; empty: it ran elsewhere")
    imported: ImportedOutput | None = Field(default=None, description="output that was measured elsewhere")
    start_spread_s: float = Field(default=0, description="time from the first to the last start of a generator")
    clock_uncertainty_s: float = Field(default=0, description="largest error of it, between hosts")
    probe: ProbeRecord | None = Field(default=None, description="response to the first request of the load")
    other_probes: tuple[ProbeRecord, ...] = Field(default=(), description="responses to the others, in their order")
    probe_rounds: tuple[ProbeRound, ...] = Field(default=(), description="further probes, before, during and after")
    watched: tuple[WatchRecord, ...] = Field(default=(), description="hosts with telemetry; empty: telemetry was off")
    profiles: tuple[ProfileRecord, ...] = Field(default=(), description="profiles of services, in a profile trial")
    traces: tuple[TraceRecord, ...] = Field(default=(), description="traces of services, in a trace trial")
    capacity: CapacityEstimate | None = Field(default=None, description="search before it, which found its rate")
    slices: tuple[SliceRow, ...] = Field(default=(), description="of a sliced block, without the load tool's figures")
    load_curve: tuple[LoadCurveRow, ...] = Field(default=(), description="of a trial that measures the load curve")
    external: tuple[str, ...] = Field(default=(), description="services that others deploy, and that were not watched")
    other_programs: tuple[OtherProgram, ...] = Field(default=(), description="other programs, the busiest first")
    killed: tuple[str, ...] = Field(default=(), description="services that did not end when stopped, as sentences")

    @property
    def probes(self) -> tuple[ProbeRecord, ...]:
        """Responses to the requests of the load, in the order of `Load.request_mix`; empty: not probed."""
        return () if self.probe is None else (self.probe, *self.other_probes)

    def responses_at(self, moment: ProbeMoment) -> tuple[ProbeRecord, ...]:
        """Return the responses of the further probes at a moment, in the same order; empty where not all came."""
        return next((each.responses for each in self.probe_rounds if each.moment == moment), ())

    @property
    def keeps_connections(self) -> bool:
        """True where connections stay open: the load keeps them, and so do the servers as far as they were probed."""
        return self.load.keepalive and not any(each.closes for each in self.probes)

    @property
    def window_s(self) -> float:
        """Length of the measured window: from the start of the first generator to the end of the last.

        Infinite for an imported result that does not state it: no request is known to be cut off at its end.
        """
        if self.imported is not None:
            return self.imported.duration_s or math.inf
        return max(generator.ended_s for generator in self.generators)

    @property
    def outputs(self) -> tuple[tuple[Load, LoadResult], ...]:
        """Each process of the load tool whose output could be read: its share of the load, and its own result."""
        if self.imported is not None:
            return ((self.load, self.imported.result),)
        return tuple((each.load, each.result) for each in self.generators if each.result is not None)
