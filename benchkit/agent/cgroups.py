"""Control groups with a CPU quota, created by the agent for the processes that it starts.

Version 1 (Documentation/scheduler/sched-bwc.rst of Linux): below the agent's own group, whose limits then apply too.
Version 2 (admin-guide/cgroup-v2.rst) forbids children of a group that has processes; there they are created in the
uppermost group that delegates the CPU controller.
"""

from __future__ import annotations

import os
import re
import threading
import time
from pathlib import Path
from typing import Dict, List, NamedTuple, Optional

from benchkit.agent.common import RefusedError, poll_until, read_text
from benchkit.agent.frames import Json
from benchkit.agent.launch import Command
from benchkit.agent.records import Records
from benchkit.agent.watch.cpu_quota import own_cgroups

PERIOD_US = 10_000
"""Period of the quota: short compared with a trial, and ten times the kernel's smallest quota."""
SMALLEST_US = 1000
"""Smallest quota that the kernel accepts (sched-bwc.rst)."""

ENTER = 'echo $$ > "$0/cgroup.procs" && exec "$@"'
"""Shell command that enters a group and becomes the program, so that all of its children are in the group."""

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}\Z")


class CgroupPath(NamedTuple):
    """A folder in which groups can be created."""

    folder: Path
    version: int


class Cgroups:
    """The groups that this agent created, by name; removed when it ends."""

    REMOVE_S = 3.0

    def __init__(self, records: Records) -> None:
        self._records = records
        self._lock = threading.Lock()
        self._created: Dict[str, Path] = {}

    def create(self, *, name: str, cpus: float) -> Json:
        """Create a group whose processes share a quota of `cpus` CPUs, or change its quota.

        Raises RefusedError where groups are not available, or where the quota is below the kernel's smallest.
        """
        quota_us = round(cpus * PERIOD_US)
        if not _NAME.match(name) or quota_us < SMALLEST_US:
            raise RefusedError("bad-request", f"a group {name!r} of {cpus:g} CPUs")
        parent = writable_parent()
        if parent is None:
            raise RefusedError("denied", "no control group with a CPU quota can be created", why_not())
        folder = parent.folder / f"benchkit-{os.getppid()}-{os.getpid()}-{name}"
        with self._lock:
            if not folder.is_dir():  # never created, or removed since
                self._records.note("group", {"path": str(folder)})
                folder.mkdir()
            self._created[name] = folder
        if parent.version == 1:
            (folder / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            (folder / "cpu.cfs_quota_us").write_text(str(quota_us))
        else:
            (folder / "cpu.max").write_text(f"{quota_us} {PERIOD_US}")
        return {"path": str(folder)}

    def wrap(self, command: Command) -> Command:
        """Return a command that runs in the group that it names."""
        if command.group is None:
            return command
        if command.group not in self._created:
            raise RefusedError("not-found", f"no group {command.group!r} was created by this agent")
        return command._replace(argv=["/bin/sh", "-c", ENTER, str(self._created[command.group]), *command.argv])


def remove(record: Json) -> List[str]:
    """Remove the group of a record; the kernel may need a moment after the end of its processes. Return failures."""
    folder = Path(record["path"])
    if not folder.name.startswith("benchkit-"):
        return [f"{folder} is not a control group of benchkit"]
    why: Optional[str] = None
    for _ in poll_until(time.monotonic() + Cgroups.REMOVE_S, 0.002, 0.05):
        try:
            folder.rmdir()
        except FileNotFoundError:
            return []
        except OSError as error:
            why = error.strerror
        else:
            return []
    return [f"the control group {folder} could not be removed: {why}"]


def writable_parent() -> Optional[CgroupPath]:
    """Return the folder in which this user may create groups with a CPU quota; None where there is none."""
    for folder in own_cgroups():
        if (folder / "cpu.shares").is_file():
            return CgroupPath(folder, 1) if os.access(str(folder), os.W_OK) else None
    for folder in reversed(own_cgroups()):  # version 2: the uppermost that delegates the controller
        delegated = (read_text(str(folder / "cgroup.subtree_control")) or "").split()
        if "cpu" in delegated and os.access(str(folder), os.W_OK) and os.access(str(folder / "cgroup.procs"), os.W_OK):
            return CgroupPath(folder, 2)
    return None


def why_not() -> str:
    """Return the reason why no group can be created."""
    if not own_cgroups():
        return "the host shows no control groups with the CPU controller"
    return "it needs root, or a control group that is delegated to this user"
