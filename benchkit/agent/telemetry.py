"""Telemetry of a host during a trial: one session at a time, from before the load until after it."""

from __future__ import annotations

import os
import threading
import time
from functools import partial
from pathlib import Path
from typing import Callable, Dict, Iterable, List, Optional, Sequence, Tuple

from benchkit.agent import operations as ops
from benchkit.agent.cgroups import cpu_quota, own_cgroups
from benchkit.agent.child_process import Child
from benchkit.agent.collector import Collector, UnavailableError
from benchkit.agent.common import OperationError, Workdir
from benchkit.agent.host_collectors import HOST, Frequency
from benchkit.agent.operations import HostPath, ProcessSpec, operation
from benchkit.agent.process_collectors import (
    AgentCpu,
    ContextSwitches,
    GroupLimits,
    ProcessTree,
    ProcessTrees,
    ScheduledProcesses,
    StorageWrites,
    ThreadTimes,
)
from benchkit.agent.processes import ProcessTable
from benchkit.agent.recorder import SECOND_NS, GroupValues, Recorder, SampleWriter, SamplingSchedule, SeriesGroup, Tick
from benchkit.agent.server_counters import CounterPoller
from benchkit.agent.socket_collectors import AcceptQueues, Connections, network_of, tool_in_network
from benchkit.agent.timetable import Timetable

SHORTEST_S, LONGEST_S = 0.01, 600.0
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

Factory = Callable[[], Collector]
"""Creates a collector. Raises UnavailableError where the host does not have its source."""


class Problems(Dict[str, None]):
    """Reasons why something could not be sampled, as an ordered set."""

    def note(self, service: Optional[str], error: object) -> None:
        """Add a reason."""
        self[f"{service}: {error}" if service else str(error)] = None


class Sampler(threading.Thread):
    """Samples the collectors of one session at the ticks of a schedule."""

    def __init__(self, interval_s: float, recorder: Recorder, trees: ProcessTrees, problems: Problems) -> None:
        super().__init__(name="sampler", daemon=True)
        self.schedule = SamplingSchedule(interval_s)
        self._recorder = recorder
        self._trees = trees
        self._problems = problems
        self._collectors: List[Tuple[SeriesGroup, Collector]] = []

    def add(self, service: Optional[str], factories: Iterable[Factory]) -> None:
        """Add collectors; a collector whose source the host lacks becomes a problem."""
        for factory in factories:
            try:
                collector = factory()
            except (UnavailableError, OSError) as error:
                self._problems.note(service, error)
            else:
                self._collectors.append((self._recorder.group(service), collector))

    def run(self) -> None:
        """Sample at each tick of the schedule."""
        writer = SampleWriter(self._recorder, self.schedule.interval_ns)
        for tick in self.schedule.ticks():
            self._trees.refresh()
            # The first collector reads the cores, whose CPU time is compared with elapsed time.
            at_ns = time.monotonic_ns()
            collectors = [each for each in self._collectors if tick is Tick.REQUESTED or not each[1].is_sparse]
            writer.write(at_ns, sample_all(collectors, self._problems), tick)
        writer.close()
        self._trees.close()
        for _, collector in self._collectors:
            collector.close()


def sample_all(collectors: Sequence[Tuple[SeriesGroup, Collector]], problems: Problems) -> GroupValues:
    """Sample collectors once; one that fails stops no other."""
    sample = []
    for group, collector in collectors:
        try:
            sample.append((group, collector.sample()))
        except (UnavailableError, OSError) as error:
            problems.note(group.service, error)
        if collector.problem is not None:
            problems.note(group.service, collector.problem)
    return sample


class StoppableThread(threading.Thread):
    """A thread that ends soon after `stop`."""

    def __init__(self, name: str, recorder: Recorder, problems: Problems) -> None:
        super().__init__(name=name, daemon=True)
        self._recorder = recorder
        self._problems = problems
        self._stopped = threading.Event()

    def stop(self) -> None:
        """Skip what remains."""
        self._stopped.set()


class ScheduledSampler(StoppableThread):
    """Samples expensive sources at future instants of the host's monotonic clock."""

    def __init__(
        self,
        at_ns: Sequence[int],
        factories: Sequence[Tuple[SeriesGroup, Factory]],
        recorder: Recorder,
        problems: Problems,
    ) -> None:
        super().__init__("scheduled samples", recorder, problems)
        self._at_ns = sorted(at_ns)
        self._factories = factories

    def run(self) -> None:
        """Sample at each instant, until stopped."""
        collectors: List[Tuple[SeriesGroup, Collector]] = []
        for group, factory in self._factories:
            try:
                collectors.append((group, factory()))
            except (UnavailableError, OSError) as error:
                self._problems.note(group.service, error)
        for at_ns in self._at_ns:
            if self._stopped.wait(max(0.0, (at_ns - time.monotonic_ns()) / SECOND_NS)):
                break
            now_ns = time.monotonic_ns()
            self._recorder.write(now_ns, sample_all(collectors, self._problems))
        for _, collector in collectors:
            collector.close()


