"""The process trees of what the agent started, kept up to date without a walk over all processes at each look.

The kernel numbers processes and threads one after the other, and /proc/loadavg ends with the last number given: while
that stays the same there are no new ones. When it moves only those are read that were not there before. (psutil walks
over all processes for each tree, and the kernel's own list of children, /proc/PID/task/TID/children, is not in every
kernel.)
"""

from __future__ import annotations

import os
from typing import Dict, List, Set

from benchkit.agent.proc import ProcStat, pids, proc_stat
from benchkit.agent.processes import Processes
from benchkit.agent.watch.collector import KernelFile

NOBODY = (0, 1)
"""The parents of what has none: the kernel and init."""


class ProcessTrees:
    """The process trees of what the agent started."""

    def __init__(self, processes: Processes) -> None:
        """Look at what this agent started. Raises UnseenError where there is no /proc/loadavg."""
        self._processes = processes
        self._load = KernelFile("/proc/loadavg")
        self._known: Dict[int, ProcStat] = {}
        self._trees: Dict[int, List[ProcStat]] = {}
        self._last = b""
        self._doubted = True
        self.changes = 0
        """Grows whenever processes or threads may have come or gone."""

    def refresh(self) -> None:
        """See who is there now."""
        last = self._load.read().rsplit(None, 1)[-1]
        if last == self._last and not self._doubted:
            return
        self.changes += 1
        there = set(pids())
        gone = self._known.keys() - there
        for pid in gone:
            del self._known[pid]
        seen = there - self._known.keys() | self._orphaned(gone)
        for pid in seen:
            found = proc_stat(pid)
            if found is None:
                self._known.pop(pid, None)
            else:
                self._known[pid] = found
        if self._doubted or any(map(self._may_be_ours, seen)):
            self._trees = self._processes.trees(self._known)
        self._last, self._doubted = last, False

    def doubt(self) -> None:
        """Somebody that was known is not there any more: look at all of it next time."""
        self._doubted = True

    def of(self, number: int) -> List[ProcStat]:
        """The processes of one tree, as they were when they were first seen."""
        return self._trees.get(number, [])

    def close(self) -> None:
        """Let go of the file."""
        self._load.close()

    def _may_be_ours(self, pid: int) -> bool:
        """Whether a process descends from the agent, or is an orphan that might have."""
        me = os.getpid()
        here = self._known.get(pid)
        while here is not None and here.parent not in (me, *NOBODY):
            parent = self._known.get(here.parent)
            if parent is not None and parent.start > here.start:  # the pid was used again
                return True
            here = parent
        return here is not None

    def _orphaned(self, gone: Set[int]) -> Set[int]:
        """Those whose parent has ended: they have another one now."""
        return {each.pid for each in self._known.values() if each.parent in gone} if gone else set()
