"""Telemetry of a host during a trial: one session at a time, from before the load until after it."""

from __future__ import annotations

import threading
import time
from functools import partial
from pathlib import Path
from typing import Dict, Iterable, List, Optional, Sequence, Tuple

from benchkit.agent import operations as ops
from benchkit.agent.cgroups import cpu_quota, own_cgroups
from benchkit.agent.child_process import Child
from benchkit.agent.common import OperationError
from benchkit.agent.operations import HostPath, operation
from benchkit.agent.process_collectors import ProcessTree, ProcessTrees, ScheduledProcesses
from benchkit.agent.processes import ProcessTable
from benchkit.agent.recorder import Recorder, SamplingSchedule, SeriesGroup
from benchkit.agent.registry import AGENT, AGENT_ITSELF, HOST, HOST_SCHEDULED, Factory, of_service, of_service_scheduled
from benchkit.agent.sampler import CoreSpeedSampler, Sampler, ScheduledSampler
from benchkit.agent.server_counters import CounterPoller
from benchkit.agent.socket_collectors import EstablishedConnections, ListeningSockets
from benchkit.agent.timetable import Timetable
from benchkit.agent.workdir import Workdir

SHORTEST_S, LONGEST_S = 0.01, 600.0
SNAPSHOT_S = 20.0
"""Time for sampling everything once: it takes milliseconds, on an overloaded host seconds."""


class Session:
    """Telemetry that runs until it is stopped."""

    POLL_TIMEOUT_S = 0.25
    """Time that an extra sample waits for servers' own counters."""
    STOP_TIMEOUT_S = 2.0

    def __init__(
        self,
        path: Path,
        interval_s: float,
        core_interval_s: float,
        processes: ProcessTable,
        timetable: Timetable,
    ) -> None:
        """Start to sample the host and write to a new file; `core_interval_s` is the interval of core speeds."""
        self._processes, self._timetable = processes, timetable
        self._sampling, self._polling = SamplingSchedule(interval_s), SamplingSchedule(interval_s)
        self.recorder = Recorder(path, {"interval_s": interval_s, "began_ns": time.monotonic_ns()})
        self._process_trees, self._sockets = ProcessTrees(processes), ListeningSockets()
        self._sampler = Sampler(self._sampling, self.recorder, self._process_trees, self._sockets)
        self._sampler.add(None, HOST)
        self._sampler.add(AGENT, AGENT_ITSELF)
        self._service_trees: Dict[str, ProcessTree] = {}
        self._pollers: List[CounterPoller] = []
        self._established = EstablishedConnections()
        self._scheduled: List[Tuple[SeriesGroup, Factory]] = []
        self._scheduled_samplers: List[ScheduledSampler] = []
        self._add_scheduled(None, HOST_SCHEDULED)
        self._core_speeds = CoreSpeedSampler(core_interval_s, self.recorder)
        self._sampler.start()
        self._core_speeds.start()

    def add(self, services: Sequence[ops.SampledService]) -> None:
        """Add services; one without `process` is started by the timetable, under its name."""
        for service in services:
            if service.process is not None:
                self._add_tree(service, self._processes.child(service.process))
            elif service.threads:
                self._timetable.await_start(service.name, partial(self._add_tree, service))
            else:
                self._sampler.add(service.name, [partial(ScheduledProcesses, self._timetable, service.name)])

    def _add_tree(self, service: ops.SampledService, child: Child) -> None:
        name = service.name
        self._service_trees[name], factories = of_service(service, child, self._process_trees, self._sockets)
        self._sampler.add(name, factories)
        self._add_scheduled(name, of_service_scheduled(service, child, self._established))
        if service.counters is not None:
            poller = CounterPoller(service.counters, self._polling, self.recorder, self.recorder.group(name))
            self._pollers.append(poller)
            poller.start()

    def snapshot(self) -> ops.TelemetrySnapshot:
        """Sample now."""
        at_ns = time.monotonic_ns()
        if not self._sampling.tick_now(SNAPSHOT_S):
            raise OperationError("timeout", f"sampling the host took more than {SNAPSHOT_S:g} s")
        self._polling.tick_now(self.POLL_TIMEOUT_S)
        trees = self._service_trees
        escapes = {name: tree.escape() for name, tree in trees.items()}
        return ops.TelemetrySnapshot(
            at_ns,
            processes={name: tuple(tree.ids()) for name, tree in trees.items()},
            cpu_s={name: tree.used.total_s for name, tree in trees.items() if tree.used is not None},
            escapes={name: why for name, why in escapes.items() if why is not None},
        )

    def schedule_snapshots(self, at_ns: Sequence[int]) -> None:
        """Sample at these instants; regular samples pause until the last of them is over."""
        self._sampling.tick_at(at_ns)

    def schedule_samples(self, at_ns: Sequence[int]) -> None:
        """Sample the expensive collectors of the host and of all services added so far at these instants."""
        sampler = ScheduledSampler(at_ns, list(self._scheduled), self._established, self.recorder)
        self._scheduled_samplers.append(sampler)
        sampler.start()

    def stop(self) -> ops.TelemetrySummary:
        """End the session; return the data that samples lack, with the reasons, and the CPU quota of the host."""
        self._timetable.await_none()
        for schedule in (self._sampling, self._polling):
            schedule.stop()
        self._core_speeds.stop()
        for sampler in self._scheduled_samplers:
            sampler.stop()
        for thread in (self._sampler, self._core_speeds, *self._pollers, *self._scheduled_samplers):
            thread.join(self.STOP_TIMEOUT_S)
        self._established.close()
        problems = [*self._sampler.problems(), self._core_speeds.problem()]
        problems += [poller.problem() for poller in self._pollers]
        problems += [problem for sampler in self._scheduled_samplers for problem in sampler.problems]
        summary = ops.TelemetrySummary(cpu_quota(own_cgroups()), list(dict.fromkeys(filter(None, problems))))
        self.recorder.close(
            {"ended_ns": time.monotonic_ns(), "cpu_quota": summary.cpu_quota, "unseen": summary.unavailable}
        )
        return summary

    def _add_scheduled(self, service: Optional[str], factories: Iterable[Factory]) -> None:
        self._scheduled += [(self.recorder.group(service), factory) for factory in factories]


