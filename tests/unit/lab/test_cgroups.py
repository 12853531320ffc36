from __future__ import annotations

from pathlib import Path

from benchkit.lab.cgroups import Hierarchy, hierarchies

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
        Hierarchy(Path("/sys/fs/cgroup/cpu,cpuacct/user.slice/one"), "cpu,cpuacct", 1),
        Hierarchy(Path("/sys/fs/cgroup/memory/a"), "memory", 1),
    ]


def test_a_container_has_a_part_of_the_tree() -> None:
    assert hierarchies(CONTAINER, "4:cpu:/docker/abc/x\n") == [Hierarchy(Path("/sys/fs/cgroup/cpu/x"), "cpu", 1)]
    assert hierarchies(CONTAINER, "4:cpu:/elsewhere\n") == []


def test_in_version_2_the_parent_is_the_top() -> None:
    assert hierarchies(VERSION_2, "0::/user.slice\n") == [Hierarchy(Path("/sys/fs/my cgroup"), "", 2)]
