from __future__ import annotations

import secrets
from pathlib import Path

import pytest

from benchkit.lab.cgroups import Hierarchy, create, hierarchies, lab_folders, remove, usable_hierarchies

VERSION_1 = """\
25 30 0:22 / /sys rw,nosuid shared:7 - sysfs sysfs rw
33 25 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct
34 25 0:30 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
"""
CONTAINER = "40 25 0:29 /docker/abc /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
VERSION_2 = "26 25 0:24 / /sys/fs/my\\040cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"


def test_in_version_1_the_parent_is_the_group_of_this_process() -> None:
    own = "5:memory:/a\n4:cpu,cpuacct:/user.slice/one\n0::/user.slice\n"
    assert hierarchies(VERSION_1, own) == [
        Hierarchy(Path("/sys/fs/cgroup/cpu,cpuacct/user.slice/one"), "cpu,cpuacct", 1)
    ]


def test_a_container_has_a_part_of_the_tree() -> None:
    assert hierarchies(CONTAINER, "4:cpu:/docker/abc/x\n") == [Hierarchy(Path("/sys/fs/cgroup/cpu/x"), "cpu", 1)]
    assert hierarchies(CONTAINER, "4:cpu:/elsewhere\n") == []


def test_in_version_2_the_parent_is_the_top() -> None:
    assert hierarchies(VERSION_2, "0::/user.slice\n") == [Hierarchy(Path("/sys/fs/my cgroup"), "", 2)]


@pytest.mark.lab
def test_groups_are_created_and_removed() -> None:
    trees = usable_hierarchies()
    if not trees:
        pytest.skip("this process may make no control groups here")
    key = secrets.token_hex(4)
    groups = [Path(part["source"]) for host in ("a", "b") for part in create(trees, key, host)]
    try:
        assert all((group / "cgroup.procs").is_file() for group in groups)
    finally:
        remove(lab_folders(trees, key))
    assert not any(group.parent.exists() for group in groups)
    remove(lab_folders(trees, key))  # does nothing where there are none
