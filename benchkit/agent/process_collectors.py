"""Collectors of process trees: CPU time, run-queue delay, memory, context switches and writes to disks."""

from __future__ import annotations

import os
import time
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Tuple

from benchkit.agent.child_process import Child
from benchkit.agent.common import OperationError, Values, number_after, read_bytes, read_file
from benchkit.agent.operations import CpuTime
from benchkit.agent.proc import TICKS, ProcStat, cpu_clock_s, parse_stat
from benchkit.agent.processes import ProcessTable

PAGE = os.sysconf("SC_PAGE_SIZE")
SHORT_LIVED = (b"nginx: cache loader process",)
"""Titles of processes that end when their work is done: nginx's cache loader ends a minute after its start
(src/os/unix/ngx_process_cycle.c)."""

Thread = Tuple[int, str]
"""Ids of a process and of a thread of it."""
NANOSECOND = 1e-9
MAX_PROCESSES = 64
"""Limit of processes; the processes of a larger tree are not sampled one by one."""
MAX_THREADS = 512
"""Limit of threads; the threads of a larger tree or process are not sampled."""


class ProcessTrees:
    """The process trees of everything the agent started."""

    def __init__(self, processes: ProcessTable) -> None:
        self._processes = processes
        self._trees: Dict[int, List[ProcStat]] = {}
        self._last_number: Optional[bytes] = None

    def tree(self, number: int) -> List[ProcStat]:
        """Return the processes of one tree, each as it was first read.

        They are read again where a process or thread has started since, or where one is known to have ended.
        """
        last_number = read_file("/proc/loadavg").rsplit(None, 1)[-1]
        if last_number != self._last_number:
            self._trees, self._last_number = self._processes.trees(), last_number
        return self._trees.get(number, [])

    def invalidate(self) -> None:
        """Read everything next time: a known process has ended."""
        self._last_number = None


class TreeProcess(NamedTuple):
    """A process of a tree, as sampled."""

    stat: ProcStat
    rss_bytes: int
    cpu_s: float
    """CPU time, including ended children that it has waited for."""


class ProcessTree:
    """The process tree of one service."""

    def __init__(self, child: Child, trees: ProcessTrees) -> None:
        self.child = child
        self._trees = trees
        self._known: Dict[int, int] = {}
        self.members: List[TreeProcess] = []
        self.used: Optional[CpuTime] = None
        """CPU time of the last sample; None before the first."""

    def sample(self) -> Values:
        """Return the values of the whole tree, and the CPU time of each process.

        Raises OperationError where its control group does not exist.
        """
        group = self.child.group
        processes = self._read_tree() if group is None else list(filter(None, map(read_process, group.pids())))
        self.members = alive = [process for process in processes if process.stat.state not in "ZX"]
        self.used = used = self._cpu_time(processes) if group is None else self.child.cpu_time([])
        values: Values = {
            ("cpu_s_total", None): used.total_s,
            ("user_cpu_s_total", None): used.user_s,
            ("processes", None): len(alive),
        }
        if alive:
            values["rss_bytes", None] = sum(process.rss_bytes for process in alive)
        if len(alive) <= MAX_PROCESSES:
            for process in alive:
                values["process_cpu_s_total", str(process.stat.pid)] = process.cpu_s
        return values

    def _cpu_time(self, processes: List[TreeProcess]) -> CpuTime:
        """Return the exact CPU time, of which user time has the share that the kernel counts in ticks.

        The time of an ended process is missing until its parent reaps it. Neither part decreases, as in the kernel
        (cputime_adjust in kernel/sched/cputime.c).
        """
        ended, last = self.child.cpu_time([]), self.used or CpuTime(0.0, 0.0)
        total_s = max(last.total_s, ended.total_s + sum(each.cpu_s for each in processes))
        in_ticks = self.child.cpu_time([each.stat for each in processes])
        user_s = total_s * in_ticks.user_s / in_ticks.total_s if in_ticks.total_s else total_s
        return CpuTime(total_s, min(max(user_s, last.user_s), last.user_s + total_s - last.total_s))

    def _read_tree(self) -> List[TreeProcess]:
        self._known.update((each.pid, each.start) for each in self._trees.tree(self.child.id))
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


def quota_throttling(child: Child) -> Values:
    """Return periods and throttled periods of the CPU quota of a service; nothing without a quota."""
    group = child.group or child.quota_group
    found = None if group is None else group.throttling()
    return {} if found is None else {("quota_periods_total", None): found[0], ("quota_throttled_total", None): found[1]}


def is_short_lived(pid: int) -> bool:
    """Return True for a process whose title shows that it ends by itself."""
    return (read_bytes(f"/proc/{pid}/cmdline") or b"").startswith(SHORT_LIVED)


def read_process(pid: int) -> Optional[TreeProcess]:
    """Read a process; None where it does not exist (proc(5), /proc/PID/stat)."""
    try:
        content = read_file(f"/proc/{pid}/stat")
    except OSError:
        return None
    stat, field = parse_stat(pid, content)
    clock_s = cpu_clock_s(pid)
    of_children_s = (int(field[13]) + int(field[14])) / TICKS
    return TreeProcess(
        stat,
        rss_bytes=int(field[21]) * PAGE,
        cpu_s=stat.user_s + stat.system_s if clock_s is None else clock_s + of_children_s,
    )


