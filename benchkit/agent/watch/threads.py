"""The threads of processes: CPU time of each, context switches of all together.

psutil has the context switches of a process's first thread only (/proc/PID/status is about that), and times of threads
in hundredths of a second.
"""

from __future__ import annotations

import os
from typing import Dict, List, Tuple

from benchkit.agent.child_process import Child
from benchkit.agent.watch.collector import Collector, Pace, UnseenError, Values, number_after, read_once
from benchkit.agent.watch.process_tree import Tree
from benchkit.agent.watch.process_trees import ProcessTrees

NANOSECOND = 1e-9
MOST = 512
"""A tree or process with more threads has no figures of them."""


class ThreadTimes(Collector):
    """CPU time of each thread of a process: what the scheduler has run it for (sched-stats.rst of Linux)."""

    def __init__(self, child: Child, families: ProcessTrees) -> None:
        self._pid = child.pid
        self._families = families
        self._changes = -1
        self._tids: List[str] = []
        try:
            read_once("/proc/self/schedstat")
        except OSError as error:
            raise UnseenError(f"CPU time of threads: /proc/PID/schedstat: {error.strerror}") from None

    def sample(self) -> Values:
        """Seconds by thread; nothing once the process has ended."""
        if self._changes != self._families.changes:
            self._changes = self._families.changes
            self._tids = thread_ids(self._pid)
        found: Values = {}
        for tid in self._tids if len(self._tids) <= MOST else ():
            try:
                content = read_once(f"/proc/{self._pid}/task/{tid}/schedstat")
            except OSError:  # it has ended
                continue
            found["thread_cpu_s_total", tid] = int(content.split(None, 1)[0]) * NANOSECOND
        return found


class Switches(Collector):
    """Context switches of all threads of a tree; those that ended are counted in as far as they were seen.

    Each thread has a file of its own, and a long one: of all that is watched this is the dearest.
    """

    SHARE = 0.0001

    def __init__(self, tree: Tree, families: ProcessTrees) -> None:
        self._tree = tree
        self._families = families
        self._changes = -1
        self._threads: List[Tuple[int, str]] = []
        self._before: Dict[Tuple[int, str], Tuple[int, int]] = {}
        self._voluntary = self._involuntary = 0
        self._pace = Pace(self.SHARE)

    def sample(self) -> Values:
        """Voluntary and involuntary ones, where it is time; call it after the tree was looked at."""
        if not self._pace.begin():
            return {}
        if self._changes != self._families.changes:
            self._changes = self._families.changes
            self._threads = [(pid, tid) for pid, _ in self._tree.ids() for tid in thread_ids(pid)]
        many = len(self._threads) > MOST
        for pid, tid in () if many else self._threads:
            self._add(pid, tid)
        self._pace.end()
        if many:
            return {}
        return {
            ("voluntary_switches_total", None): self._voluntary,
            ("involuntary_switches_total", None): self._involuntary,
        }

    def hurry(self) -> None:
        """Hold nothing back at the next look."""
        self._pace.hurry()

    def _add(self, pid: int, tid: str) -> None:
        """Add what a thread has made since it was looked at before. What is known of one that ended stays in the sum."""
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
    """The threads of a process; none where it has ended."""
    try:
        return os.listdir(f"/proc/{pid}/task")  # noqa: PTH208 - names, often
    except OSError:
        return []
