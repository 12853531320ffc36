"""Sampling of all collectors at one interval, in its own thread."""

from __future__ import annotations

import threading
import time
from typing import Dict, Iterable, List, Optional, Tuple

from benchkit.agent.watch.accept_queues import ListeningSockets
from benchkit.agent.watch.collector import Collector, UnavailableError
from benchkit.agent.watch.process_trees import ProcessTrees
from benchkit.agent.watch.recorder import Group, Recorder, Sample
from benchkit.agent.watch.registry import Factory
from benchkit.agent.watch.sampling_schedule import SamplingSchedule, Tick


class Sampler(threading.Thread):
    """Samples the collectors of one session."""

    def __init__(
        self, schedule: SamplingSchedule, recorder: Recorder, trees: ProcessTrees, sockets: ListeningSockets
    ) -> None:
        super().__init__(name="sampler", daemon=True)
        self._ticks = schedule.ticks()
        self._interval_ns = schedule.interval_ns
        self._recorder = recorder
        self._shared = (trees, sockets)
        self._collectors: List[Tuple[Group, Collector]] = []
        self._problems: Dict[str, None] = {}

    def add(self, service: Optional[str], factories: Iterable[Factory]) -> None:
        """Add collectors; those that the host does not have become problems."""
        for factory in factories:
            try:
                collector = factory()
            except (UnavailableError, OSError) as error:
                self._note(service, error)
            else:
                self._collectors.append((self._recorder.group(service), collector))

    def problems(self) -> List[str]:
        """Return what could not be sampled, or not always, with the reasons."""
        return list(self._problems)

    def run(self) -> None:
        """Sample at each tick of the schedule."""
        track = self._recorder.track(self._interval_ns)
        for tick in self._ticks:
            track.write(*self._sample(tick), tick)
        track.close()
        for shared in self._shared:
            shared.close()
        for _, collector in self._collectors:
            collector.close()

    def _sample(self, tick: Tick) -> Tuple[int, Sample]:
        """Sample all collectors once; return the instant and the values. A collector that fails stops no other.

        The instant is that of the first collector, which reads the cores: their CPU time is compared with elapsed time.
        """
        for shared in self._shared:
            try:
                shared.refresh()
            except (UnavailableError, OSError) as error:
                self._note(None, error)
        at_ns = time.monotonic_ns()
        sample = []
        for group, collector in list(self._collectors):
            if tick is Tick.REQUESTED:
                collector.reset_budget()
            try:
                sample.append((group, collector.sample()))
            except (UnavailableError, OSError) as error:
                self._note(group.service, error)
        return at_ns, sample

    def _note(self, service: Optional[str], error: Exception) -> None:
        self._problems[f"{service}: {error}" if service else str(error)] = None
