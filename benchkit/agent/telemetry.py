"""Telemetry of a host during a trial: one session at a time, from before the load until after it."""

from __future__ import annotations

import os
import threading
import time
from functools import partial
from pathlib import Path
from typing import Dict, List, Optional, Sequence, Tuple

from benchkit.agent import operations as ops
from benchkit.agent.cgroups import cpu_quota, own_cgroups
from benchkit.agent.child_process import Child
from benchkit.agent.common import Collector, OperationError, Values, Workdir
from benchkit.agent.host_collectors import HOST, clock_rates
from benchkit.agent.operations import HostPath, operation
from benchkit.agent.process_collectors import (
    ProcessTree,
    ProcessTrees,
    TreeActivity,
    agent_usage,
    quota_throttling,
    thread_times,
)
from benchkit.agent.processes import ProcessTable
from benchkit.agent.recorder import SECOND_NS, GroupValues, Recorder, SampleWriter, SamplingSchedule, SeriesGroup, Tick
from benchkit.agent.server_counters import CounterPage
from benchkit.agent.socket_collectors import ServiceSockets, SocketTable, network_of
from benchkit.agent.timetable import Timetable

SNAPSHOT_S = 20.0
"""Time for sampling everything once: it takes milliseconds, on an overloaded host seconds."""
POLL_TIMEOUT_S = 0.25
"""Time that an extra sample waits for servers' own counters."""
STOP_TIMEOUT_S = 2.0
AGENT = "agent"
"""Service name of the agent itself."""

ROUNDS = 400
"""Rounds of the loop that shows a core's speed; they take some 10 µs."""
REPEATS = 3
"""Runs of the loop, of which the median counts: an interrupt spoils one, and the first has cold caches."""
CORES_PER_INTERVAL = 2
"""Cores that are measured in one interval; more cores take turns."""


class Sampler(threading.Thread):
    """Samples collectors at the ticks of a schedule.

    A collector that fails stops no other; its reason is added to `problems`, an ordered set.
    """

    def __init__(self, name: str, interval_s: float, recorder: Recorder, problems: Dict[str, None]) -> None:
        super().__init__(name=name, daemon=True)
        self.schedule = SamplingSchedule(interval_s)
        self._recorder = recorder
        self._problems = problems
        self._collectors: List[Tuple[SeriesGroup, Collector, Sequence[Tick]]] = []

    def add(self, service: Optional[str], *collectors: Collector, ticks: Sequence[Tick] = tuple(Tick)) -> None:
        """Add collectors that are sampled at these ticks.

        The first one shows the instant of the sample: those at the edge of a slice have to be quick.
        """
        self._collectors += [(self._recorder.group(service), each, ticks) for each in collectors]

    def run(self) -> None:
        """Sample at each tick of the schedule."""
        writer = SampleWriter(self._recorder, self.schedule.interval_ns)
        for tick in self.schedule.ticks():
            due = [each[:2] for each in self._collectors if tick in each[2]]
            at_ns, sample = sample_all(due, self._problems)
            if sample:
                writer.write(at_ns, sample, tick)
        writer.close()


def sample_all(
    collectors: Sequence[Tuple[SeriesGroup, Collector]], problems: Dict[str, None]
) -> Tuple[int, GroupValues]:
    """Sample collectors once; return the instant and the values.

    It is the instant at which the first of them has read its source: CPU times of the cores are compared with it.
    """
    at_ns, sample = 0, []
    for group, collect in collectors:
        try:
            sample.append((group, collect()))
        except (OperationError, OSError) as error:
            problems[f"{group.service}: {error}" if group.service else str(error)] = None
        at_ns = at_ns or time.monotonic_ns()
    return at_ns, sample


class CoreSpeeds:
    """The speed of the cores that this process may use, a few at a time, in a thread that may wait for a busy core."""

    def __init__(self) -> None:
        self._cores = sorted(os.sched_getaffinity(0))

    def sample(self) -> Values:
        """Return the CPU time of a loop by core. Raises OperationError where the thread may not run on one."""
        due = self._cores[:CORES_PER_INTERVAL]
        self._cores = self._cores[CORES_PER_INTERVAL:] + due
        return {("cpu_loop_s", str(core)): measure_loop(core) for core in due}


