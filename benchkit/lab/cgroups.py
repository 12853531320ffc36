"""A control group for each host of a lab, so that a CPU quota can be put on it.

Version 1: below the group that benchkit itself is in, so that a limit around benchkit holds for its lab too. Version
2 forbids that for a group with processes in it; there the group stands at the top, where the machine has already
handed the CPU controller down. A machine with neither gets none, which is a limit and no failure.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from benchkit.errors import HostError
from benchkit.lab.inside.mounts import unescape

CONTROLLERS = ("cpu", "cpuacct")
_REMOVE_DEADLINE_S = 5.0
_POLL_S = 0.005


@dataclass(frozen=True)
class Hierarchy:
    """A tree of control groups: the group to put a lab's below, and the name the tree goes by in /sys/fs/cgroup."""

    parent: Path
    name: str
    version: int


def hierarchies(mountinfo: str, membership: str) -> list[Hierarchy]:
    """Where CPU groups could be made, from the texts of /proc/self/mountinfo and /proc/self/cgroup (proc(5))."""
    own = {}
    for line in membership.splitlines():
        _, controllers, path = line.split(":", 2)
        own.update(dict.fromkeys(controllers.split(","), path))
    found = []
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        root, point = (unescape(text) for text in before.split()[3:5])
        kind, _, options = after.split()[:3]
        if kind == "cgroup2":
            found.append(Hierarchy(Path(point), "", 2))
        elif kind == "cgroup" and (here := set(CONTROLLERS) & set(options.split(","))):
            group = PurePosixPath(own.get(min(here), "/"))
            if group.is_relative_to(root):
                found.append(Hierarchy(Path(point) / group.relative_to(root), Path(point).name, 1))
    return found


def usable_hierarchies() -> list[Hierarchy]:
    """Those of this machine in which this process may make groups with a CPU quota."""
    process = Path("/proc/self")
    all_of_them = hierarchies((process / "mountinfo").read_text(), (process / "cgroup").read_text())
    return [tree for tree in all_of_them if os.access(tree.parent, os.W_OK) and _hands_down_cpu(tree)]


def lab_folders(trees: Iterable[Hierarchy], key: str) -> list[Path]:
    """The group of a whole lab in each tree."""
    return [tree.parent / f"benchkit-{key}" for tree in trees]


def make(trees: Sequence[Hierarchy], key: str, host: str) -> list[dict[str, str]]:
    """The groups of one host: where each is, and its name in /sys/fs/cgroup."""
    made = []
    for tree, lab in zip(trees, lab_folders(trees, key), strict=True):
        lab.mkdir(exist_ok=True)
        if tree.version == 2:  # noqa: PLR2004 - the version of the interface
            (lab / "cgroup.subtree_control").write_text("+cpu")
        (lab / host).mkdir()
        made.append({"source": str(lab / host), "name": tree.name})
    return made


def remove(folders: Iterable[Path]) -> None:
    """Remove groups of labs with all below; their processes have ended, the kernel may need a moment to notice."""
    for lab in folders:
        if lab.is_dir():
            for folder, _, _ in sorted(os.walk(lab), reverse=True):
                _remove_one(Path(folder))


def _remove_one(group: Path) -> None:
    deadline = time.monotonic() + _REMOVE_DEADLINE_S
    while True:
        try:
            group.rmdir()
        except FileNotFoundError:
            return
        except OSError as error:
            if time.monotonic() > deadline:
                raise HostError("cannot remove a control group", where=str(group), why=error.strerror) from None
            time.sleep(_POLL_S)
        else:
            return


def _hands_down_cpu(tree: Hierarchy) -> bool:
    control = tree.parent / "cgroup.subtree_control"
    return tree.version == 1 or (control.is_file() and "cpu" in control.read_text().split())
