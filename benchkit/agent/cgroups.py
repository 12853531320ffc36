"""Control groups of the agent's own, which hold what is started in them to a share of the CPUs.

Version 1 (Documentation/scheduler/sched-bwc.rst of Linux): below the group that the agent itself is in, so that limits
around it hold too. Version 2 (admin-guide/cgroup-v2.rst) forbids that for a group with processes in it; there they stand
at the top, where the host hands the CPU controller down.
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
from benchkit.agent.watch.cpu_quota import own_groups

PERIOD_US = 10_000
"""Time slices are handed out this often: short against what a trial measures, and ten of the kernel's smallest quotas."""
SMALLEST_US = 1000
"""The least quota that the kernel takes (sched-bwc.rst)."""

ENTER = 'echo $$ > "$0/cgroup.procs" && exec "$@"'
"""What a shell does to be in a group before it becomes the program: its children are in it from the first."""

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}\Z")


class CgroupPath(NamedTuple):
    """Where groups can be made."""

    folder: Path
    version: int


class Groups:
    """Groups that this agent made, by name; they go with the agent."""

    REMOVE_S = 3.0

    def __init__(self, records: Records) -> None:
        self._records = records
        self._lock = threading.Lock()
        self._made: Dict[str, Path] = {}

    def make(self, *, name: str, cpus: float) -> Json:
        """Make a group whose processes get so many CPUs' worth of time together; again: set it anew.

        Refused where there can be none, or where the share is below the kernel's smallest.
        """
        quota_us = round(cpus * PERIOD_US)
        if not _NAME.match(name) or quota_us < SMALLEST_US:
            raise RefusedError("bad-request", f"a group {name!r} of {cpus:g} CPUs")
        place = where()
        if place is None:
            raise RefusedError("denied", "no control group with a CPU quota can be made", why_not())
        folder = place.folder / f"benchkit-{os.getppid()}-{os.getpid()}-{name}"
        with self._lock:
            if not folder.is_dir():  # never made, or put back since
                self._records.note("group", {"path": str(folder)})
                folder.mkdir()
            self._made[name] = folder
        if place.version == 1:
            (folder / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            (folder / "cpu.cfs_quota_us").write_text(str(quota_us))
        else:
            (folder / "cpu.max").write_text(f"{quota_us} {PERIOD_US}")
        return {"path": str(folder)}

    def entering(self, command: Command) -> Command:
        """The same command within the group that it names."""
        if command.group is None:
            return command
        if command.group not in self._made:
            raise RefusedError("not-found", f"no group {command.group!r} was made here")
        return command._replace(argv=["/bin/sh", "-c", ENTER, str(self._made[command.group]), *command.argv])


def remove(record: Json) -> List[str]:
    """Remove the group of a record; its processes have ended, the kernel may need a moment to notice."""
    folder = Path(record["path"])
    if not folder.name.startswith("benchkit-"):
        return [f"{folder} is no control group of benchkit's"]
    why: Optional[str] = None
    for _ in poll_until(time.monotonic() + Groups.REMOVE_S, 0.002, 0.05):
        try:
            folder.rmdir()
        except FileNotFoundError:
            return []
        except OSError as error:
            why = error.strerror
        else:
            return []
    return [f"the control group {folder} could not be removed: {why}"]


def where() -> Optional[CgroupPath]:
    """Where this user may make groups with a CPU quota; None: nowhere."""
    for folder in own_groups():
        if (folder / "cpu.shares").is_file():
            return CgroupPath(folder, 1) if os.access(str(folder), os.W_OK) else None
    for folder in reversed(own_groups()):  # version 2: from the top down, the first that hands the controller down
        handed = (read_text(str(folder / "cgroup.subtree_control")) or "").split()
        if "cpu" in handed and os.access(str(folder), os.W_OK) and os.access(str(folder / "cgroup.procs"), os.W_OK):
            return CgroupPath(folder, 2)
    return None


def why_not() -> str:
    """Why there can be none, for people."""
    if not own_groups():
        return "the host shows no control groups with the CPU controller"
    return "it takes root, or a control group that was handed to this user"
