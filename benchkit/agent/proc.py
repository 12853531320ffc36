"""Processes in /proc, their descent, and signals that cannot reach another process with the same pid."""

from __future__ import annotations

import ctypes
import os
import signal
import time
from typing import Callable, Dict, List, NamedTuple, Optional, Tuple

from benchkit.agent.common import number_after, poll_until, read_bytes
from benchkit.agent.frames import JsonObject
from benchkit.agent.operations import StopSignal

TICKS = os.sysconf("SC_CLK_TCK")
PR_SET_CHILD_SUBREAPER = 36  # prctl(2), Linux 3.4
CPUCLOCK_SCHED = 2  # include/linux/posix-timers.h

LONGEST_GRACE_S = 5.0
"""Longest grace period after a crash or at `service down`; a command waits 10 s for the watchdog."""
KILL_S = 3.0
"""Time for killed processes to end."""

TAG = "BENCHKIT_PROCESS"
"""Environment variable that an agent gives its processes: it identifies orphans that left their session."""

UNKNOWN_OWNER = 0
"""Number for orphans of the agent whose started process is unknown."""


class ProcStat(NamedTuple):
    """Fields of /proc/PID/stat (proc(5)); times in seconds, `start` in ticks since boot."""

    pid: int
    name: str
    state: str
    parent: int
    session: int
    start: int
    user_s: float
    """User time of the process, and of its children that ended and were waited for."""
    system_s: float


def proc_stat(pid: int) -> Optional[ProcStat]:
    """Return a process; None where it does not exist."""
    content = read_bytes(f"/proc/{pid}/stat")
    return parse_stat(pid, content)[0] if content else None


def parse_stat(pid: int, content: bytes) -> Tuple[ProcStat, List[bytes]]:
    """Parse /proc/PID/stat (proc(5)); return the process, and the raw fields from the state on."""
    name_end = content.rindex(b")")  # the name may contain blanks and brackets
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
    return stat, field


def cpu_clock_s(pid: int) -> Optional[float]:
    """Return the CPU time of a process, to the nanosecond, without its children; None where it has ended.

    /proc has hundredths of a second only. The clock's number is computed as in clock_getcpuclockid(3), since Python
    has no such function.
    """
    try:
        return time.clock_gettime((~pid << 3) | CPUCLOCK_SCHED)
    except OSError:
        return None


def pids() -> List[int]:
    """Return the pids of all visible processes, ascending."""
    return sorted(int(name) for name in os.listdir("/proc") if name.isdigit())  # noqa: PTH208 - names, many and often


def all_processes() -> Dict[int, ProcStat]:
    """Return all visible processes by pid."""
    found = map(proc_stat, pids())
    return {each.pid: each for each in found if each is not None}


def is_running(pid: int, start: int) -> bool:
    """Return True where the process with this pid is running and started at `start`."""
    found = proc_stat(pid)
    return found is not None and found.start == start and found.state not in "ZX"


def signal_exactly(process: ProcStat, signum: int) -> Optional[str]:
    """Signal this process, never a later one with its pid; return the reason of a failure, else None."""
    try:
        if is_running(process.pid, process.start):
            os.kill(process.pid, signum)
    except ProcessLookupError:
        return None
    except OSError as error:
        return error.strerror
    return None


def end_processes(
    find: Callable[[], List[ProcStat]],
    grace_s: float = 1.0,
    signum_of: Callable[[ProcStat], int] = lambda _: signal.SIGTERM,
) -> List[str]:
    """End all processes that `find` returns, including those that appear meanwhile; return failures.

    Each process first gets the signal of `signum_of`, and is killed after the grace period.
    """
    refused: Dict[int, Optional[str]] = {}
    remaining: List[ProcStat] = []
    for is_grace, seconds in ((True, grace_s), (False, KILL_S)):
        signalled = set()
        for _ in poll_until(time.monotonic() + seconds):
            remaining = find()
            if not remaining:
                return []
            for each in remaining:
                if (each.pid, each.start) not in signalled:
                    signalled.add((each.pid, each.start))
                    refused[each.pid] = signal_exactly(each, signum_of(each) if is_grace else signal.SIGKILL)
                    if is_grace:
                        signal_exactly(each, signal.SIGCONT)  # a stopped process handles no other signal
    return [
        f"process {each.pid} ({each.name}) could not be ended: {refused.get(each.pid) or 'it is still running'}"
        for each in remaining
    ]


