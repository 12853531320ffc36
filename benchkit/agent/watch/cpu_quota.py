"""The CPU quota of the control groups that the host's work is in: how often it held the host back (cpu.stat).

Version 1: Documentation/scheduler/sched-bwc.rst; version 2: Documentation/admin-guide/cgroup-v2.rst, both of Linux. What
an agent starts stays in its group, and every group above may have a quota, too.
"""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from typing import Dict, List, Optional, Tuple

from benchkit.agent.common import read_text
from benchkit.agent.watch.collector import Collector, KernelFile, UnseenError, Values

CONTROLLER = "cpu"
UNITS = {b"throttled_time": 1e-9, b"throttled_usec": 1e-6}
"""What the versions call the time waited, and in which unit they state it."""
COUNTS = {b"nr_periods": "cgroup_periods_total", b"nr_throttled": "cgroup_throttled_total"}


def groups(mountinfo: str, membership: str) -> List[Path]:
    """The folders of the groups that are in force, the innermost first, from /proc/self/mountinfo and /proc/self/cgroup."""
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
    """The CPUs' worth of time that the tightest of these groups grants; None where none has a quota."""
    limits = []
    for folder in folders:
        quota, _, period = (read_text(str(folder / "cpu.max")) or "").partition(" ")
        if not period:
            quota = read_text(str(folder / "cpu.cfs_quota_us")) or ""
            period = read_text(str(folder / "cpu.cfs_period_us")) or ""
        if quota.isdigit() and period.isdigit():  # "max" and -1: none
            limits.append(int(quota) / int(period))
    return min(limits) if limits else None


def own_groups() -> List[Path]:
    """The groups that are in force for the agent and what it starts."""
    return groups(read_text("/proc/self/mountinfo") or "", read_text("/proc/self/cgroup") or "")


class Quota(Collector):
    """Periods, periods cut short and time waited, of all groups in force together; without a quota they stay at 0."""

    def __init__(self) -> None:
        self._files = []
        for folder in own_groups():
            try:
                file = KernelFile(str(folder / "cpu.stat"))
            except UnseenError:  # the top of a hierarchy has none, and no quota
                continue
            if b"nr_periods" in file.read():
                self._files.append(file)
            else:
                file.close()

    def sample(self) -> Values:
        """The counters; nothing where no group can have a quota."""
        found: Values = {}
        for file in self._files:
            for line in file.read().split(b"\n"):
                word, _, value = line.partition(b" ")
                if word in COUNTS:
                    key = COUNTS[word], None
                    found[key] = found.get(key, 0) + int(value)
                elif word in UNITS:
                    waited = "cgroup_throttled_s_total", None
                    found[waited] = found.get(waited, 0) + int(value) * UNITS[word]
        return found

    def close(self) -> None:
        """Let go of the files."""
        for file in self._files:
            file.close()


def _upward(group: PurePosixPath, root: PurePosixPath) -> List[Tuple[str, ...]]:
    """The way from the mount's root to the group, and to each above it; only the root where the group is out of sight."""
    try:
        parts = group.relative_to(root).parts
    except ValueError:
        parts = ()
    if ".." in parts:
        parts = ()
    return [parts[:end] for end in range(len(parts), -1, -1)]


def _unescaped(text: str) -> str:
    """A path as mountinfo writes it: blanks and the like as octal numbers (proc(5))."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)