class CoreSpeedSampler(StoppableThread):
    """Measures the speed of the cores that this process may use, in a thread that may wait for a busy core."""

    def __init__(self, interval_s: float, recorder: Recorder, problems: Problems) -> None:
        super().__init__("core speed", recorder, problems)
        self._interval_s = interval_s

    def run(self) -> None:
        """Measure at once and then at each interval, until stopped."""
        groups: Dict[int, SeriesGroup] = {core: self._recorder.group(None) for core in sorted(os.sched_getaffinity(0))}
        cores = list(groups)
        while not self._stopped.is_set():
            turn, cores = cores[:CORES_PER_INTERVAL], cores[CORES_PER_INTERVAL:] + cores[:CORES_PER_INTERVAL]
            for core in turn:
                try:
                    loop_s = measure_loop(core)
                except OSError as error:
                    self._problems.note(None, f"core {core}: its speed could not be measured: {error.strerror}")
                else:
                    self._recorder.write(time.monotonic_ns(), [(groups[core], {("cpu_loop_s", str(core)): loop_s})])
            self._stopped.wait(self._interval_s)


def measure_loop(core: int) -> float:
    """Return the CPU time of the loop on a core, in seconds; the calling thread stays there.

    Raises OSError where the thread may not run there.
    """
    os.sched_setaffinity(0, {core})  # of the calling thread only
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
        self._problems = Problems()
        self._process_trees = ProcessTrees(processes)
        self.sampler = Sampler(interval_s, self.recorder, self._process_trees, self._problems)
        self.sampler.add(None, HOST)
        self.sampler.add(AGENT, (AgentCpu,))
        self._service_trees: Dict[str, ProcessTree] = {}
        self._pollers: List[CounterPoller] = []
        self._expensive: List[Tuple[SeriesGroup, Factory]] = [(self.recorder.group(None), Frequency)]
        self._scheduled_samplers: List[ScheduledSampler] = []
        self._core_speeds = CoreSpeedSampler(core_interval_s, self.recorder, self._problems)
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
                self.sampler.add(service.name, [partial(ScheduledProcesses, self._timetable, service.name)])

    def _add_tree(self, service: ops.SampledService, child: Child) -> None:
        name, tree = service.name, ProcessTree(child, self._process_trees)
        self._service_trees[name] = tree
        factories: List[Factory] = [
            lambda: tree,
            partial(ContextSwitches, tree),
            partial(StorageWrites, tree),
            partial(GroupLimits, child),
        ]
        if service.listeners:
            pid = None if child.foreign_group is None else network_of(child.foreign_group.pids())
            sockets = (service.listeners, tool_in_network(self._run_tool, pid), pid)
            factories.append(partial(AcceptQueues, *sockets))
            self._expensive.append((self.recorder.group(name), partial(Connections, *sockets)))
        if service.threads:
            factories.append(partial(ThreadTimes, child))
        self.sampler.add(name, factories)
        if service.counters is not None:
            poller = CounterPoller(service.counters, self._interval_s, self.recorder, name)
            self._pollers.append(poller)
            poller.start()

    def _run_tool(self, argv: List[str], timeout_s: float, max_bytes: int) -> Tuple[Optional[int], str]:
        return self._processes.run_for_agent(ProcessSpec(argv), timeout_s, max_bytes)

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
        sampler = ScheduledSampler(at_ns, list(self._expensive), self.recorder, self._problems)
        self._scheduled_samplers.append(sampler)
        sampler.start()

    def stop(self) -> ops.TelemetrySummary:
        """End the session; return the data that samples lack, with the reasons, and the CPU quota of the host."""
        self._timetable.await_none()
        for schedule in (self.sampler.schedule, *(poller.schedule for poller in self._pollers)):
            schedule.stop()
        self._core_speeds.stop()
        for sampler in self._scheduled_samplers:
            sampler.stop()
        for thread in (self.sampler, self._core_speeds, *self._pollers, *self._scheduled_samplers):
            thread.join(STOP_TIMEOUT_S)
        problems = [*list(self._problems), *filter(None, (poller.problem() for poller in self._pollers))]
        summary = ops.TelemetrySummary(cpu_quota(own_cgroups()), problems)
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
