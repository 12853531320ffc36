"""A control group for each host of a lab, so that it can have a CPU quota and start containers.

In version 1 it is below benchkit's own group, so that benchkit's limits apply to its labs too. Version 2 forbids child
groups of a group with processes. There it is at the top, if the machine has enabled the CPU controller. Where
neither is possible, the lab has no groups, which is one of its limits and not an error.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from benchkit.agent.cgroups import memberships, remove_folders
from benchkit.agent.common import parse_mounts
from benchkit.errors import HostError

CONTROLLERS = ("cpu", "cpuacct", "cpuset", "memory", "devices", "freezer", "pids")
"""Controllers of version 1 that a host has: for quotas, and what runc needs to start a container."""
_CPUSET = ("cpuset.cpus", "cpuset.mems")
"""Files that are empty in a new group of version 1, which then admits no process (cgroup-v1/cpusets.rst)."""


@dataclass(frozen=True)
class Hierarchy:
    """A tree of control groups: the parent of a lab's group, and the name of the tree in /sys/fs/cgroup."""

    parent: Path
    name: str
    version: int


def hierarchies(mountinfo: str, membership: str) -> list[Hierarchy]:
    """Return the trees with a CPU controller, from the text of /proc/self/mountinfo and /proc/self/cgroup (proc(5))."""
    own, trees = memberships(membership), []
    for mount in parse_mounts(mountinfo):
        if mount.kind == "cgroup2":
            trees.append(Hierarchy(mount.point, "", 2))
        elif mount.kind == "cgroup" and (controllers_here := set(CONTROLLERS) & set(mount.options)):
            group = PurePosixPath(own.get(min(controllers_here), "/"))
            if group.is_relative_to(mount.root):
                trees.append(Hierarchy(mount.point / group.relative_to(mount.root), mount.point.name, 1))
    return trees


def usable_hierarchies() -> list[Hierarchy]:
    """Return the trees of this machine in which this process may create groups with a CPU quota."""
    process = Path("/proc/self")
    trees = hierarchies((process / "mountinfo").read_text(), (process / "cgroup").read_text())
    return [tree for tree in trees if os.access(tree.parent, os.W_OK) and _enables_cpu(tree)]


def lab_folders(trees: Iterable[Hierarchy], key: str) -> list[Path]:
    """Return the group of a whole lab in each tree."""
    return [tree.parent / f"benchkit-{key}" for tree in trees]


def create(trees: Sequence[Hierarchy], key: str, host: str) -> list[dict[str, str]]:
    """Create the groups of one host; return each path with the name of its tree in /sys/fs/cgroup."""
    groups = []
    for tree, lab in zip(trees, lab_folders(trees, key), strict=True):
        lab.mkdir(exist_ok=True)
        if tree.version == 2:  # noqa: PLR2004 - the version of the interface
            (lab / "cgroup.subtree_control").write_text("+cpu")
        (lab / host).mkdir()
        for group in (lab, lab / host):
            _inherit_cpuset(group)
        groups.append({"source": str(lab / host), "name": tree.name})
    return groups


def _inherit_cpuset(group: Path) -> None:
    for name in _CPUSET:
        parent = group.parent / name
        if parent.is_file() and not (group / name).read_text().strip():
            (group / name).write_text(parent.read_text())


def remove(folders: Iterable[Path]) -> None:
    """Remove groups of labs with all groups below; their processes must have ended. Raises HostError."""
    if failures := [failure for folder in folders for failure in remove_folders(folder)]:
        raise HostError("control groups of a lab remain", why="; ".join(failures))


def _enables_cpu(tree: Hierarchy) -> bool:
    control = tree.parent / "cgroup.subtree_control"
    return tree.version == 1 or (control.is_file() and "cpu" in control.read_text().split())
