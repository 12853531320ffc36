"""CPU time and memory of the agent itself, to separate them from those of other processes."""

from __future__ import annotations

import time

from benchkit.agent.watch.collector import Collector, KernelFile, Values
from benchkit.agent.watch.process_tree import PAGE


class AgentCpu(Collector):
    """The agent's process."""

    def __init__(self) -> None:
        self._statm = KernelFile("/proc/self/statm")

    def sample(self) -> Values:
        """Return CPU time and memory."""
        return {
            ("cpu_s_total", None): time.process_time(),
            ("rss_bytes", None): int(self._statm.read().split()[1]) * PAGE,
        }

    def close(self) -> None:
        """Close the file."""
        self._statm.close()
