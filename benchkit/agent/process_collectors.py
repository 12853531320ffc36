"""Collectors of process trees: CPU time, memory, threads, context switches and writes to disks."""

from __future__ import annotations

import os
import time
from typing import Dict, List, NamedTuple, Optional, Tuple

from benchkit.agent.cgroup_accounting import CpuSplit, CpuSplitter
from benchkit.agent.child_process import Child
from benchkit.agent.collector import Collector, KernelFile, UnavailableError, Values, number_after, read_once
from benchkit.agent.common import read_bytes
from benchkit.agent.proc import TICKS, ProcStat, cpu_clock_s, parse_stat
from benchkit.agent.processes import ProcessTable
from benchkit.agent.timetable import Timetable

PAGE = os.sysconf("SC_PAGE_SIZE")
SHORT_LIVED = (b"nginx: cache loader process",)
"""Titles of processes that end when their work is done: nginx's cache loader ends a minute after its start
(src/os/unix/ngx_process_cycle.c)."""

NANOSECOND = 1e-9
MAX_PROCESSES = 64
"""Limit of processes; the processes of a larger tree are not sampled one by one."""
MAX_THREADS = 512
"""Limit of threads; the threads of a larger tree or process are not sampled."""


class ProcessTrees:
    """The process trees of everything the agent started."""

    def __init__(self, processes: ProcessTable) -> None:
        """Follow the processes that this agent started. Raises UnavailableError where there is no /proc/loadavg."""
        self._processes = processes
        self._load = KernelFile("/proc/loadavg")
        self._trees: Dict[int, List[ProcStat]] = {}
        self._last_number: Optional[bytes] = None

    def refresh(self) -> None:
        """Update the trees, unless no process or thread has started since and none is known to have ended."""
        last_number = self._load.read().rsplit(None, 1)[-1]
        if last_number != self._last_number:
            self._trees, self._last_number = self._processes.trees(), last_number

    def invalidate(self) -> None:
        """Have the next refresh read everything: a known process has ended."""
        self._last_number = None

    def tree(self, number: int) -> List[ProcStat]:
        """Return the processes of one tree, each as it was first read."""
        return self._trees.get(number, [])

    def close(self) -> None:
        """Close the file."""
        self._load.close()


class TreeProcess(NamedTuple):
    """A process of a tree, as sampled."""

    stat: ProcStat
    threads: int
    rss_bytes: int
    cpu_s: float
    """CPU time, including ended children that it has waited for."""


class ProcessTree(Collector):
    """The process tree of one service."""

    def __init__(self, child: Child, trees: ProcessTrees) -> None:
        super().__init__()
        self._child = child
        self._trees = trees
        self._known: Dict[int, int] = {}
        self._splitter = CpuSplitter()
        self.members: List[TreeProcess] = []
        self.used: Optional[CpuSplit] = None
        """CPU time of the last sample; None before the first."""

    def sample(self) -> Values:
        """Return the values of the whole tree, and the CPU time of each process.

        Raises UnavailableError where its control group does not exist.
        """
        group = self._child.group
        processes = self._read_tree() if group is None else list(filter(None, map(read_process, group.pids())))
        self.members = alive = [process for process in processes if process.stat.state not in "ZX"]
        if group is None:
            # The time of an ended process is missing until its parent reaps it: the sum never decreases.
            ended = self._child.cpu_s([])
            total_s = ended.total_s + sum(each.cpu_s for each in processes)
            user_s = ended.user_s + sum(each.stat.user_s for each in processes)
            system_s = ended.system_s + sum(each.stat.system_s for each in processes)
            self.used = used = self._splitter.split(total_s, user_s, system_s)
        else:
            counted = group.cpu()
            if counted is None:
                raise UnavailableError(f"control group {group.path} does not exist")
            self.used = used = counted
        values: Values = {
            ("cpu_s_total", None): used.total_s,
            ("user_cpu_s_total", None): used.user_s,
            ("system_cpu_s_total", None): used.system_s,
            ("processes", None): len(alive),
        }
        if alive:
            values["threads", None] = sum(process.threads for process in alive)
            values["rss_bytes", None] = sum(process.rss_bytes for process in alive)
        if len(alive) <= MAX_PROCESSES:
            for process in alive:
                values["process_cpu_s_total", str(process.stat.pid)] = process.cpu_s
        return values

    def _read_tree(self) -> List[TreeProcess]:
        self._known.update((each.pid, each.start) for each in self._trees.tree(self._child.id))
        processes = []
        for pid, start in list(self._known.items()):
            process = read_process(pid)
            if process is None or process.stat.start != start:
                del self._known[pid]
                self._trees.invalidate()
            else:
                processes.append(process)
        return processes

    def ids(self) -> List[Tuple[int, int]]:
        """Return the live processes of the last sample that are not short-lived: pid, and start in ticks since boot."""
        return sorted((each.stat.pid, each.stat.start) for each in self.members if not is_short_lived(each.stat.pid))


