"""One watch over a host, from before a trial's load to after it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

from benchkit.agent.common import RefusedError
from benchkit.agent.frames import Json
from benchkit.agent.processes import Processes
from benchkit.agent.watch.accept_queues import Listeners
from benchkit.agent.watch.core_speed import Speeds
from benchkit.agent.watch.counter_poller import Poller
from benchkit.agent.watch.cpu_quota import cpu_quota, own_groups
from benchkit.agent.watch.process_tree import Tree
from benchkit.agent.watch.process_trees import ProcessTrees
from benchkit.agent.watch.recorder import Group, Recorder
from benchkit.agent.watch.registry import (
    AGENT,
    Make,
    of_agent,
    of_host,
    of_host_at_instants,
    of_service,
    of_service_at_instants,
)
from benchkit.agent.watch.sampler import Sampler
from benchkit.agent.watch.sampling_schedule import SamplingSchedule
from benchkit.agent.watch.scheduled_samples import Instants


class Session:
    """A watch that goes on until it is stopped."""

    LOOK_S = 5.0
    ANSWER_S = 0.25
    """How long a look out of the rhythm waits for servers to tell their counters."""
    END_S = 2.0

    def __init__(self, path: Path, interval_s: float, processes: Processes, psutil: Any) -> None:  # noqa: ANN401 - a module, or None
        """Begin to watch the host, writing to a new file."""
        self._processes = processes
        self._looking, self._asking = SamplingSchedule(interval_s), SamplingSchedule(interval_s)
        self._recorder = Recorder(path, {"interval_s": interval_s, "began_ns": time.monotonic_ns()})
        self._families, self._listeners = ProcessTrees(processes), Listeners()
        self._sampler = Sampler(self._looking, self._recorder, self._families, self._listeners)
        self._sampler.add(None, of_host())
        self._sampler.add(AGENT, of_agent())
        self._trees: Dict[str, Tree] = {}
        self._pollers: List[Poller] = []
        self._at_instants: List[Tuple[Group, Make]] = []
        self._instants: List[Instants] = []
        self._look_at_instants(None, of_host_at_instants(psutil))
        self._speeds = Speeds(interval_s, self._recorder)
        self._sampler.start()
        self._speeds.start()

    def add(self, services: List[Json]) -> None:
        """Watch these too: {"name", "process": number, "listen": […], "threads": bool, "admin": {…} or None}."""
        for wanted in services:
            name = wanted["name"]
            child = self._processes.child(wanted["process"])
            self._trees[name], makes = of_service(wanted, child, self._families, self._listeners)
            self._sampler.add(name, makes)
            self._look_at_instants(name, of_service_at_instants(wanted))
            if wanted["admin"] is not None:
                poller = Poller(wanted["admin"], self._asking, self._recorder, self._recorder.group(name))
                self._pollers.append(poller)
                poller.start()

    def mark(self) -> Json:
        """Look now, beside the rhythm: when that was, and the processes of each service, as (pid, start in ticks)."""
        at_ns = time.monotonic_ns()
        if not self._looking.beat_now(self.LOOK_S):
            raise RefusedError("timeout", f"looking at the host took more than {self.LOOK_S:g} s")
        self._asking.beat_now(self.ANSWER_S)
        return {"at_ns": at_ns, "processes": {name: tree.ids() for name, tree in self._trees.items()}}

    def look_at(self, at_ns: List[int]) -> None:
        """Look at what is dear, of the host and of all services that are watched now, at these instants."""
        self._instants.append(Instants(at_ns, list(self._at_instants), self._recorder))
        self._instants[-1].start()

    def now(self) -> Json:
        """What was seen last, without another look; see `Recorder.now`."""
        return self._recorder.now()

    def stop(self) -> Json:
        """End the watch; what could not be seen, for people, and the CPU quota of the host."""
        for rhythm in (self._looking, self._asking):
            rhythm.end()
        self._speeds.stop()
        for instants in self._instants:
            instants.stop()
        for thread in (self._sampler, self._speeds, *self._pollers, *self._instants):
            thread.join(self.END_S)
        stories = [self._speeds.story(), *(poller.story() for poller in self._pollers)]
        failures = [failure for instants in self._instants for failure in instants.failures]
        unseen = list(dict.fromkeys([*self._sampler.unseen(), *filter(None, stories), *failures]))
        about = {"ended_ns": time.monotonic_ns(), "cpu_quota": cpu_quota(own_groups()), "unseen": unseen}
        self._recorder.close(about)
        return about

    def _look_at_instants(self, service: Optional[str], makes: List[Make]) -> None:
        self._at_instants += [(self._recorder.group(service), make) for make in makes]
