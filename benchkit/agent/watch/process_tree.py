"""CPU time, memory and threads of a process tree.

Read from /proc directly, at 10 µs for a process: psutil takes 60 µs, as it opens three files instead of one.
"""

from __future__ import annotations

import os
from typing import Dict, List, NamedTuple, Optional, Tuple

from benchkit.agent.child_process import Child
from benchkit.agent.common import read_bytes
from benchkit.agent.proc import TICKS, ProcStat, cpu_clock_s, parse_stat
from benchkit.agent.watch.collector import Collector, Values, read_once
from benchkit.agent.watch.process_trees import ProcessTrees

PAGE = os.sysconf("SC_PAGE_SIZE")

SHORT_LIVED = (b"nginx: cache loader process",)
"""Titles of processes that end when their work is done: nginx's cache loader ends a minute after its start
(src/os/unix/ngx_process_cycle.c)."""


class TreeProcess(NamedTuple):
    """A process of a tree, as sampled."""

    stat: ProcStat
    threads: int
    rss_bytes: int
    cpu_s: float
    """CPU time, including that of its children that ended and were waited for."""

    @property
    def is_alive(self) -> bool:
        """True for a running process; an ended one is listed until its parent reaps it."""
        return self.stat.state not in "ZX"


class ProcessTree(Collector):
    """The process tree of one service."""

    MAX_PROCESSES = 64
    """Limit of processes; those of a larger tree are not sampled one by one."""

    def __init__(self, child: Child, trees: ProcessTrees) -> None:
        self._child = child
        self._trees = trees
        self._known: Dict[int, int] = {}
        self._cpu_s = 0.0
        self.members: List[TreeProcess] = []
        """Live processes of the last sample."""

    def sample(self) -> Values:
        """Return the values of the whole tree, and the CPU time of each process."""
        self._known.update((each.pid, each.start) for each in self._trees.tree(self._child.id))
        processes = []
        for pid, start in list(self._known.items()):
            process = read_process(pid)
            if process is None or process.stat.start != start:
                del self._known[pid]
                self._trees.invalidate()
            else:
                processes.append(process)
        self.members = alive = [process for process in processes if process.is_alive]
        # The time of an ended process is missing until its parent reaps it: the sum never decreases.
        self._cpu_s = max(self._cpu_s, sum(self._child.cpu_s([])) + sum(each.cpu_s for each in processes))
        values: Values = {("cpu_s_total", None): self._cpu_s, ("processes", None): len(alive)}
        if alive:
            values["threads", None] = sum(process.threads for process in alive)
            values["rss_bytes", None] = sum(process.rss_bytes for process in alive)
        if len(alive) <= self.MAX_PROCESSES:
            for process in alive:
                values["process_cpu_s_total", str(process.stat.pid)] = process.cpu_s
        return values

    def ids(self) -> List[Tuple[int, int]]:
        """Return the live processes of the last sample that are not short-lived: pid, and start in ticks since boot."""
        return sorted((each.stat.pid, each.stat.start) for each in self.members if not is_short_lived(each.stat.pid))


def is_short_lived(pid: int) -> bool:
    """Return True for a process that ends by itself, according to its title."""
    return (read_bytes(f"/proc/{pid}/cmdline") or b"").startswith(SHORT_LIVED)


def read_process(pid: int) -> Optional[TreeProcess]:
    """Read a process; None where it does not exist (proc(5), /proc/PID/stat)."""
    try:
        content = read_once(f"/proc/{pid}/stat")
    except OSError:
        return None
    stat, field = parse_stat(pid, content)
    clock_s = cpu_clock_s(pid)
    of_children_s = (int(field[13]) + int(field[14])) / TICKS
    return TreeProcess(
        stat,
        threads=int(field[17]),
        rss_bytes=int(field[21]) * PAGE,
        cpu_s=stat.user_s + stat.system_s if clock_s is None else clock_s + of_children_s,
    )