class GroupLimits(Collector):
    """The CPU quota of the control group of one service."""

    def __init__(self, child: Child) -> None:
        super().__init__()
        self._child = child

    def sample(self) -> Values:
        """Return quota periods, throttled periods and throttled time; nothing without a quota."""
        values: Values = {}
        group = self._child.group
        if group is None or (group is self._child.own_group and self._child.command.group is None):
            return values  # this group has no quota
        names = ("quota_periods_total", "quota_throttled_total", "quota_throttled_s_total")
        for name, value in zip(names, group.throttling() or ()):  # noqa: B905 - Python 3.8 has no strict
            values[name, None] = value
        return values


def is_short_lived(pid: int) -> bool:
    """Return True for a process whose title shows that it ends by itself."""
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


class ThreadTimes(Collector):
    """CPU time of each thread of a process, as the scheduler counts it (sched-stats.rst of Linux)."""

    def __init__(self, child: Child) -> None:
        super().__init__()
        self._pid = child.pid
        try:
            read_once("/proc/self/schedstat")
        except OSError as error:
            raise UnavailableError(f"CPU time of threads: /proc/PID/schedstat: {error.strerror}") from None

    def sample(self) -> Values:
        """Return seconds by thread; nothing after the end of the process."""
        found: Values = {}
        tids = thread_ids(self._pid)
        for tid in tids if len(tids) <= MAX_THREADS else ():
            try:
                content = read_once(f"/proc/{self._pid}/task/{tid}/schedstat")
            except OSError:  # the thread has ended
                continue
            found["thread_cpu_s_total", tid] = int(content.split(None, 1)[0]) * NANOSECOND
        return found


class ContextSwitches(Collector):
    """Context switches of all threads of a tree, including ended threads up to their last sample.

    Each thread has its own file, and a long one: this is the most expensive collector.
    """

    is_sparse = True

    def __init__(self, tree: ProcessTree) -> None:
        super().__init__()
        self._tree = tree
        self._before: Dict[Tuple[int, str], Tuple[int, int]] = {}
        self._voluntary = self._involuntary = 0

    def sample(self) -> Values:
        """Return voluntary and involuntary switches. Call it after `sample` of the tree."""
        threads = [(pid, tid) for pid, _ in self._tree.ids() for tid in thread_ids(pid)]
        if len(threads) > MAX_THREADS:
            return {}
        for pid, tid in threads:
            self._add(pid, tid)
        return {
            ("voluntary_switches_total", None): self._voluntary,
            ("involuntary_switches_total", None): self._involuntary,
        }

    def _add(self, pid: int, tid: str) -> None:
        """Add the switches of a thread since its last sample. The sum keeps the switches of an ended thread."""
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
    """Return the threads of a process; none where it has ended."""
    try:
        return os.listdir(f"/proc/{pid}/task")  # noqa: PTH208 - names, often
    except OSError:
        return []


class StorageWrites(Collector):
    """Bytes that the processes of a tree have written to files on disks; files in memory do not count.

    A byte counts when its page in the cache is written, before the page reaches the disk (proc(5), `write_bytes` of
    /proc/PID/io). Bytes of ended processes stay in the sum.
    """

    is_sparse = True

    def __init__(self, tree: ProcessTree) -> None:
        super().__init__()
        self._tree = tree
        self._before: Dict[Tuple[int, int], int] = {}
        self._written = 0

    def sample(self) -> Values:
        """Return the bytes. Raises OSError where /proc denies access."""
        now = {}
        for process in self._tree.ids():
            try:
                now[process] = number_after(read_once(f"/proc/{process[0]}/io"), b"write_bytes:") or 0
            except (FileNotFoundError, ProcessLookupError):  # it has ended
                continue
        self._written += sum(written - self._before.get(process, 0) for process, written in now.items())
        self._before = now
        return {("storage_written_bytes_total", None): self._written}


class ScheduledProcesses(Collector):
    """All processes that a timetable starts under one name, running and ended."""

    def __init__(self, timetable: Timetable, name: str) -> None:
        super().__init__()
        self._timetable = timetable
        self._name = name

    def sample(self) -> Values:
        """Return the CPU time of all together."""
        return {("cpu_s_total", None): self._timetable.cpu_s(self._name)}


class AgentCpu(Collector):
    """The agent's process."""

    def __init__(self) -> None:
        super().__init__("/proc/self/statm")

    def sample(self) -> Values:
        """Return CPU time and memory."""
        return {
            ("cpu_s_total", None): time.process_time(),
            ("rss_bytes", None): int(self.files[0].read().split()[1]) * PAGE,
        }
