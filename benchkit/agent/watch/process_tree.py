"""What a process tree takes: CPU time, memory, threads.

Read from /proc directly: psutil opens a file three times for what is one read here, and takes 60 µs for a process where
this takes 10, which is felt with many processes and many looks.
"""

from __future__ import annotations

import os
from typing import Dict, List, NamedTuple, Optional, Tuple

from benchkit.agent.child_process import Child
from benchkit.agent.common import read_bytes
from benchkit.agent.proc import TICKS, ProcStat
from benchkit.agent.watch.collector import Collector, Values, read_once
from benchkit.agent.watch.process_trees import ProcessTrees

PAGE = os.sysconf("SC_PAGE_SIZE")

PASSING = (b"nginx: cache loader process",)
"""What processes call themselves that end when their work is done: nginx's loader of a cache a minute after it was
started (src/os/unix/ngx_process_cycle.c)."""


class TreeProcess(NamedTuple):
    """A process of a tree, now."""

    stat: ProcStat
    threads: int
    rss_bytes: int

    @property
    def is_alive(self) -> bool:
        """Whether it has not ended; one that has is there until its parent takes note of it."""
        return self.stat.state not in "ZX"


class Tree(Collector):
    """The process tree of one service."""

    MOST_PROCESSES = 64
    """A tree of more has no figures of each process."""

    def __init__(self, child: Child, families: ProcessTrees) -> None:
        self._child = child
        self._families = families
        self._known: Dict[int, int] = {}
        self._cpu_s = 0.0
        self.members: List[TreeProcess] = []
        """Those who lived at the last look."""

    def sample(self) -> Values:
        """The tree as a whole, and the CPU time of each process."""
        self._known.update((each.pid, each.start) for each in self._families.of(self._child.id))
        seen = []
        for pid, start in list(self._known.items()):
            member = look_at(pid)
            if member is None or member.stat.start != start:
                del self._known[pid]
                self._families.doubt()
            else:
                seen.append(member)
        self.members = alive = [member for member in seen if member.is_alive]
        # Between the end of a process and its parent's taking note its time stands nowhere: what was used stays used.
        self._cpu_s = max(self._cpu_s, sum(self._child.cpu_s([member.stat for member in seen])))
        found: Values = {("cpu_s_total", None): self._cpu_s, ("processes", None): len(alive)}
        if alive:
            found["threads", None] = sum(member.threads for member in alive)
            found["rss_bytes", None] = sum(member.rss_bytes for member in alive)
        if len(alive) <= self.MOST_PROCESSES:
            for member in alive:
                found["process_cpu_s_total", str(member.stat.pid)] = member.stat.user_s + member.stat.system_s
        return found

    def ids(self) -> List[Tuple[int, int]]:
        """Those who lived at the last look and are to go on: pid, and start in ticks since boot."""
        return sorted((each.stat.pid, each.stat.start) for each in self.members if not is_passing(each.stat.pid))


def is_passing(pid: int) -> bool:
    """Whether a process ends by itself, by what it calls itself."""
    return (read_bytes(f"/proc/{pid}/cmdline") or b"").startswith(PASSING)


def look_at(pid: int) -> Optional[TreeProcess]:
    """A process now; None where there is none (proc(5), /proc/PID/stat)."""
    try:
        content = read_once(f"/proc/{pid}/stat")
    except OSError:
        return None
    name_end = content.rindex(b")")  # the name may hold blanks and brackets itself
    field = content[name_end + 2 :].split()
    stat = ProcStat(
        pid=pid,
        name=content[content.index(b"(") + 1 : name_end].decode(errors="replace"),
        state=field[0].decode(),
        parent=int(field[1]),
        session=int(field[3]),
        start=int(field[19]),
        user_s=(int(field[11]) + int(field[13])) / TICKS,
        system_s=(int(field[12]) + int(field[14])) / TICKS,
    )
    return TreeProcess(stat, threads=int(field[17]), rss_bytes=int(field[21]) * PAGE)
