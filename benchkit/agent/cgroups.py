"""Control groups: those that limit the agent, groups with a CPU quota that it creates, and groups of other programs.

Version 1 (scheduler/sched-bwc.rst and cgroup-v1/cpuacct.rst of Linux): new groups are below the agent's own, whose
limits then apply too. Version 2 (admin-guide/cgroup-v2.rst) forbids children of a group that has processes; there they
are created in the uppermost group that delegates the CPU controller.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
import time
from dataclasses import replace
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Dict, List, NamedTuple, Optional, Tuple

from benchkit.agent.common import OperationError, number_after, parse_mounts, poll_until, read_bytes, read_text
from benchkit.agent.frames import JsonObject
from benchkit.agent.operations import CpuTime, ProcessSpec, operation
from benchkit.agent.proc import ProcStat, end_processes, proc_stat
from benchkit.agent.records import Records

UNIFIED = ""
"""Key of version 2 beside the controllers of version 1: /proc/PID/cgroup names no controller there."""
CONTROLLERS = ("cpu", "cpuacct")
"""Controllers of version 1 that are read."""
NANOSECOND, MICROSECOND = 1e-9, 1e-6

PERIOD_US = 10_000
"""Period of the quota: short compared with a trial, and ten times the kernel's smallest quota."""
SMALLEST_US = 1000
"""Smallest quota that the kernel accepts (sched-bwc.rst)."""

ENTER = 'echo $$ > "$1/cgroup.procs" || exit 126; shift; exec "$@"'
"""Shell command that enters a group and becomes the program, so that all of its children are in the group."""

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}\Z")


class CgroupMount(NamedTuple):
    """A mounted tree of groups: the mount point, and the group that is mounted there."""

    point: Path
    root: PurePosixPath

    def folder(self, path: str) -> Path:
        """Return the folder of a group, by its path in /proc/PID/cgroup or below the mount point."""
        group = PurePosixPath("/", path)
        if self.root in (group, *group.parents):
            return self.point / group.relative_to(self.root)
        return self.point / group.relative_to("/")


def cgroup_mounts(mountinfo: str) -> Dict[str, CgroupMount]:
    """Return the mounted trees by controller, from /proc/self/mountinfo (proc(5)); the last mount of each counts."""
    found: Dict[str, CgroupMount] = {}
    for mount in parse_mounts(mountinfo):
        names = {"cgroup2": [UNIFIED], "cgroup": [name for name in CONTROLLERS if name in mount.options]}
        found.update((name, CgroupMount(mount.point, mount.root)) for name in names.get(mount.kind, ()))
    return found


class Cgroup:
    """A group and all groups below it. It may not exist yet; its last CPU time is kept after its removal.

    No process escapes this count: processes stay in their group whatever they do, and their CPU time counts even if no
    parent waits for them.
    """

    def __init__(self, path: str, folders: Dict[str, Path]) -> None:
        """Take the group's `path`, and its folders by controller."""
        self.path = path
        self._folders = folders
        self._last: Optional[CpuTime] = None

    @classmethod
    def at(cls, path: str) -> Cgroup:
        """Return the group at a path below the mount points, or as /proc/PID/cgroup has it: `/system.slice/x.service`.

        Raises OperationError where the host shows no groups at all.
        """
        mounts = cgroup_mounts(read_text("/proc/self/mountinfo") or "")
        if not mounts:
            raise OperationError("not-found", f"control group {path}: this host shows no control groups")
        return cls(path, {name: mount.folder(path) for name, mount in mounts.items()})

    def pids(self) -> List[int]:
        """Return its processes, of groups below it too; none where it does not exist."""
        folders = [self._folders[name] for name in ("cpuacct", UNIFIED, "cpu") if name in self._folders]
        return pids_below(next((each for each in folders if each.is_dir()), folders[0]))

    def cpu(self) -> Optional[CpuTime]:
        """Return the CPU time since the group was created; None where it never existed.

        The kernel adds the time of a running thread at its ticks, as for the clock of a process.
        """
        accounting = self._folders.get("cpuacct")
        if accounting is not None and accounting.is_dir():
            texts = [read_text(str(accounting / name)) for name in ("cpuacct.usage", "cpuacct.usage_user")]
            numbers, unit = [None if text is None else int(text) for text in texts], NANOSECOND
        else:
            stat = b"\n" + (read_bytes(f"{self._folders.get(UNIFIED)}/cpu.stat") or b"")
            numbers, unit = [number_after(stat, word) for word in (b"usage_usec ", b"user_usec ")], MICROSECOND
        total, user = numbers
        if total is not None and user is not None:
            self._last = CpuTime(total * unit, user * unit)
        return self._last

    def throttling(self) -> Optional[Tuple[int, int, float]]:
        """Return periods, throttled periods, and throttled seconds of its CPU quota; None without a quota."""
        for folder in (self._folders[name] for name in ("cpu", UNIFIED) if name in self._folders):
            found = throttling_in(read_bytes(str(folder / "cpu.stat")) or b"")
            if found is not None and found[0]:
                return found
        return None


def throttling_in(content: bytes) -> Optional[Tuple[int, int, float]]:
    """Return periods, throttled periods, and throttled seconds of a file cpu.stat; None where it has none."""
    content = b"\n" + content
    periods, throttled = (number_after(content, word) for word in (b"nr_periods ", b"nr_throttled "))
    if periods is None or throttled is None:
        return None
    nanoseconds, microseconds = (number_after(content, b"throttled_" + unit) for unit in (b"time ", b"usec "))
    return periods, throttled, (nanoseconds or 0) * NANOSECOND + (microseconds or 0) * MICROSECOND


