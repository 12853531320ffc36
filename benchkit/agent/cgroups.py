"""Control groups: those in force for the agent, and those with a CPU quota that it creates for its processes.

Version 1 (Documentation/scheduler/sched-bwc.rst of Linux): below the agent's own group, whose limits then apply too.
Version 2 (admin-guide/cgroup-v2.rst) forbids children of a group that has processes; there they are created in the
uppermost group that delegates the CPU controller.
"""

from __future__ import annotations

import os
import re
import threading
import time
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Dict, List, NamedTuple, Optional, Tuple

from benchkit.agent.common import OperationError, poll_until, read_text
from benchkit.agent.frames import JsonObject
from benchkit.agent.operations import CommandSpec, CreateCgroup
from benchkit.agent.records import Records

CONTROLLER = "cpu"

PERIOD_US = 10_000
"""Period of the quota: short compared with a trial, and ten times the kernel's smallest quota."""
SMALLEST_US = 1000
"""Smallest quota that the kernel accepts (sched-bwc.rst)."""

ENTER = 'echo $$ > "$0/cgroup.procs" && exec "$@"'
"""Shell command that enters a group and becomes the program, so that all of its children are in the group."""

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}\Z")


def group_folders(mountinfo: str, membership: str) -> List[Path]:
    """Return the folders of the groups in force, innermost first, from /proc/self/mountinfo and /proc/self/cgroup."""
    own: Dict[str, str] = {}
    for line in membership.splitlines():
        _, controllers, path = line.split(":", 2)
        own.update((name, path) for name in controllers.split(","))
    found: List[Path] = []
    for line in mountinfo.splitlines():
        before, _, rest = line.partition(" - ")
        root, point = (_unescaped(text) for text in before.split()[3:5])
        kind, _, options = rest.split()[:3]
        name = {"cgroup2": "", "cgroup": CONTROLLER}.get(kind)
        if name is None or (name and name not in options.split(",")) or name not in own:
            continue
        found += [Path(point, *parts) for parts in _upward(PurePosixPath(own[name]), PurePosixPath(root))]
    return list(dict.fromkeys(found))


def cpu_quota(folders: List[Path]) -> Optional[float]:
    """Return the smallest CPU quota of these groups, in CPUs; None where none has a quota."""
    limits = []
    for folder in folders:
        quota, _, period = (read_text(str(folder / "cpu.max")) or "").partition(" ")
        if not period:
            quota = read_text(str(folder / "cpu.cfs_quota_us")) or ""
            period = read_text(str(folder / "cpu.cfs_period_us")) or ""
        if quota.isdigit() and period.isdigit():  # "max" and -1: none
            limits.append(int(quota) / int(period))
    return min(limits) if limits else None


def own_cgroups() -> List[Path]:
    """Return the folders of the groups in force for the agent and its processes."""
    return group_folders(read_text("/proc/self/mountinfo") or "", read_text("/proc/self/cgroup") or "")


def _upward(group: PurePosixPath, root: PurePosixPath) -> List[Tuple[str, ...]]:
    """Return the paths from the mount's root to the group and its parents; only the root where the group is outside."""
    try:
        parts = group.relative_to(root).parts
    except ValueError:
        parts = ()
    if ".." in parts:
        parts = ()
    return [parts[:end] for end in range(len(parts), -1, -1)]


def _unescaped(text: str) -> str:
    """Decode a path of mountinfo, which has blanks and the like as octal numbers (proc(5))."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)


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

    def create(self, wanted: CreateCgroup) -> str:
        """Create a group with a CPU quota, or change its quota; return its folder.

        Raises OperationError where groups are not available, or where the quota is below the kernel's smallest.
        """
        name, quota_us = wanted.name, round(wanted.cpus * PERIOD_US)
        if not _NAME.match(name) or quota_us < SMALLEST_US:
            raise OperationError("bad-request", f"a group {name!r} of {wanted.cpus:g} CPUs")
        parent = writable_parent()
        if parent is None:
            raise OperationError("denied", "no control group with a CPU quota can be created", why_not())
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
        return str(folder)

    def wrap(self, command: CommandSpec) -> CommandSpec:
        """Return a command that runs in the group that it names."""
        if command.group is None:
            return command
        if command.group not in self._created:
            raise OperationError("not-found", f"no group {command.group!r} was created by this agent")
        return replace(command, argv=["/bin/sh", "-c", ENTER, str(self._created[command.group]), *command.argv])


def remove_cgroup(record: JsonObject) -> List[str]:
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
