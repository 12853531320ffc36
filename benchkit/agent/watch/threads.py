"""Threads of processes: CPU time of each, and context switches of all together.

psutil has the context switches of the first thread of a process only (/proc/PID/status), and CPU times of threads in
hundredths of a second.
"""

from __future__ import annotations

import os
from typing import Dict, List, Tuple

from benchkit.agent.child_process import Child
from benchkit.agent.watch.collector import Collector, CpuBudget, UnavailableError, Values, number_after, read_once
from benchkit.agent.watch.process_tree import ProcessTree
from benchkit.agent.watch.process_trees import ProcessTrees

NANOSECOND = 1e-9
MAX_THREADS = 512
"""Limit of threads; a tree or process with more is not sampled."""


class ThreadTimes(Collector):
    """CPU time of each thread of a process, as counted by the scheduler (sched-stats.rst of Linux)."""

    def __init__(self, child: Child, trees: ProcessTrees) -> None:
        self._pid = child.pid
        self._trees = trees
        self._changes = -1
        self._tids: List[str] = []
        try:
            read_once("/proc/self/schedstat")
        except OSError as error:
            raise UnavailableError(f"CPU time of threads: /proc/PID/schedstat: {error.strerror}") from None

    def sample(self) -> Values:
        """Return seconds by thread; nothing after the end of the process."""
        if self._changes != self._trees.changes:
            self._changes = self._trees.changes
            self._tids = thread_ids(self._pid)
        found: Values = {}
        for tid in self._tids if len(self._tids) <= MAX_THREADS else ():
            try:
                content = read_once(f"/proc/{self._pid}/task/{tid}/schedstat")
            except OSError:  # the thread has ended
                continue
            found["thread_cpu_s_total", tid] = int(content.split(None, 1)[0]) * NANOSECOND
        return found


class ContextSwitches(Collector):
    """Context switches of all threads of a tree, including ended threads up to their last sample.

    Each thread has its own file, and a long one: this is the most expensive collector.
    """

    CPU_SHARE = 0.0001

    def __init__(self, tree: ProcessTree, trees: ProcessTrees) -> None:
        self._tree = tree
        self._trees = trees
        self._changes = -1
        self._threads: List[Tuple[int, str]] = []
        self._before: Dict[Tuple[int, str], Tuple[int, int]] = {}
        self._voluntary = self._involuntary = 0
        self._budget = CpuBudget(self.CPU_SHARE)

    def sample(self) -> Values:
        """Return voluntary and involuntary switches, within the CPU budget; to be called after the tree's sample."""
        if not self._budget.start():
            return {}
        if self._changes != self._trees.changes:
            self._changes = self._trees.changes
            self._threads = [(pid, tid) for pid, _ in self._tree.ids() for tid in thread_ids(pid)]
        too_many = len(self._threads) > MAX_THREADS
        for pid, tid in () if too_many else self._threads:
            self._add(pid, tid)
        self._budget.stop()
        if too_many:
            return {}
        return {
            ("voluntary_switches_total", None): self._voluntary,
            ("involuntary_switches_total", None): self._involuntary,
        }

    def reset_budget(self) -> None:
        """Sample next time, whatever it costs."""
        self._budget.reset()

    def _add(self, pid: int, tid: str) -> None:
        """Add the switches of a thread since its last sample. Those of an ended thread stay in the sum."""
        try:
            content = read_once(f"/proc/{pid}/task/{tid}/status")
        except OSError:
            self._before.pop((pid, tid), None)
            return
        now = (
            number_after(content, b"voluntary_ctxt_switches:") or 0,
            number_after(content, b"nonvoluntary_ctxt_switches:") or 0,
        )
        before = self._before.get((pid, tid), (0, 0))
        self._before[pid, tid] = now
        self._voluntary += now[0] - before[0]
        self._involuntary += now[1] - before[1]


def thread_ids(pid: int) -> List[str]:
    """Return the threads of a process; none where it has ended."""
    try:
        return os.listdir(f"/proc/{pid}/task")  # noqa: PTH208 - names, often
    except OSError:
        return []