def pids_below(folder: Path) -> List[int]:
    """Return the processes of the group in a folder, and of groups below it, without other namespaces' processes."""
    contents = [read_bytes(f"{each}/cgroup.procs") or b"" for each, _, _ in os.walk(str(folder))]
    return sorted(int(pid) for content in contents for pid in content.split() if pid != b"0")


def memberships(text: str) -> Dict[str, str]:
    """Return the group of a process by controller, "" for version 2, from /proc/PID/cgroup."""
    own: Dict[str, str] = {}
    for line in text.splitlines():
        _, controllers, path = line.split(":", 2)
        own.update((name, path) for name in controllers.split(","))
    return own


def group_folders(mountinfo: str, membership: str) -> List[Path]:
    """Return the folders of the groups in force, innermost first, from /proc/self/mountinfo and /proc/self/cgroup."""
    own, found = memberships(membership), []
    for name, mount in cgroup_mounts(mountinfo).items():
        if name in ("cpu", UNIFIED) and name in own:
            group = PurePosixPath(own[name])
            is_visible = mount.root in (group, *group.parents) and ".." not in group.parts
            folder = mount.folder(own[name]) if is_visible else mount.point
            found += [each for each in (folder, *folder.parents) if mount.point in (each, *each.parents)]
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


@lru_cache(maxsize=None)
def own_cgroups() -> List[Path]:
    """Return the folders of the groups in force for the agent and its processes."""
    return group_folders(read_text("/proc/self/mountinfo") or "", read_text("/proc/self/cgroup") or "")


class Cgroups:
    """The groups with a quota that this agent created, by name."""

    REMOVE_S = 3.0

    def __init__(self, records: Records) -> None:
        self._records = records
        self._lock = threading.Lock()
        self._created: Dict[str, Path] = {}

    @operation()
    def create(self, name: str, cpus: float) -> str:
        """Create a group whose processes share a quota of `cpus` CPUs, or change its quota; return its folder.

        It is removed when the agent ends, or by `Undo.restore`.

        Raises OperationError where groups are not available, or where the quota is below the kernel's smallest.
        """
        quota_us = round(cpus * PERIOD_US)
        if not _NAME.match(name) or quota_us < SMALLEST_US:
            raise OperationError("bad-request", f"a group {name!r} of {cpus:g} CPUs")
        parent = writable_parent()
        if parent is None:
            why = "it needs the CPU controller, and root or a group that is delegated to this user"
            raise OperationError("denied", "no control group with a CPU quota can be created", why)
        folder = parent / f"benchkit-{os.getppid()}-{os.getpid()}-{name}"
        with self._lock:
            if not folder.is_dir():  # it was never created, or was removed since
                self._records.note("group", {"path": str(folder)})
                folder.mkdir()
            self._created[name] = folder
        if (folder / "cpu.cfs_period_us").exists():  # version 1
            (folder / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            (folder / "cpu.cfs_quota_us").write_text(str(quota_us))
        else:
            (folder / "cpu.max").write_text(f"{quota_us} {PERIOD_US}")
        return str(folder)

    def named(self, name: Optional[str]) -> Optional[Cgroup]:
        """Return a group of `create`. Raises OperationError where there is none of this name."""
        if name is None:
            return None
        if name not in self._created:
            raise OperationError("not-found", f"no group {name!r} was created by this agent")
        folder = self._created[name]
        return Cgroup(str(folder), {"cpu" if (folder / "cpu.shares").exists() else UNIFIED: folder})


def entering(command: ProcessSpec, group: Cgroup) -> ProcessSpec:
    """Return a command that first enters a group of `Cgroups.create`."""
    return replace(command, argv=["/bin/sh", "-c", ENTER, "sh", group.path, *command.argv])


def remove_cgroup(record: JsonObject) -> List[str]:
    """End the processes left in a recorded group, and remove it with all groups below it; return failures."""
    folder = Path(record["path"])
    if not folder.name.startswith("benchkit-"):
        return [f"{folder} is not a control group of benchkit"]

    def running() -> List[ProcStat]:
        return [each for each in map(proc_stat, pids_below(folder)) if each is not None and each.state not in "ZX"]

    return end_processes(running) or remove_folders(folder)


def remove_folders(folder: Path) -> List[str]:
    """Remove a group with all below it, retrying while the kernel clears ended processes; return failures."""
    why: Optional[str] = None
    for _ in poll_until(time.monotonic() + Cgroups.REMOVE_S, 0.002, 0.05):
        try:
            for each, _, _ in os.walk(str(folder), topdown=False):
                with contextlib.suppress(FileNotFoundError):  # the container engine has just removed it
                    Path(each).rmdir()
            folder.rmdir()
        except FileNotFoundError:
            return []
        except OSError as error:
            why = error.strerror
    return [f"the control group {folder} could not be removed: {why}"]


def writable_parent() -> Optional[Path]:
    """Return the folder in which this user may create groups with a CPU quota; None where there is none."""
    for folder in own_cgroups():
        if (folder / "cpu.shares").is_file():
            return folder if os.access(str(folder), os.W_OK) else None
    for folder in reversed(own_cgroups()):  # version 2: the uppermost that delegates the controller
        delegated = (read_text(str(folder / "cgroup.subtree_control")) or "").split()
        if "cpu" in delegated and os.access(str(folder), os.W_OK) and os.access(str(folder / "cgroup.procs"), os.W_OK):
            return folder
    return None
