"""One telemetry session of a host, from before the load of a trial until after it."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import Dict, Iterable, List, Optional, Tuple

from benchkit.agent.common import RefusedError
from benchkit.agent.frames import Json
from benchkit.agent.processes import Processes
from benchkit.agent.timetable import Timetable
from benchkit.agent.watch.accept_queues import ListeningSockets
from benchkit.agent.watch.connections import EstablishedConnections
from benchkit.agent.watch.core_speed import CoreSpeedSampler
from benchkit.agent.watch.counter_poller import CounterPoller
from benchkit.agent.watch.cpu_quota import cpu_quota, own_cgroups
from benchkit.agent.watch.process_tree import ProcessTree
from benchkit.agent.watch.process_trees import ProcessTrees
from benchkit.agent.watch.recorder import Group, Recorder
from benchkit.agent.watch.registry import (
    AGENT,
    AGENT_ITSELF,
    HOST,
    HOST_SCHEDULED,
    Factory,
    of_service,
    of_service_scheduled,
)
from benchkit.agent.watch.sampler import Sampler
from benchkit.agent.watch.sampling_schedule import SamplingSchedule
from benchkit.agent.watch.scheduled_processes import ScheduledProcesses
from benchkit.agent.watch.scheduled_samples import ScheduledSampler


class Session:
    """Telemetry that runs until it is stopped."""

    SAMPLE_TIMEOUT_S = 5.0
    POLL_TIMEOUT_S = 0.25
    """Time that an extra sample waits for servers' own counters."""
    STOP_TIMEOUT_S = 2.0

    def __init__(
        self, path: Path, interval_s: float, core_interval_s: float, processes: Processes, timetable: Timetable
    ) -> None:
        """Start to sample the host, into a new file; `core_interval_s` is the interval of core speeds."""
        self._processes, self._timetable = processes, timetable
        self._sampling, self._polling = SamplingSchedule(interval_s), SamplingSchedule(interval_s)
        self._recorder = Recorder(path, {"interval_s": interval_s, "began_ns": time.monotonic_ns()})
        self._process_trees, self._sockets = ProcessTrees(processes), ListeningSockets()
        self._sampler = Sampler(self._sampling, self._recorder, self._process_trees, self._sockets)
        self._sampler.add(None, HOST)
        self._sampler.add(AGENT, AGENT_ITSELF)
        self._service_trees: Dict[str, ProcessTree] = {}
        self._pollers: List[CounterPoller] = []
        self._established = EstablishedConnections()
        self._scheduled: List[Tuple[Group, Factory]] = []
        self._scheduled_samplers: List[ScheduledSampler] = []
        self._add_scheduled(None, HOST_SCHEDULED)
        self._core_speeds = CoreSpeedSampler(core_interval_s, self._recorder)
        self._sampler.start()
        self._core_speeds.start()

    def add(self, services: List[Json]) -> None:
        """Add services: {"name", "process": number, "listeners": […], "threads": bool, "counters": {…} or None}.

        One without `process` is sampled as all processes that the timetable starts under its name.
        """
        for service in services:
            name = service["name"]
            if service["process"] is None:
                self._sampler.add(name, [partial(ScheduledProcesses, self._timetable, name)])
                continue
            child = self._processes.child(service["process"])
            self._service_trees[name], factories = of_service(service, child, self._process_trees, self._sockets)
            self._sampler.add(name, factories)
            self._add_scheduled(name, of_service_scheduled(service, self._established))
            if service["counters"] is not None:
                poller = CounterPoller(service["counters"], self._polling, self._recorder, self._recorder.group(name))
                self._pollers.append(poller)
                poller.start()

    def snapshot(self) -> Json:
        """Sample now; return the instant before, and the processes of each service, as (pid, start in ticks)."""
        at_ns = time.monotonic_ns()
        if not self._sampling.tick_now(self.SAMPLE_TIMEOUT_S):
            raise RefusedError("timeout", f"sampling the host took more than {self.SAMPLE_TIMEOUT_S:g} s")
        self._polling.tick_now(self.POLL_TIMEOUT_S)
        return {"at_ns": at_ns, "processes": {name: tree.ids() for name, tree in self._service_trees.items()}}

    def schedule_snapshots(self, at_ns: List[int]) -> None:
        """Sample at these instants, and at none of the regular interval until the last of them is over."""
        self._sampling.tick_at(at_ns)

    def schedule_samples(self, at_ns: List[int]) -> None:
        """Sample the expensive collectors of the host and of all present services at these instants."""
        sampler = ScheduledSampler(at_ns, list(self._scheduled), self._established, self._recorder)
        self._scheduled_samplers.append(sampler)
        sampler.start()

    def latest(self) -> Json:
        """Return the last values, without a new sample; see `Recorder.latest`."""
        return self._recorder.latest()

    def stop(self) -> Json:
        """End the session; return what could not be sampled, and the CPU quota of the host."""
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
        unseen = list(dict.fromkeys(filter(None, problems)))
        about = {"ended_ns": time.monotonic_ns(), "cpu_quota": cpu_quota(own_cgroups()), "unseen": unseen}
        self._recorder.close(about)
        return about

    def _add_scheduled(self, service: Optional[str], factories: Iterable[Factory]) -> None:
        self._scheduled += [(self._recorder.group(service), factory) for factory in factories]
