"""Finding and killing the processes of a lab, without the help of the process that started them.

Every init process has a mark on its command line, `benchkit-lab:KEY:ID:PART`; sessions on a host have one in their
environment. KEY identifies the lab's folder, ID one call of `up`, PART the role of the process.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import psutil

from benchkit.errors import HostError

MARK_VARIABLE = "BENCHKIT_LAB_HOST"
END_DEADLINE_S = 10.0
_POLL_S = 0.005


@dataclass(frozen=True)
class InitProcess:
    """An init process of a lab: its switch, its supervisor, or the process 1 of a host."""

    process: psutil.Process
    lab_id: str
    part: str


def process_mark(key: str, lab_id: str, part: str) -> str:
    """Return the mark of a process of this lab; `part` is switch, supervisor, or host/NAME."""
    return f"{_prefix(key)}{lab_id}:{part}"


def _prefix(key: str) -> str:
    return f"benchkit-lab:{key}:"


def find_init_processes(key: str) -> list[InitProcess]:
    """Return the running init processes of the lab with this key, of this user only."""
    return [
        InitProcess(process, *word.removeprefix(_prefix(key)).split(":", 1))
        for process in _own_processes("cmdline")
        for word in process.info["cmdline"] or ()
        if word.startswith(_prefix(key))
    ]


def kill_all(key: str) -> bool:
    """Kill every process of the lab with this key; return False where there was none. Raises HostError where one stays.

    With namespaces the kernel kills everything below the switch with it. Without them the kernel kills the servers with
    their supervisor; other processes are found as its descendants, and orphans by their environment. Children are
    killed first, so that their parents can reap them. A process that is just replacing its program (execve(2)) shows
    neither command line nor environment for an instant, so after a kill one empty list is not enough.
    """
    deadline = time.monotonic() + END_DEADLINE_S
    killed_any = False
    while roots := _roots(key) or (_roots(key, after_s=_POLL_S) if killed_any else []):
        killed_any = True
        if time.monotonic() > deadline:
            raise HostError(
                "processes of the lab could not be killed",
                where="this machine",
                why=", ".join(f"{process.pid} is {_state(process)}" for process in roots),
                hint="a process that waits for a disk or a debugger ends after that; then run `benchkit lab down` again",
            )
        for group in (_descendants(roots), roots):
            for process in group:
                _kill(process)
            while _alive(group) and time.monotonic() < deadline:
                time.sleep(_POLL_S)
    return killed_any


def find_sessions(key: str, host: str) -> list[psutil.Process]:
    """Return the processes of sessions on a host of the lab."""
    part = f":host/{host}"
    return [
        process
        for process in _own_processes("environ")
        if (mark := (process.info["environ"] or {}).get(MARK_VARIABLE, "")).startswith(_prefix(key))
        and mark.endswith(part)
    ]


def _roots(key: str, *, after_s: float = 0.0) -> list[psutil.Process]:
    """Return the running processes that bear a mark of the lab, after a pause."""
    time.sleep(after_s)
    return _alive([*(init.process for init in find_init_processes(key)), *_orphans(key)])


def _descendants(roots: Iterable[psutil.Process]) -> list[psutil.Process]:
    """Return all descendants of these processes."""
    descendants: dict[int, psutil.Process] = {}
    for root in roots:
        try:
            descendants.update({child.pid: child for child in root.children(recursive=True)})
        except psutil.NoSuchProcess:
            continue
    return list(descendants.values())


def _alive(processes: Iterable[psutil.Process]) -> list[psutil.Process]:
    return [process for process in processes if _state(process) is not None]


def _orphans(key: str) -> Iterator[psutil.Process]:
    """Yield sessions on hosts of the lab, found by their environment, each with its sshd."""
    for process in _own_processes("environ"):
        if (process.info["environ"] or {}).get(MARK_VARIABLE, "").startswith(_prefix(key)):
            yield process
            try:
                parent = process.parent()
                if parent is not None and parent.name().startswith("sshd"):
                    yield parent
            except psutil.NoSuchProcess:  # its sshd has ended
                continue


def _own_processes(attribute: str) -> Iterator[psutil.Process]:
    """Yield this user's processes with one attribute, which is None where the process has ended or denies access."""
    user = os.getuid()
    for process in psutil.process_iter(["uids", attribute]):
        if process.info["uids"] is not None and process.info["uids"].real == user:
            yield process


def _state(process: psutil.Process) -> str | None:
    """Return the state of a process; None where it has ended, even if its parent has not reaped it yet."""
    try:
        state = str(process.status()) if process.is_running() else None
    except psutil.NoSuchProcess:
        return None
    return None if state in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD) else state


def _kill(process: psutil.Process) -> None:
    try:
        process.kill()
    except psutil.NoSuchProcess:
        return
