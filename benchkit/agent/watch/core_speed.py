"""Speed of each core: the CPU time of a short loop, always the same one.

Stolen time shows other virtual machines on the same core, and the clock rate shows governors and heat, where the host
reports them. Neither shows a busy sibling thread of the same physical core. On a virtual machine without stolen time
the loop took 1.7 times as long for seconds at a time, which such a sibling would explain, though this could not be
verified.
"""

from __future__ import annotations

import os
import threading
import time
from typing import Dict, Optional

from benchkit.agent.watch.recorder import Group, Recorder
from benchkit.agent.watch.sampling_schedule import SECOND_NS

ROUNDS = 400
"""Rounds of the loop, which take some 10 µs."""
REPEATS = 3
"""Runs of the loop, of which the median counts: an interrupt falls into one, the first has cold caches, and in one of
some 15,000 the clock of a thread that has just moved to the core loses time, down to 0. More runs cost a tenth of the
sample's time each and change little: checks take the harmonic mean over many samples, which a slow one hardly moves."""
CORES_PER_INTERVAL = 2
"""Cores measured in one interval; with more cores they take turns."""


class CoreSpeedSampler(threading.Thread):
    """Measures the cores that this process may use, in its own thread, as it has to wait for a busy core."""

    def __init__(self, interval_s: float, recorder: Recorder) -> None:
        super().__init__(name="core speed", daemon=True)
        self._interval_s = interval_s
        self._recorder = recorder
        self._stopped = threading.Event()
        self._failures: Dict[int, OSError] = {}

    def run(self) -> None:
        """Measure at once and then at each interval, until stopped."""
        groups: Dict[int, Group] = {core: self._recorder.group(None) for core in sorted(os.sched_getaffinity(0))}
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
            f"core {cores}: its speed was not measured, as the agent could not run there ({why}); do not change the CPU "
            "affinity of its processes during a run"
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