class Telemetry:
    """Telemetry of the host, one session at a time, from `start` to `stop`; safe for many threads."""

    def __init__(self, workdir: Workdir, processes: ProcessTable, timetable: Timetable) -> None:
        self._workdir = workdir
        self._processes = processes
        self._timetable = timetable
        self._lock = threading.Lock()
        self._session: Optional[Session] = None

    @operation()
    def start(
        self,
        path: HostPath,
        interval_s: float,
        services: Sequence[ops.SampledService] = (),
        core_interval_s: Optional[float] = None,
    ) -> None:
        """Start to sample the host and these services, and write the samples to a new file.

        `core_interval_s` is the interval of core speeds, if it differs.
        """
        if not SHORTEST_S <= interval_s <= LONGEST_S:
            what = f"an interval of {interval_s:g} s; allowed: {SHORTEST_S:g} to {LONGEST_S:g} s"
            raise OperationError("bad-request", what)
        with self._lock:
            if self._session is not None:
                raise OperationError("busy", "telemetry of this host is running already")
            file = self._workdir.inside(path, write=True)
            session = Session(file, interval_s, core_interval_s or interval_s, self._processes, self._timetable)
            try:
                session.add(services)
            except BaseException:
                session.stop()
                raise
            self._session = session

    def _running(self) -> Session:
        """Return the running session. Raises OperationError without one."""
        session = self._session
        if session is None:
            raise OperationError("not-found", "telemetry of this host is not running")
        return session

    @operation()
    def add(self, services: Sequence[ops.SampledService]) -> None:
        """Sample these services too."""
        self._running().add(services)

    @operation(within_s=SNAPSHOT_S)
    def snapshot(self) -> ops.TelemetrySnapshot:
        """Sample everything now, outside of the regular interval."""
        return self._running().snapshot()

    @operation()
    def schedule_snapshots(self, at_ns: Sequence[int]) -> None:
        """Sample at these instants; regular samples pause until the last of them is over."""
        self._running().schedule_snapshots(at_ns)

    @operation()
    def schedule_samples(self, at_ns: Sequence[int]) -> None:
        """Sample expensive data (connections and clock rates) at these instants.

        Connections are counted for the services that are sampled at the time of the call.
        """
        self._running().schedule_samples(at_ns)

    @operation()
    def latest(self) -> Dict[str, Dict[str, Tuple[int, float]]]:
        """Return the last values of each service: metric → (instant in ns, value); nothing without a session."""
        session = self._session
        return {} if session is None else session.recorder.latest()

    @operation(within_s=SNAPSHOT_S)
    def stop(self) -> Optional[ops.TelemetrySummary]:
        """End the session; return None where none is running."""
        with self._lock:
            session, self._session = self._session, None
        return None if session is None else session.stop()
