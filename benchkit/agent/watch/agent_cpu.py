"""What benchkit itself takes on the host, so that it can be told from what others take."""

from __future__ import annotations

import time

from benchkit.agent.watch.collector import Collector, KernelFile, Values
from benchkit.agent.watch.process_tree import PAGE


class Own(Collector):
    """The agent's own process."""

    def __init__(self) -> None:
        self._statm = KernelFile("/proc/self/statm")

    def sample(self) -> Values:
        """CPU time and memory."""
        return {
            ("cpu_s_total", None): time.process_time(),
            ("rss_bytes", None): int(self._statm.read().split()[1]) * PAGE,
        }

    def close(self) -> None:
        """Let go of the file."""
        self._statm.close()