def recorded_stop(record: JsonObject) -> StopSignal:
    """Return the signal and the grace period in a record, or the defaults."""
    default = StopSignal()
    within_s = min(LONGEST_GRACE_S, record.get("stop_grace_s", default.within_s))
    return StopSignal(record.get("stop_signum", default.signum), within_s)


def end_recorded(record: JsonObject) -> List[str]:
    """End the recorded process of another agent with its session and all that have its tag; return failures.

    The record has no pid where the agent was killed during the launch: then only the tag identifies the process.
    """
    pid, tag, stop = record.get("pid"), record.get("tag", ""), recorded_stop(record)
    leader = None if pid is None else proc_stat(pid)
    is_reused = leader is not None and leader.start != record.get("start", 0)
    return end_processes(
        lambda: [
            each
            for each in all_processes().values()
            if each.state not in "ZX" and ((each.session == pid and not is_reused) or (tag and tag_of(each.pid) == tag))
        ],
        stop.within_s,
        signum_of=lambda _: stop.signum,
    )


def descendants(pid: int, everything: Dict[int, ProcStat]) -> List[ProcStat]:
    """Return the live descendants of a process among `everything`."""
    children: Dict[int, List[ProcStat]] = {}
    for each in everything.values():
        children.setdefault(each.parent, []).append(each)
    found: List[ProcStat] = []
    generation = children.get(pid, [])
    while generation:
        found += [each for each in generation if each.state not in "ZX"]
        generation = [child for each in generation for child in children.get(each.pid, [])]
    return found


def tag_of(pid: int) -> str:
    """Return the tag in the environment of a process; "" without a tag or a readable environment."""
    for entry in (read_bytes(f"/proc/{pid}/environ") or b"").split(b"\0"):
        if entry.startswith(f"{TAG}=".encode()):
            return entry[len(TAG) + 1 :].decode(errors="replace")
    return ""


def become_subreaper() -> None:
    """Make this process the parent of its orphaned descendants."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def memory_kills() -> Optional[int]:
    """Return the number of processes killed for lack of memory; None where the kernel counts none (< 4.13)."""
    return number_after(b"\n" + (read_bytes("/proc/vmstat") or b""), b"oom_kill ")


def members(
    everything: Dict[int, ProcStat],
    by_pid: Dict[int, int],
    by_session: Dict[int, int],
    by_group: Dict[int, int],
    by_tag: Callable[[int], Optional[int]],
) -> Dict[int, List[ProcStat]]:
    """Return the live processes of each started process, by its number.

    `everything` has all processes of the host. `by_pid` maps running started processes to their numbers; `by_session`
    also maps ended ones, as a session can outlive its leader. `by_group` maps the pids in their control groups.
    `by_tag` returns the number in the environment of a pid. Orphans are children of the agent, the subreaper, and are
    recognised by session or tag.
    """
    agent = os.getpid()
    found: Dict[int, List[ProcStat]] = {}
    for process in everything.values():
        if process.state in "ZX":
            continue
        number, top = _climb(process, everything, by_pid, agent)
        number = by_group.get(process.pid, number)
        is_orphan = number is None and top.parent == agent
        if is_orphan:
            number = by_session.get(process.session) or by_tag(top.pid)
        if number is not None or is_orphan:
            found.setdefault(number or UNKNOWN_OWNER, []).append(process)
    return found


def _climb(
    process: ProcStat, everything: Dict[int, ProcStat], by_pid: Dict[int, int], agent: int
) -> Tuple[Optional[int], ProcStat]:
    current = process
    while current.pid not in by_pid:
        parent = everything.get(current.parent)
        # A parent that started later has reused the pid of the real one.
        if parent is None or current.parent == agent or parent.start > current.start:
            return None, current
        current = parent
    return by_pid[current.pid], current
