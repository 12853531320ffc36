"""Looks at what is dear at set instants only, beside the rhythm."""

from __future__ import annotations

import threading
import time
from typing import Dict, List, Tuple

from benchkit.agent.watch.collector import Collector, UnseenError
from benchkit.agent.watch.recorder import Group, Recorder, Sample
from benchkit.agent.watch.registry import Make
from benchkit.agent.watch.sampling_schedule import SECOND_NS


class Instants(threading.Thread):
    """Looks at these instants of the host's monotonic clock, which lie ahead."""

    def __init__(self, at_ns: List[int], makes: List[Tuple[Group, Make]], recorder: Recorder) -> None:
        super().__init__(name="instants", daemon=True)
        self._at_ns = sorted(at_ns)
        self._makes = makes
        self._recorder = recorder
        self._over = threading.Event()
        self.failures: Dict[str, None] = {}

    def run(self) -> None:
        """Look when it is time, until it is over."""
        collectors: List[Tuple[Group, Collector]] = []
        for group, make in self._makes:
            try:
                collectors.append((group, make()))
            except (UnseenError, OSError) as error:
                self.failures[str(error)] = None
        for at_ns in self._at_ns:
            if self._over.wait(max(0.0, (at_ns - time.monotonic_ns()) / SECOND_NS)):
                break
            now_ns = time.monotonic_ns()
            sample: Sample = []
            for group, collector in collectors:
                try:
                    sample.append((group, collector.sample()))
                except (UnseenError, OSError) as error:
                    self.failures[str(error)] = None
            self._recorder.write(now_ns, sample)
        for _, collector in collectors:
            collector.close()

    def stop(self) -> None:
        """Look no more."""
        self._over.set()
