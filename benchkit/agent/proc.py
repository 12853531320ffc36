"""Processes as the kernel shows them, and signals that hit the one that is meant."""

from __future__ import annotations

import errno
import os
import signal
import time
from typing import Callable, Dict, List, NamedTuple, Optional

from benchkit.agent.common import poll_until, read_bytes

TICKS = os.sysconf("SC_CLK_TCK")
PR_SET_CHILD_SUBREAPER = 36  # prctl(2), Linux 3.4

TAG = "BENCHKIT_PROCESS"
"""In the environment of what an agent starts: tells whose an orphan is that left its session."""


class ProcStat(NamedTuple):
    """What /proc/PID/stat says (proc(5)); times in seconds, `start` in ticks since boot."""

    pid: int
    name: str
    state: str
    parent: int
    session: int
    start: int
    user_s: float
    """Its own, and of its children that ended and were waited for."""
    system_s: float
    """Likewise."""


def proc_stat(pid: int) -> Optional[ProcStat]:
    """One process; None where there is none."""
    content = read_bytes(f"/proc/{pid}/stat")
    if not content:
        return None
    name_end = content.rindex(b")")  # the name may hold blanks and brackets itself
    field = content[name_end + 2 :].split()
    return ProcStat(
        pid=pid,
        name=content[content.index(b"(") + 1 : name_end].decode(errors="replace"),
        state=field[0].decode(),
        parent=int(field[1]),
        session=int(field[3]),
        start=int(field[19]),
        user_s=(int(field[11]) + int(field[13])) / TICKS,
        system_s=(int(field[12]) + int(field[14])) / TICKS,
    )


def pids() -> List[int]:
    """The pid of every process that this one can see, ascending."""
    return sorted(int(name) for name in os.listdir("/proc") if name.isdigit())  # noqa: PTH208 - names, many and often


def all_processes() -> Dict[int, ProcStat]:
    """Every process that this one can see, by pid."""
    found = map(proc_stat, pids())
    return {each.pid: each for each in found if each is not None}


def is_running(pid: int, start: int) -> bool:
    """Whether the process with this pid is still the one that started then."""
    found = proc_stat(pid)
    return found is not None and found.start == start and found.state not in "ZX"


def signal_exactly(process: ProcStat, signum: int) -> Optional[str]:
    """Signal this very process, never another that got its pid meanwhile; why it could not be done, if so."""
    try:
        if hasattr(os, "pidfd_open"):  # Python 3.9; Linux 5.3
            try:
                fd = os.pidfd_open(process.pid)
            except OSError as error:
                if error.errno == errno.ESRCH:
                    return None
                fd = -1
            if fd >= 0:
                try:
                    if is_running(process.pid, process.start):
                        signal.pidfd_send_signal(fd, signum)
                finally:
                    os.close(fd)
                return None
        if is_running(process.pid, process.start):
            os.kill(process.pid, signum)
    except ProcessLookupError:
        return None
    except OSError as error:
        return error.strerror
    return None


def end_process(process: ProcStat, grace_s: float = 1.0) -> List[str]:
    """End one process, by force where it must be; why it could not be, if so."""
    return end_processes(lambda: [process] if is_running(process.pid, process.start) else [], grace_s)


def end_processes(find: Callable[[], List[ProcStat]], grace_s: float = 1.0, kill_s: float = 3.0) -> List[str]:
    """End all that `find` finds, newcomers too, by force what is there after the grace; what could not be, for people."""
    refused: Dict[int, Optional[str]] = {}
    left: List[ProcStat] = []
    for signum, seconds in ((signal.SIGTERM, grace_s), (signal.SIGKILL, kill_s)):
        told = set()
        for _ in poll_until(time.monotonic() + seconds):
            left = find()
            if not left:
                return []
            for each in left:
                if (each.pid, each.start) not in told:
                    told.add((each.pid, each.start))
                    refused[each.pid] = signal_exactly(each, signum)
                    if signum == signal.SIGTERM:
                        signal_exactly(each, signal.SIGCONT)  # what is stopped takes no other signal
    return [
        f"process {each.pid} ({each.name}) could not be ended: {refused.get(each.pid) or 'it is still there'}"
        for each in left
    ]


def end_session(pid: int, start: int) -> List[str]:
    """End what is left of a session that another agent started; what could not be ended, for people."""
    leader = proc_stat(pid)
    if leader is not None and leader.start != start:  # the number is another's now, so nothing of the session is left
        return []
    return end_processes(
        lambda: [each for each in all_processes().values() if each.session == pid and each.state not in "ZX"]
    )


def below(pid: int, everything: Dict[int, ProcStat]) -> List[ProcStat]:
    """The living descendants of a process among `everything`."""
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
    """Our tag in the environment that a process was started with; empty where it has none, or may not be seen."""
    for entry in (read_bytes(f"/proc/{pid}/environ") or b"").split(b"\0"):
        if entry.startswith(f"{TAG}=".encode()):
            return entry[len(TAG) + 1 :].decode(errors="replace")
    return ""


def become_subreaper() -> bool:
    """Have orphans of what the agent started become its own children, so that none gets out of sight."""
    try:
        import ctypes  # noqa: PLC0415 - some builds of Python lack it

        return bool(ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)
    except (ImportError, OSError, AttributeError):
        return False
