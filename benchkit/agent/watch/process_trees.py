"""The process trees of everything the agent started, updated without reading all processes at each sample.

The kernel numbers processes and threads consecutively, and /proc/loadavg ends with the last number: while it stays the
same, there are no new ones. When it changes, only new processes are read. (psutil reads all processes for each tree,
and the kernel's own list of children, /proc/PID/task/TID/children, is not in every kernel.)
"""

from __future__ import annotations

import os
from typing import Dict, List, Set

from benchkit.agent.proc import ProcStat, pids, proc_stat
from benchkit.agent.processes import Processes
from benchkit.agent.watch.collector import KernelFile

ROOTS = (0, 1)
"""Parents of the first processes: the kernel and init."""


class ProcessTrees:
    """The process trees of everything the agent started."""

    def __init__(self, processes: Processes) -> None:
        """Follow the processes that this agent started. Raises UnavailableError where there is no /proc/loadavg."""
        self._processes = processes
        self._load = KernelFile("/proc/loadavg")
        self._known: Dict[int, ProcStat] = {}
        self._trees: Dict[int, List[ProcStat]] = {}
        self._last_number = b""
        self._is_stale = True
        self.changes = 0
        """Counter that grows whenever processes or threads may have started or ended."""

    def refresh(self) -> None:
        """Update the trees."""
        last_number = self._load.read().rsplit(None, 1)[-1]
        if last_number == self._last_number and not self._is_stale:
            return
        self.changes += 1
        present = set(pids())
        ended = self._known.keys() - present
        for pid in ended:
            del self._known[pid]
        changed = present - self._known.keys() | self._orphans_of(ended)
        for pid in changed:
            process = proc_stat(pid)
            if process is None:
                self._known.pop(pid, None)
            else:
                self._known[pid] = process
        if self._is_stale or any(map(self._may_be_descendant, changed)):
            self._trees = self._processes.trees(self._known)
        self._last_number, self._is_stale = last_number, False

    def invalidate(self) -> None:
        """Have the next refresh read everything: a known process has ended."""
        self._is_stale = True

    def tree(self, number: int) -> List[ProcStat]:
        """Return the processes of one tree, as first read."""
        return self._trees.get(number, [])

    def close(self) -> None:
        """Close the file."""
        self._load.close()

    def _may_be_descendant(self, pid: int) -> bool:
        """Return True for a descendant of the agent, or an orphan that may have been one."""
        agent = os.getpid()
        process = self._known.get(pid)
        while process is not None and process.parent not in (agent, *ROOTS):
            parent = self._known.get(process.parent)
            if parent is not None and parent.start > process.start:  # the pid was reused
                return True
            process = parent
        return process is not None

    def _orphans_of(self, ended: Set[int]) -> Set[int]:
        """Return the children of ended processes, which have another parent now."""
        return {each.pid for each in self._known.values() if each.parent in ended} if ended else set()