def thread_times(child: Child) -> Values:
    """Return the CPU time of each thread of a process in seconds, as the scheduler counts it; nothing after its end.

    Raises OperationError where the kernel does not count it.
    """
    tids = thread_ids(child.pid)
    times = scheduler_times([(child.pid, tid) for tid in tids] if len(tids) <= MAX_THREADS else [])
    return {("thread_cpu_s_total", tid): on_cpu * NANOSECOND for (_, tid), (on_cpu, _) in times.items()}


def scheduler_times(threads: List[Thread]) -> Dict[Thread, Tuple[int, int]]:
    """Return the time of each thread on CPUs and in run queues, in nanoseconds; ended threads are missing.

    These are the first two numbers of /proc/PID/task/TID/schedstat (Documentation/scheduler/sched-stats.rst of Linux).
    Raises OperationError where the kernel does not count them.
    """
    if not int((read_bytes("/proc/self/schedstat") or b"0").split(None, 1)[0]):
        raise OperationError("unavailable", "times of threads: there are none in /proc/PID/schedstat")
    times = {}
    for pid, tid in threads:
        try:
            file = os.open(f"/proc/{pid}/task/{tid}/schedstat", os.O_RDONLY)  # takes half the time of `read_bytes`
        except OSError:
            continue
        try:
            on_cpu, in_queue, _ = os.read(file, 100).split()
            times[pid, tid] = int(on_cpu), int(in_queue)
        except ProcessLookupError:
            continue
        finally:
            os.close(file)
    return times


def thread_ids(pid: int) -> List[str]:
    """Return the threads of a process; none where it has ended."""
    try:
        return os.listdir(f"/proc/{pid}/task")  # noqa: PTH208 - names, often
    except OSError:
        return []


class GrowingSum:
    """A sum of counters that keeps what a process or a thread had counted when it ended."""

    def __init__(self) -> None:
        self._before: Mapping[Any, int] = {}
        self._total = 0

    def update(self, now: Mapping[Any, int]) -> int:
        """Return the sum, with the present counters of those that are still there."""
        self._total += sum(count - self._before.get(key, 0) for key, count in now.items())
        self._before = now
        return self._total


class TreeActivity:
    """Run-queue delay and context switches of all threads of a tree, and bytes that its processes wrote to files.

    Each thread and process has its own files. Those of switches and bytes are long: these are the most expensive
    collectors. Call them after `sample` of the tree.
    """

    def __init__(self, tree: ProcessTree) -> None:
        self._tree = tree
        self._voluntary, self._involuntary, self._written = GrowingSum(), GrowingSum(), GrowingSum()
        self._queued = GrowingSum()

    def _threads(self) -> List[Thread]:
        """Return the threads; none where there are too many to be sampled."""
        threads = [(each.stat.pid, tid) for each in self._tree.members for tid in thread_ids(each.stat.pid)]
        return threads if len(threads) <= MAX_THREADS else []

    def run_queue_delay(self) -> Values:
        """Return the time that threads were ready to run and waited for a CPU, in seconds.

        Time in which a CPU quota stops a thread is in it. A thread that starts and ends between two samples is not.
        Raises OperationError where the kernel does not count it.
        """
        times = scheduler_times(self._threads())
        delays = {thread: in_queue for thread, (_, in_queue) in times.items()}
        return {("run_queue_s_total", None): self._queued.update(delays) * NANOSECOND} if delays else {}

    def context_switches(self) -> Values:
        """Return voluntary and involuntary switches."""
        contents = {(pid, tid): read_bytes(f"/proc/{pid}/task/{tid}/status") for pid, tid in self._threads()}
        if not contents:
            return {}
        voluntary, involuntary = (
            {thread: number_after(content, word) or 0 for thread, content in contents.items() if content}
            for word in (b"voluntary_ctxt_switches:", b"nonvoluntary_ctxt_switches:")
        )
        return {
            ("voluntary_switches_total", None): self._voluntary.update(voluntary),
            ("involuntary_switches_total", None): self._involuntary.update(involuntary),
        }

    def storage_writes(self) -> Values:
        """Return the bytes written to files on disks; files in memory do not count.

        A byte counts when its page in the cache is written, before the page reaches the disk (proc(5), `write_bytes` of
        /proc/PID/io). Raises OSError where /proc denies access.
        """
        now = {}
        for process in self._tree.ids():
            try:
                now[process] = number_after(read_file(f"/proc/{process[0]}/io"), b"write_bytes:") or 0
            except (FileNotFoundError, ProcessLookupError):  # it has ended
                continue
        return {("storage_written_bytes_total", None): self._written.update(now)}


def agent_usage() -> Values:
    """Return CPU time and memory of the agent's process."""
    return {
        ("cpu_s_total", None): time.process_time(),
        ("rss_bytes", None): int(read_file("/proc/self/statm").split()[1]) * PAGE,
    }