def measure_loop(core: int) -> float:
    """Return the CPU time of the loop on a core, in seconds; the calling thread stays there.

    Raises OperationError where the thread may not run there.
    """
    try:
        os.sched_setaffinity(0, {core})  # of the calling thread only
    except OSError as error:
        raise OperationError("unavailable", f"core {core}: its speed could not be measured: {error.strerror}") from None
    return sorted(_loop_ns() for _ in range(REPEATS))[REPEATS // 2] / SECOND_NS


def _loop_ns() -> int:
    started_ns = time.thread_time_ns()
    total = 0
    for number in range(ROUNDS):
        total += number
    return time.thread_time_ns() - started_ns


class Session:
    """Telemetry that runs until it is stopped."""

    def __init__(
        self, path: Path, interval_s: float, core_interval_s: float, processes: ProcessTable, timetable: Timetable
    ) -> None:
        """Start to sample the host and write to a new file; `core_interval_s` is the interval of core speeds."""
        self._processes, self._timetable, self._interval_s = processes, timetable, interval_s
        self.recorder = Recorder(path, {"interval_s": interval_s, "began_ns": time.monotonic_ns()})
        self._problems: Dict[str, None] = {}
        self._process_trees = ProcessTrees(processes)
        self._service_trees: Dict[str, ProcessTree] = {}
        self._sockets: Dict[Optional[int], SocketTable] = {}
        self._pollers: List[Sampler] = []
        self._pages: List[CounterPage] = []
        self._expensive: List[Tuple[SeriesGroup, Collector]] = [(self.recorder.group(None), clock_rates)]
        self._timers: List[threading.Timer] = []
        self.sampler = Sampler("sampler", interval_s, self.recorder, self._problems)
        self.sampler.add(None, *HOST)
        self.sampler.add(AGENT, agent_usage)
        self._core_speeds = Sampler("core speed", core_interval_s, self.recorder, self._problems)
        self._core_speeds.add(None, CoreSpeeds().sample)
        self.sampler.start()
        self._core_speeds.start()

    def add(self, services: Sequence[ops.SampledService]) -> None:
        """Add services; one without `process` is started by the timetable, under its name."""
        for service in services:
            if service.process is not None:
                self._add_tree(service, self._processes.child(service.process))
            elif service.threads:
                self._timetable.await_start(service.name, partial(self._add_tree, service))
            else:
                self.sampler.add(service.name, partial(self._of_timetable, service.name))

    def _of_timetable(self, name: str) -> Values:
        return {("cpu_s_total", None): self._timetable.cpu_s(name)}

    def _add_tree(self, service: ops.SampledService, child: Child) -> None:
        name, tree = service.name, ProcessTree(child, self._process_trees)
        self._service_trees[name] = tree
        activity = TreeActivity(tree)
        self.sampler.add(name, tree.sample, partial(quota_throttling, child), activity.run_queue_delay)
        self.sampler.add(name, activity.context_switches, activity.storage_writes, ticks=[Tick.REQUESTED])
        if service.listeners:
            pid = None if child.group is None else network_of(child.group.pids())
            table = self._sockets.setdefault(pid, SocketTable(pid))
            sockets = ServiceSockets(service.listeners, table)
            self.sampler.add(name, sockets.accept_queues, ticks=[Tick.REQUESTED, Tick.REGULAR])
            self._expensive += [
                (self.recorder.group(name), each) for each in (sockets.accept_queues, sockets.connections)
            ]
        if service.threads:
            self.sampler.add(name, partial(thread_times, child))
        if service.counters is not None:
            poller = Sampler(f"poller {name}", self._interval_s, self.recorder, self._problems)
            page = CounterPage(service.counters)
            poller.add(name, page.sample)
            self._pollers.append(poller)
            self._pages.append(page)
            poller.start()

    def snapshot(self) -> ops.TelemetrySnapshot:
        """Sample now."""
        at_ns = time.monotonic_ns()
        schedule = self.sampler.schedule
        if not schedule.wait(schedule.request(), SNAPSHOT_S):
            raise OperationError("timeout", f"sampling the host took more than {SNAPSHOT_S:g} s")
        deadline = time.monotonic() + POLL_TIMEOUT_S
        for polled, number in [(each.schedule, each.schedule.request()) for each in self._pollers]:
            polled.wait(number, max(0.0, deadline - time.monotonic()))
        trees = self._service_trees
        return ops.TelemetrySnapshot(
            at_ns,
            processes={name: tuple(tree.ids()) for name, tree in trees.items()},
            cpu_s={name: tree.used.total_s for name, tree in trees.items() if tree.used is not None},
        )

    def schedule_samples(self, at_ns: Sequence[int]) -> None:
        """Sample the expensive collectors of the host and of all services added so far at these instants."""
        collectors = list(self._expensive)
        for instant_ns in at_ns:
            delay_s = max(0.0, (instant_ns - time.monotonic_ns()) / SECOND_NS)
            timer = threading.Timer(delay_s, lambda: self.recorder.write(*sample_all(collectors, self._problems)))
            timer.daemon = True
            self._timers.append(timer)
            timer.start()

    def stop(self) -> ops.TelemetrySummary:
        """End the session; return the data that samples lack, with the reasons, and the CPU quota of the host."""
        self._timetable.await_none()
        samplers = (self.sampler, self._core_speeds, *self._pollers)
        for sampler in samplers:
            sampler.schedule.stop()
        for timer in self._timers:
            timer.cancel()
        for thread in (*samplers, *self._timers):
            thread.join(STOP_TIMEOUT_S)
        for page in self._pages:
            page.close()
        for table in self._sockets.values():
            table.close()
        summary = ops.TelemetrySummary(cpu_quota(own_cgroups()), list(self._problems))
        self.recorder.close(
            {"ended_ns": time.monotonic_ns(), "cpu_quota": summary.cpu_quota, "unseen": summary.unavailable}
        )
        return summary


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
        self._running().sampler.schedule.tick_at(at_ns)

    @operation()
    def schedule_samples(self, at_ns: Sequence[int]) -> None:
        """Sample expensive data (connections and clock rates) at these instants.

        Connections are counted for the services that are sampled at the time of the call.
        """
        self._running().schedule_samples(at_ns)

    @operation(within_s=SNAPSHOT_S)
    def stop(self) -> Optional[ops.TelemetrySummary]:
        """End the session; return None where none is running."""
        with self._lock:
            session, self._session = self._session, None
        return None if session is None else session.stop()
