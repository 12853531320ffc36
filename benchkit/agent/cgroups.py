"""The control groups that limit the agent, and groups that it creates: with a CPU quota, or to count one service.

Version 1 (Documentation/scheduler/sched-bwc.rst of Linux): below the agent's own group, whose limits then apply too.
Version 2 (admin-guide/cgroup-v2.rst) forbids children of a group that has processes; there they are created in the
uppermost group that delegates the CPU controller.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import threading
import time
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Dict, List, Optional, Tuple

from benchkit.agent.cgroup_accounting import UNIFIED, Cgroup, cgroup_mounts, own_mounts, pids_below
from benchkit.agent.common import OperationError, poll_until, read_text
from benchkit.agent.frames import JsonObject
from benchkit.agent.operations import ProcessSpec, operation
from benchkit.agent.proc import ProcStat, end_processes, proc_stat, recorded_stop
from benchkit.agent.records import Records

PERIOD_US = 10_000
"""Period of the quota: short compared with a trial, and ten times the kernel's smallest quota."""
SMALLEST_US = 1000
"""Smallest quota that the kernel accepts (sched-bwc.rst)."""

ENTER = 'until [ "$1" = -- ]; do echo $$ > "$1/cgroup.procs" || exit 126; shift; done; shift; exec "$@"'
"""Shell command that enters groups and becomes the program, so that all of its children are in the groups."""

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}\Z")


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
            found += [Path(mount.point, *parts) for parts in _upward(PurePosixPath(own[name]), mount.root)]
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


class Cgroups:
    """The groups that this agent created: with a quota, by name, and for single processes."""

    REMOVE_S = 3.0

    def __init__(self, records: Records) -> None:
        self._records = records
        self._lock = threading.Lock()
        self._created: Dict[str, Path] = {}
        self._own: Dict[str, Path] = {}
        """Records of the groups of `create_own`, by folder."""

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

    def create_own(self, number: int, command: ProcessSpec) -> Optional[Cgroup]:
        """Create a group for one process that the agent is about to start; None where this host allows none.

        It has no quota of its own: the quota of the command's `group` applies to it. `release` removes it, or
        the end of the agent.
        """
        quota = None if command.group is None else self._created.get(command.group)
        parent = _accounting_parent(quota)
        if parent is None:
            return None
        folder = parent / f"benchkit-{os.getppid()}-{os.getpid()}-s.{number}"
        stop = {"stop_signum": int(command.stop.signum), "stop_grace_s": command.stop.within_s}
        # Not synced: a power cut removes the group too.
        record = self._records.note("group", {"path": str(folder), **stop}, synced=False)
        try:
            folder.mkdir()
        except OSError:  # a limit of groups, or a security module
            self._records.drop(record, synced=False)
            return None
        self._own[str(folder)] = record
        controllers = ("cpuacct", "cpu") if (folder / "cpuacct.usage").is_file() else (UNIFIED,)
        return Cgroup(str(folder), dict.fromkeys(controllers, folder), quota)

    def release(self, group: Cgroup) -> None:
        """Remove a group of `create_own` whose processes have ended, if it exists; the record stays after a failure."""
        record = self._own.pop(group.path, None)
        if record is not None:
            group.end()
            if not remove_folders(Path(group.path)):
                self._records.drop(record, synced=False)

    def wrap(self, command: ProcessSpec, own: Optional[Cgroup], folder: Path) -> ProcessSpec:
        """Return a command that first enters the group that it names, and its own group.

        `folder`: its working directory. Raises OperationError where there is no such group or no such program.
        """
        if command.group is not None and command.group not in self._created:
            raise OperationError("not-found", f"no group {command.group!r} was created by this agent")
        quota = None if command.group is None else self._created[command.group]
        entered = [] if own is None else [Path(own.path)]
        if quota is not None and quota not in [each.parent for each in entered]:
            entered.append(quota)
        if not entered:
            return command
        _require_program(command, folder)
        return replace(command, argv=["/bin/sh", "-c", ENTER, "sh", *map(str, entered), "--", *command.argv])


def remove_cgroup(record: JsonObject) -> List[str]:
    """End the processes left in a recorded group, and remove it with all groups below it; return failures."""
    folder = Path(record["path"])
    if not folder.name.startswith("benchkit-"):
        return [f"{folder} is not a control group of benchkit"]
    stop = recorded_stop(record)

    def running() -> List[ProcStat]:
        return [each for each in map(proc_stat, pids_below(folder)) if each is not None and each.state not in "ZX"]

    return end_processes(running, stop.within_s, signum_of=lambda _: stop.signum) or remove_folders(folder)


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


def _accounting_parent(quota: Optional[Path]) -> Optional[Path]:
    """Return the folder for a new group without a quota; it is `quota` where that group's tree counts CPU time too.

    Version 1: the agent's own group of cpuacct. Version 2 counts CPU time in every group, without a controller.
    """
    mounts, own = own_mounts(), memberships(read_text("/proc/self/cgroup") or "")
    name = next((each for each in ("cpuacct", UNIFIED) if each in mounts and each in own), None)
    if name is None:
        return None
    folder = mounts[name].folder(own[name])
    if quota is not None and (quota / ("cpuacct.usage" if name else "cgroup.controllers")).is_file():
        folder = quota
    procs = str(folder / "cgroup.procs")
    return folder if os.access(str(folder), os.W_OK) and os.access(procs, os.W_OK) else None


def _require_program(command: ProcessSpec, folder: Path) -> None:
    """Raise OperationError where the program of a command cannot be started, as a start without a shell would."""
    program = command.argv[0]
    path: Optional[str] = str(folder / program)
    if "/" not in program:
        path = shutil.which(program, path=command.env.get("PATH") or os.environ.get("PATH", os.defpath))
    if path is None or not os.path.exists(path):  # noqa: PTH110 - as text
        raise OperationError("not-found", f"cannot start {program}", os.strerror(errno.ENOENT))
    if not Path(path).is_file() or not os.access(path, os.X_OK):
        raise OperationError("denied", f"cannot start {program}", os.strerror(errno.EACCES))


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
