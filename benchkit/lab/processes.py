"""Finding and ending the processes of a lab, whatever became of whoever started them.

Every first process has a mark on its command line, `benchkit-lab:KEY:ID:PART`; sessions on a host carry one in their
environment. KEY stands for the lab's folder, ID for one `up`, PART for what the process is.
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
class LabProcess:
    """A first process of a lab."""

    process: psutil.Process
    lab_id: str
    part: str


def mark(key: str, lab_id: str, part: str) -> str:
    """What a process of this lab carries; `part` is switch, keeper, or host/NAME."""
    return f"{_prefix(key)}{lab_id}:{part}"


def _prefix(key: str) -> str:
    return f"benchkit-lab:{key}:"


def marked(key: str) -> list[LabProcess]:
    """The first processes of the lab with this key that live, this user's only."""
    return [
        LabProcess(process, *word.removeprefix(_prefix(key)).split(":", 1))
        for process in _own("cmdline")
        for word in process.info["cmdline"] or ()
        if word.startswith(_prefix(key))
    ]


def end_all(key: str) -> bool:
    """End every process of the lab with this key; True where there was any. Raises HostError where one stays.

    With namespaces the kernel ends everything below the switch with it. Without, the kernel ends the servers with their
    keeper, what runs below is found as its descendants, and what outlived it by its environment. Children go first,
    so that those who started them can bury them.
    """
    deadline = time.monotonic() + END_DEADLINE_S
    any_found = False
    while heads := _alive([*(one.process for one in marked(key)), *_orphans(key)]):
        any_found = True
        if time.monotonic() > deadline:
            raise HostError(
                "processes of the lab do not end",
                where="this machine",
                why=", ".join(f"{process.pid} is {_state(process)}" for process in heads),
                hint="a process that waits for a disk or a debugger ends after that; then `benchkit lab down` again",
            )
        for group in (_below(heads), heads):
            for process in group:
                _kill(process)
            while _alive(group) and time.monotonic() < deadline:
                time.sleep(_POLL_S)
    return any_found


def _below(heads: Iterable[psutil.Process]) -> list[psutil.Process]:
    """All descendants of these processes."""
    found: dict[int, psutil.Process] = {}
    for head in heads:
        try:
            found.update({child.pid: child for child in head.children(recursive=True)})
        except psutil.NoSuchProcess:
            continue
    return list(found.values())


def _alive(processes: Iterable[psutil.Process]) -> list[psutil.Process]:
    return [process for process in processes if _state(process) is not None]


def _orphans(key: str) -> Iterator[psutil.Process]:
    """Sessions on hosts of the lab, by their environment, each with the sshd that serves it."""
    for process in _own("environ"):
        if (process.info["environ"] or {}).get(MARK_VARIABLE, "").startswith(_prefix(key)):
            yield process
            try:
                parent = process.parent()
                if parent is not None and parent.name().startswith("sshd"):
                    yield parent
            except psutil.NoSuchProcess:  # nobody is left to serve it
                continue


def _own(fact: str) -> Iterator[psutil.Process]:
    """This user's processes, each with a fact about it, which is None where it has ended or keeps it to itself."""
    user = os.getuid()
    for process in psutil.process_iter(["uids", fact]):
        if process.info["uids"] is not None and process.info["uids"].real == user:
            yield process


def _state(process: psutil.Process) -> str | None:
    """What a process is doing, or None when it has ended (its parent may not have buried it yet)."""
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
