"""Accounting by control group: CPU time, throttling, memory and processes of a group with all groups below it.

No process escapes this count: processes stay in their group whatever they do, and their CPU time counts even if no
parent waits for them. Version 1: cgroup-v1/cpuacct.rst and memory.rst of Linux; version 2: admin-guide/cgroup-v2.rst.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path, PurePosixPath
from typing import Callable, Dict, List, NamedTuple, Optional, Tuple

from benchkit.agent.collector import KernelFile, UnavailableError, number_after
from benchkit.agent.common import parse_mounts, read_bytes, read_text

UNIFIED = ""
"""Key of version 2 beside the controllers of version 1: /proc/PID/cgroup names no controller there."""
CONTROLLERS = ("cpu", "cpuacct")
"""Controllers of version 1 that are read."""

EMPTY_LINKS = 2
"""Hard links of a folder without subfolders."""

NANOSECOND, MICROSECOND = 1e-9, 1e-6


class CgroupMount(NamedTuple):
    """A mounted tree of groups: the mount point, and the group that is mounted there."""

    point: Path
    root: PurePosixPath

    def folder(self, path: str) -> Path:
        """Return the folder of a group, by its path below the mount point or in /proc/PID/cgroup."""
        group = PurePosixPath("/", path)
        below = Path(self.point, *group.parts[1:])
        if not below.is_dir() and self.root in (group, *group.parents):
            return Path(self.point, *group.relative_to(self.root).parts)
        return below


def cgroup_mounts(mountinfo: str) -> Dict[str, CgroupMount]:
    """Return the mounted trees by controller, from /proc/self/mountinfo (proc(5)); the last mount of each counts."""
    found: Dict[str, CgroupMount] = {}
    for mount in parse_mounts(mountinfo):
        names = {"cgroup2": [UNIFIED], "cgroup": [name for name in CONTROLLERS if name in mount.options]}
        found.update((name, CgroupMount(mount.point, mount.root)) for name in names.get(mount.kind, ()))
    return found


def own_mounts() -> Dict[str, CgroupMount]:
    """Return the trees that are mounted on this host, by controller."""
    return cgroup_mounts(read_text("/proc/self/mountinfo") or "")


class CpuSplit(NamedTuple):
    """CPU time in seconds; `user_s` and `system_s` add up to the whole."""

    user_s: float
    system_s: float

    @property
    def total_s(self) -> float:
        """User and system time."""
        return self.user_s + self.system_s


class CpuSplitter:
    """Divides an exact CPU time in the ratio of user to system time, which most kernels only sample at ticks.

    Both parts only grow, as in the kernel (cputime_adjust in kernel/sched/cputime.c).
    """

    def __init__(self) -> None:
        self._last = CpuSplit(0.0, 0.0)

    def split(self, total_s: float, user: float, system: float) -> CpuSplit:
        """Split `total_s` in the ratio `user` : `system` (any unit). A total below the last one counts as the last."""
        last, total_s = self._last, max(total_s, self._last.total_s)
        system_s = total_s * system / (user + system) if user + system > 0 else 0.0
        system_s = min(max(system_s, last.system_s), total_s - last.user_s)
        self._last = CpuSplit(max(total_s - system_s, last.user_s), system_s)  # rounding must not make `user_s` shrink
        return self._last


class Cgroup:
    """A group and all groups below it. It may not exist yet; its last CPU time is kept after its removal."""

    def __init__(self, path: str, folders: Dict[str, Path], quota: Optional[Path] = None) -> None:
        """Take the group's `path`, its folders by controller, and the folder of the group whose `quota` applies."""
        self.path = path
        self._folders = folders
        self._quota = quota
        self._splitter = CpuSplitter()
        self._readers: Optional[Tuple[Callable[[], Tuple[float, float, float]], List[KernelFile]]] = None
        self._is_over = False
        self._folder: Optional[Path] = None
        self._last: Optional[CpuSplit] = None

    @classmethod
    def at(cls, path: str) -> Cgroup:
        """Return the group at a path below the mount points, or as /proc/PID/cgroup has it: `/system.slice/x.service`.

        Raises UnavailableError where the host shows no groups at all.
        """
        mounts = own_mounts()
        if not mounts:
            raise UnavailableError(f"control group {path}: this host shows no control groups")
        return cls(path, {name: mount.folder(path) for name, mount in mounts.items()})

    @property
    def folder(self) -> Path:
        """The folder that lists its processes: the group of CPU time of version 1, else of version 2."""
        if self._folder is None:
            candidates = [self._folders[name] for name in ("cpuacct", UNIFIED, *CONTROLLERS) if name in self._folders]
            self._folder = next((each for each in candidates if each.is_dir()), None)
            return self._folder or candidates[0]
        return self._folder

    def pids(self) -> List[int]:
        """Return its processes, of groups below it too; none where it does not exist."""
        return [] if self._is_over else pids_below(self.folder)

    def cpu(self) -> Optional[CpuSplit]:
        """Return the CPU time since the group was created; None where it never existed.

        The kernel adds the time of a running thread at its ticks, as for the clock of a process.
        """
        with contextlib.suppress(UnavailableError, OSError):  # it does not exist yet, or not any more
            if not self._is_over:
                self._readers = self._readers or self._open()
                self._last = self._splitter.split(*self._readers[0]())
        return self._last

    def throttling(self) -> Optional[Tuple[int, int, float]]:
        """Return periods, throttled periods, and throttled seconds of its CPU quota; None without a quota."""
        candidates = [self._folders[name] for name in ("cpu", UNIFIED) if name in self._folders]
        for folder in [self._quota] if self._quota else candidates:
            found = throttling_in(read_bytes(str(folder / "cpu.stat")) or b"")
            if found is not None and found[0]:
                return found
        return None

    def end(self) -> None:
        """Read the CPU time once more and close the files, because the group is about to be removed."""
        self.cpu()
        self._is_over = True
        for file in self._readers[1] if self._readers else ():
            file.close()
        self._readers = None

    def _open(self) -> Tuple[Callable[[], Tuple[float, float, float]], List[KernelFile]]:
        accounting = self._folders.get("cpuacct")
        if accounting is not None and accounting.is_dir():
            total = KernelFile(str(accounting / "cpuacct.usage"))
            parts = [KernelFile(str(accounting / f"cpuacct.usage_{name}")) for name in ("user", "sys")]
            return lambda: _nanoseconds(total, parts), [total, *parts]
        stat = KernelFile(str(self._folders.get(UNIFIED, self.folder) / "cpu.stat"))
        return lambda: _microseconds(stat), [stat]


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
    found = [int(pid) for pid in (read_bytes(f"{folder}/cgroup.procs") or b"").split() if pid != b"0"]
    try:
        if os.stat(str(folder)).st_nlink > EMPTY_LINKS:  # noqa: PTH116 - at each sample
            with os.scandir(str(folder)) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        found += pids_below(Path(entry.path))
    except OSError:  # it was removed
        pass
    return sorted(found)


def _nanoseconds(total: KernelFile, parts: List[KernelFile]) -> Tuple[float, float, float]:
    user, system = (int(file.read()) * NANOSECOND for file in parts)
    return int(total.read()) * NANOSECOND, user, system


def _microseconds(stat: KernelFile) -> Tuple[float, float, float]:
    content = b"\n" + stat.read()
    words = (b"usage_usec ", b"user_usec ", b"system_usec ")
    total, user, system = ((number_after(content, word) or 0) * MICROSECOND for word in words)
    return total, user, system
