"""How fast each core is: the CPU time that a small loop takes on it, always the same one.

Stolen time tells of others on the same core, and a clock rate of governors and heat, where either is told at all. Nothing
tells of a neighbour on the other thread of a physical core, whom a hypervisor counts nowhere. On a virtual machine that
showed no stolen time the loop took 1.7 times as long for seconds at a time, which fits one, though nobody could look.
"""

from __future__ import annotations

import os
import threading
import time
from typing import Dict, Optional

from benchkit.agent.watch.recorder import Group, Recorder
from benchkit.agent.watch.sampling_schedule import SECOND_NS

ROUNDS = 400
"""Of the loop: some 10 µs."""
REPEATS = 5
"""The middle one of so many counts: an interrupt comes into one, the first finds caches cold, and in one of some 15,000 the
clock of a thread that was just moved to the core is short of time, down to none."""
AT_ONCE = 2
"""Cores looked at in one interval; where there are more, they take turns."""


class Speeds(threading.Thread):
    """Looks at the cores that this process may use, in a thread of its own, which waits for a busy core where others need not."""

    def __init__(self, interval_s: float, recorder: Recorder) -> None:
        super().__init__(name="speeds", daemon=True)
        self._interval_s = interval_s
        self._recorder = recorder
        self._over = threading.Event()
        self._failures: Dict[int, OSError] = {}

    def run(self) -> None:
        """Look at once and then at the interval, until it is over."""
        groups: Dict[int, Group] = {core: self._recorder.group(None) for core in sorted(os.sched_getaffinity(0))}
        cores = list(groups)
        while not self._over.is_set():
            now, cores = cores[:AT_ONCE], cores[AT_ONCE:] + cores[:AT_ONCE]
            for core in now:
                try:
                    loop_s = loop_on(core)
                except OSError as error:  # its cores were taken from it
                    self._failures[core] = error
                else:
                    self._recorder.write(time.monotonic_ns(), [(groups[core], {("cpu_loop_s", str(core)): loop_s})])
            self._over.wait(self._interval_s)

    def stop(self) -> None:
        """Look no more."""
        self._over.set()

    def story(self) -> Optional[str]:
        """What went wrong, for people; None where nothing did."""
        if not self._failures:
            return None
        cores, why = ", ".join(map(str, sorted(self._failures))), next(iter(self._failures.values())).strerror
        return f"core {cores}: how fast it was is not known, as the agent might not run there ({why}); leave its CPUs be in a run"


def loop_on(core: int) -> float:
    """Seconds of CPU time that the loop takes on a core, where the calling thread stays.

    Raises OSError where it may not run there (any more).
    """
    os.sched_setaffinity(0, {core})  # of the calling thread alone
    return sorted(_loop_ns() for _ in range(REPEATS))[REPEATS // 2] / SECOND_NS


def _loop_ns() -> int:
    began_ns = time.thread_time_ns()
    total = 0
    for number in range(ROUNDS):
        total += number
    return time.thread_time_ns() - began_ns
