"""Throttling by the CPU quota of the agent's control groups (cpu.stat).

Version 1: Documentation/scheduler/sched-bwc.rst; version 2: Documentation/admin-guide/cgroup-v2.rst, both of Linux.
Processes started by the agent stay in its group, and every group above it may have a quota too.
"""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from typing import Dict, List, Optional, Tuple

from benchkit.agent.common import read_text
from benchkit.agent.watch.collector import Collector, KernelFile, UnavailableError, Values

CONTROLLER = "cpu"
UNITS = {b"throttled_time": 1e-9, b"throttled_usec": 1e-6}
"""Field with the throttled time in either version, and its unit in seconds."""
COUNTS = {b"nr_periods": "cgroup_periods_total", b"nr_throttled": "cgroup_throttled_total"}


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


class CpuThrottling(Collector):
    """Periods, throttled periods and throttled time, summed over all groups in force; 0 without a quota."""

    def __init__(self) -> None:
        self._files = []
        for folder in own_cgroups():
            try:
                file = KernelFile(str(folder / "cpu.stat"))
            except UnavailableError:  # the root of a hierarchy has no file and no quota
                continue
            if b"nr_periods" in file.read():
                self._files.append(file)
            else:
                file.close()

    def sample(self) -> Values:
        """Return the counters; nothing where no group can have a quota."""
        found: Values = {}
        for file in self._files:
            for line in file.read().split(b"\n"):
                word, _, value = line.partition(b" ")
                if word in COUNTS:
                    key = COUNTS[word], None
                    found[key] = found.get(key, 0) + int(value)
                elif word in UNITS:
                    throttled = "cgroup_throttled_s_total", None
                    found[throttled] = found.get(throttled, 0) + int(value) * UNITS[word]
        return found

    def close(self) -> None:
        """Close the files."""
        for file in self._files:
            file.close()


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
