"""Open files of a process tree."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Optional

from benchkit.agent.watch.collector import Collector, CpuBudget, Values
from benchkit.agent.watch.process_tree import ProcessTree


class OpenFiles(Collector):
    """Number of open files: from Linux 6.2 on the kernel counts them; before, all are listed, 15,000 in 5 ms."""

    CPU_SHARE = 0.0005

    def __init__(self, tree: ProcessTree, *, counted: Optional[bool] = None) -> None:
        """Sample a tree; `counted`: the kernel counts open files; None: find out."""
        self._tree = tree
        self._counted = Path("/proc/self/fd").stat().st_size > 0 if counted is None else counted
        self._budget = CpuBudget(self.CPU_SHARE)

    def sample(self) -> Values:
        """Return their number; nothing while the CPU budget is used up, or where a process cannot be read."""
        members = self._tree.ids()
        if not members or (not self._counted and not self._budget.start()):
            return {}
        try:
            number = sum(self._count(f"/proc/{pid}/fd") for pid, _ in members)
        except OSError:
            return {}
        if not self._counted:
            self._budget.stop()
        return {("open_files", None): number}

    def reset_budget(self) -> None:
        """Sample next time, whatever it costs."""
        self._budget.reset()

    def _count(self, folder: str) -> int:
        return os.stat(folder).st_size if self._counted else len(os.listdir(folder))  # noqa: PTH116, PTH208 - often
