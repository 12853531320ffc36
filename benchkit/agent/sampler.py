"""The threads that sample: collectors at an interval, expensive ones at scheduled instants, and core speeds."""

from __future__ import annotations

import os
import threading
import time
from typing import Dict, Iterable, List, Optional, Sequence, Tuple

from benchkit.agent.collector import Collector, UnavailableError
from benchkit.agent.process_collectors import ProcessTrees
from benchkit.agent.recorder import SECOND_NS, GroupValues, Recorder, SampleWriter, SamplingSchedule, SeriesGroup, Tick
from benchkit.agent.registry import Factory
from benchkit.agent.socket_collectors import EstablishedConnections, ListeningSockets

ROUNDS = 400
"""Rounds of the loop, which take some 10 µs."""
REPEATS = 3
"""Runs of the loop, of which the median counts: an interrupt spoils one, and the first has cold caches. In about one of
15,000 runs, the clock of a thread that has just moved to the core loses time, down to 0. A further run would
lengthen the sample by a tenth and change little. Checks use the harmonic mean of many samples, which one slow sample
hardly moves."""
CORES_PER_INTERVAL = 2
"""Cores that are measured in one interval; more cores take turns."""


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
        self._collectors: List[Tuple[SeriesGroup, Collector]] = []
        self._problems: Dict[str, None] = {}

    def add(self, service: Optional[str], factories: Iterable[Factory]) -> None:
        """Add collectors; a collector whose source the host lacks becomes a problem."""
        for factory in factories:
            try:
                collector = factory()
            except (UnavailableError, OSError) as error:
                self._note(service, error)
            else:
                self._collectors.append((self._recorder.group(service), collector))

    def problems(self) -> List[str]:
        """Return the data that one or more samples lack, with the reasons."""
        return list(self._problems)

    def run(self) -> None:
        """Sample at each tick of the schedule."""
        writer = SampleWriter(self._recorder, self._interval_ns)
        for tick in self._ticks:
            writer.write(*self._sample(tick), tick)
        writer.close()
        for shared in self._shared:
            shared.close()
        for _, collector in self._collectors:
            collector.close()

    def _sample(self, tick: Tick) -> Tuple[int, GroupValues]:
        """Sample all collectors once; return the instant and the values. A collector that fails stops no other.

        The instant is when the first collector reads the cores, whose CPU time is compared with elapsed time.
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


class ScheduledSampler(threading.Thread):
    """Samples at future instants of the host's monotonic clock."""

    def __init__(
        self,
        at_ns: Sequence[int],
        factories: List[Tuple[SeriesGroup, Factory]],
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
        collectors: List[Tuple[SeriesGroup, Collector]] = []
        for group, factory in self._factories:
            try:
                collectors.append((group, factory()))
            except (UnavailableError, OSError) as error:
                self.problems[str(error)] = None
        for at_ns in self._at_ns:
            if self._stopped.wait(max(0.0, (at_ns - time.monotonic_ns()) / SECOND_NS)):
                break
            now_ns = time.monotonic_ns()
            sample: GroupValues = []
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


class CoreSpeedSampler(threading.Thread):
    """Measures the speed of the cores that this process may use, in a thread that may wait for a busy core."""

    def __init__(self, interval_s: float, recorder: Recorder) -> None:
        super().__init__(name="core speed", daemon=True)
        self._interval_s = interval_s
        self._recorder = recorder
        self._stopped = threading.Event()
        self._failures: Dict[int, OSError] = {}

    def run(self) -> None:
        """Measure at once and then at each interval, until stopped."""
        groups: Dict[int, SeriesGroup] = {core: self._recorder.group(None) for core in sorted(os.sched_getaffinity(0))}
        cores = list(groups)
        while not self._stopped.is_set():
            turn, cores = cores[:CORES_PER_INTERVAL], cores[CORES_PER_INTERVAL:] + cores[:CORES_PER_INTERVAL]
            for core in turn:
                try:
                    loop_s = measure_loop(core)
                except OSError as error:  # the core was removed from its affinity
                    self._failures[core] = error
                else:
                    self._recorder.write(time.monotonic_ns(), [(groups[core], {("cpu_loop_s", str(core)): loop_s})])
            self._stopped.wait(self._interval_s)

    def stop(self) -> None:
        """End the measurements."""
        self._stopped.set()

    def problem(self) -> Optional[str]:
        """Return the problem of the measurements as a sentence; None without one."""
        if not self._failures:
            return None
        cores, why = ", ".join(map(str, sorted(self._failures))), next(iter(self._failures.values())).strerror
        return (
            f"core {cores}: its speed was not measured, as the agent could not run there ({why}); do not change the "
            "agent's CPU affinity during a run"
        )


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
