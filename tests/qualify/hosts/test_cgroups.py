"""Control groups with a CPU quota on a lab host: their effect, and their removal however the agent ends."""

from __future__ import annotations

import time

import pytest

from benchkit.agent.cgroups import Cgroups
from benchkit.agent.operations import ProcessSpec
from benchkit.agent.processes import ProcessTable
from benchkit.errors import HostError
from benchkit.hosts.connections import connect
from benchkit.hosts.host import Host
from benchkit.hosts.inventory import Inventory
from tests.support.waiting import wait_until

FOLDERS = ("sh", "-c", "ls -d /sys/fs/cgroup/cpu/benchkit-* /sys/fs/cgroup/benchkit-* 2>/dev/null || true")
"""Command that lists the groups of agents on a lab host."""
BUSY = ("sh", "-c", "sh -c 'while :; do :; done' & while :; do :; done")
"""Command of two busy processes."""


@pytest.fixture
def quotas(sut: Host) -> Host:
    if not sut.facts.cpu_groups:
        pytest.skip("this machine has no control groups with the CPU controller to spare")
    return sut


def groups_on(host: Host) -> list[str]:
    return host.processes.run(FOLDERS).stdout.decode().split()


def words_of(host: Host, *files: str) -> list[str]:
    """Return the words of the files that exist."""
    return host.processes.run(("cat", *files)).stdout.decode().split()


def has_been_throttled(host: Host, folder: str) -> bool:
    found = words_of(host, f"{folder}/cpu.stat")
    return int(found[found.index("nr_throttled") + 1]) > 0


def test_a_group_limits_a_whole_process_tree_to_its_quota(quotas: Host) -> None:
    quotas.call(Cgroups.create, "sut", 0.3)
    (folder,) = groups_on(quotas)
    assert folder.endswith("-sut")
    busy = quotas.processes.start(ProcessSpec(BUSY, group="sut"))
    try:
        wait_until(lambda: len(words_of(quotas, f"{folder}/cgroup.procs")) == 2)
        wait_until(lambda: has_been_throttled(quotas, folder))
        assert busy.wait(0) is None
        files = [f"{folder}/cpu.{name}" for name in ("max", "cfs_quota_us", "cfs_period_us")]
        allowed, period = words_of(quotas, *files)  # in one file, or in two
        quotas.call(Cgroups.create, "sut", 0.2)  # a new quota for its running processes
    finally:
        quotas.processes.stop([busy])
    assert int(allowed) / int(period) == pytest.approx(0.3)
    undone = quotas.changes.restore(own=True)
    assert [each.text for each in undone] == [f"control group {folder}"]
    assert [each.failures for each in undone] == [[]]
    assert groups_on(quotas) == []
    quotas.call(Cgroups.create, "sut", 0.3)  # created again after it was removed
    assert len(groups_on(quotas)) == 1
    quotas.changes.restore(own=True)


def test_a_group_is_removed_after_its_agent_was_killed(quotas: Host, inventory: Inventory) -> None:
    other = connect(inventory.named("sut"))
    other.call(Cgroups.create, "sut", 0.5)
    other.processes.start(ProcessSpec(BUSY, group="sut"))
    agent = other.processes.run(("sh", "-c", "echo $PPID")).stdout.decode().strip()
    assert len(groups_on(quotas)) == 1
    assert quotas.processes.run(("kill", "-9", agent)).ok
    deadline = time.monotonic() + 50
    while groups_on(quotas):
        assert time.monotonic() < deadline, "the watchdog removes the group"
    with pytest.raises(HostError):
        other.compare_clocks()


def test_a_group_with_the_agent_in_it_is_refused(sut: Host) -> None:
    """Whatever is left in a group is killed with its process: in the group of all, that is the host."""
    process = sut.processes.start(ProcessSpec(("sleep", "60")))
    with pytest.raises(HostError, match="control group /: it also contains the agent of this host"):
        sut.call(ProcessTable.count_by_cgroup, process.id, "/")
    sut.processes.stop([process])
