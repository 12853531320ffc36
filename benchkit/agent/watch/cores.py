"""CPU time of every core, context switches, interrupts and load, from /proc/stat and /proc/loadavg (proc(5)).

Verdicts depend on these values. One read of /proc/stat has them all; psutil reads it twice, at three times the cost.
"""

from __future__ import annotations

from typing import Tuple

from benchkit.agent.proc import TICKS
from benchkit.agent.watch.collector import Collector, KernelFile, UnavailableError, Values, number_after

KINDS: Tuple[Tuple[str, int], ...] = (
    ("cpu_system_s_total", 3),
    ("cpu_idle_s_total", 4),
    ("cpu_iowait_s_total", 5),
    ("cpu_irq_s_total", 6),
    ("cpu_softirq_s_total", 7),
    ("cpu_steal_s_total", 8),
)
"""Metric, and position of its ticks in the line; user and nice are added up and include guests."""


class Cores(Collector):
    """All cores of the machine; a container or a lab host may use only some of them."""

    def __init__(self) -> None:
        self._stat = KernelFile("/proc/stat")
        self._load = KernelFile("/proc/loadavg")

    def sample(self) -> Values:
        """Return the CPU time of each core, and the counters of the whole machine."""
        content = self._stat.read()
        found: Values = {("load1", None): float(self._load.read().split(None, 1)[0])}
        for line in content.split(b"\n"):
            if not line.startswith(b"cpu"):
                break
            field = line.split()
            core = field[0][3:].decode()
            if core:
                found["cpu_user_s_total", core] = (int(field[1]) + int(field[2])) / TICKS
                for metric, place in KINDS:
                    found[metric, core] = int(field[place]) / TICKS
        for metric, word in (("context_switches_total", b"ctxt "), ("interrupts_total", b"intr ")):
            value = number_after(content, word)
            if value is not None:
                found[metric, None] = value
        if len(found) == 1:
            raise UnavailableError(f"{self._stat.path} lists no cores")
        return found

    def close(self) -> None:
        """Close both files."""
        self._stat.close()
        self._load.close()
