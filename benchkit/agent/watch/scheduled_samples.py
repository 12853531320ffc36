"""Samples of expensive collectors at scheduled instants only."""

from __future__ import annotations

import threading
import time
from typing import Dict, List, Tuple

from benchkit.agent.watch.collector import Collector, UnavailableError
from benchkit.agent.watch.connections import EstablishedConnections
from benchkit.agent.watch.recorder import Group, Recorder, Sample
from benchkit.agent.watch.registry import Factory
from benchkit.agent.watch.sampling_schedule import SECOND_NS


class ScheduledSampler(threading.Thread):
    """Samples at future instants of the host's monotonic clock."""

    def __init__(
        self,
        at_ns: List[int],
        factories: List[Tuple[Group, Factory]],
        established: EstablishedConnections,
        recorder: Recorder,
    ) -> None:
        super().__init__(name="scheduled samples", daemon=True)
        self._at_ns = sorted(at_ns)
        self._factories = factories
        self._established = established
        self._recorder = recorder
        self._stopped = threading.Event()
        self.problems: Dict[str, None] = {}
        """Reasons why something could not be sampled, as an ordered set."""

    def run(self) -> None:
        """Sample at each instant, until stopped."""
        collectors: List[Tuple[Group, Collector]] = []
        for group, factory in self._factories:
            try:
                collectors.append((group, factory()))
            except (UnavailableError, OSError) as error:
                self.problems[str(error)] = None
        for at_ns in self._at_ns:
            if self._stopped.wait(max(0.0, (at_ns - time.monotonic_ns()) / SECOND_NS)):
                break
            now_ns = time.monotonic_ns()
            sample: Sample = []
            try:
                self._established.refresh()
            except (UnavailableError, OSError) as error:
                self.problems[str(error)] = None
            for group, collector in collectors:
                try:
                    sample.append((group, collector.sample()))
                except (UnavailableError, OSError) as error:
                    self.problems[str(error)] = None
            self._recorder.write(now_ns, sample)
        for _, collector in collectors:
            collector.close()

    def stop(self) -> None:
        """Skip the remaining instants."""
        self._stopped.set()
