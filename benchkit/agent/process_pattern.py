"""Processes of others that are found by their command lines, counted as a control group is."""

from __future__ import annotations

import os
import re
from typing import Dict, List, Optional, Tuple

from benchkit.agent.cgroup_accounting import Cgroup, CpuSplit, CpuSplitter
from benchkit.agent.collector import UnavailableError
from benchkit.agent.common import read_bytes
from benchkit.agent.proc import pids, proc_stat


class ProcessPattern(Cgroup):
    """All processes whose command line contains a pattern; one that ends keeps what it had used at its last sample."""

    counts_all = False

    def __init__(self, pattern: str) -> None:
        """Find processes. Raises UnavailableError for a pattern that is no regular expression."""
        super().__init__(pattern, {})
        try:
            self._expression = re.compile(pattern.encode())
        except re.error as error:
            raise UnavailableError(f"the pattern {pattern!r} is no regular expression: {error}") from None
        self._matches: Dict[int, bool] = {}
        self._used: Dict[Tuple[int, int], CpuSplit] = {}
        self._sum = CpuSplitter()

    @property
    def title(self) -> str:
        """Its name for messages."""
        return f"command lines with {self.path!r}"

    def pids(self) -> List[int]:
        """Return the processes, without the agent; each command line is read once."""
        present = pids()
        self._matches = {pid: self._matches[pid] if pid in self._matches else self._is_match(pid) for pid in present}
        return [pid for pid in present if self._matches[pid]]

    def cpu(self) -> CpuSplit:
        """Return the CPU time of all processes that were found, and of children that they waited for."""
        for process in filter(None, map(proc_stat, self.pids())):
            self._used[process.pid, process.start] = CpuSplit(process.user_s, process.system_s)
        user_s = sum(each.user_s for each in self._used.values())
        system_s = sum(each.system_s for each in self._used.values())
        return self._sum.split(user_s + system_s, user_s, system_s)

    def throttling(self) -> None:
        """Return None: the quota of processes is not known."""

    def memory_bytes(self) -> Optional[int]:
        """Return None: memory is charged to control groups."""
        return None

    def end(self) -> None:
        """Do nothing: no file is open."""

    def _is_match(self, pid: int) -> bool:
        line = (read_bytes(f"/proc/{pid}/cmdline") or b"").replace(b"\0", b" ")
        return pid != os.getpid() and self._expression.search(line) is not None
