"""Looks at everything in one rhythm, in a thread of its own, and writes down what it sees."""

from __future__ import annotations

import threading
import time
from typing import Dict, List, Optional, Tuple

from benchkit.agent.watch.accept_queues import Listeners
from benchkit.agent.watch.collector import Collector, UnseenError
from benchkit.agent.watch.process_trees import ProcessTrees
from benchkit.agent.watch.recorder import Group, Recorder, Sample
from benchkit.agent.watch.registry import Make
from benchkit.agent.watch.sampling_schedule import SamplingSchedule


class Sampler(threading.Thread):
    """All collectors of one watch."""

    def __init__(
        self, rhythm: SamplingSchedule, recorder: Recorder, families: ProcessTrees, listeners: Listeners
    ) -> None:
        super().__init__(name="sampler", daemon=True)
        self._beats = rhythm.beats()
        self._interval_ns = rhythm.interval_ns
        self._recorder = recorder
        self._shared = (families, listeners)
        self._collectors: List[Tuple[Group, Collector]] = []
        self._unseen: Dict[str, None] = {}

    def add(self, service: Optional[str], makes: List[Make]) -> None:
        """Look at more from now on; what the host does not have is noted."""
        for make in makes:
            try:
                collector = make()
            except (UnseenError, OSError) as error:
                self._note(service, error)
            else:
                self._collectors.append((self._recorder.group(service), collector))

    def unseen(self) -> List[str]:
        """What could not be looked at, or not always, for people."""
        return list(self._unseen)

    def run(self) -> None:
        """Look, in the rhythm, until that ends."""
        track = self._recorder.track(self._interval_ns)
        for asked in self._beats:
            track.write(*self._look(asked=asked), asked=asked)
        track.close()
        for shared in self._shared:
            shared.close()
        for _, collector in self._collectors:
            collector.close()

    def _look(self, *, asked: bool) -> Tuple[int, Sample]:
        """Look at everything once, and when; what gives nothing is noted, and the others go on.

        The instant is that of the first collector, which reads the cores: their time is held against the clock.
        """
        for shared in self._shared:
            try:
                shared.refresh()
            except (UnseenError, OSError) as error:
                self._note(None, error)
        at_ns = time.monotonic_ns()
        sample = []
        for group, collector in list(self._collectors):
            if asked:
                collector.hurry()
            try:
                sample.append((group, collector.sample()))
            except (UnseenError, OSError) as error:
                self._note(group.service, error)
        return at_ns, sample

    def _note(self, service: Optional[str], error: Exception) -> None:
        self._unseen[f"{service}: {error}" if service else str(error)] = None
