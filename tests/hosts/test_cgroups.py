"""Control groups with a CPU quota on a lab host: what they hold back, and that they go, however the agent ends."""

from __future__ import annotations

import time

import pytest

from benchkit.errors import HostError
from benchkit.hosts.connections import connect
from benchkit.hosts.host import Host
from benchkit.hosts.inventory import Inventory
from benchkit.hosts.processes import ProcessSpec

pytestmark = pytest.mark.lab

FOLDERS = ("sh", "-c", "ls -d /sys/fs/cgroup/cpu/benchkit-* /sys/fs/cgroup/benchkit-* 2>/dev/null || true")
"""The groups of agents on a lab host, for it sees no others."""
BUSY = ("sh", "-c", "sh -c 'while :; do :; done' & while :; do :; done")
"""Two processes that never rest."""


@pytest.fixture
def quotas(sut: Host) -> Host:
    if not sut.facts.cpu_groups:
        pytest.skip("this machine has no control groups with the CPU controller to spare")
    return sut


def groups_on(host: Host) -> list[str]:
    return host.processes.run(FOLDERS).stdout.decode().split()


def test_a_group_holds_a_whole_process_tree_to_its_share(quotas: Host) -> None:
    quotas.changes.create_cgroup("sut", 0.3)
    (folder,) = groups_on(quotas)
    assert folder.endswith("-sut")
    busy = quotas.processes.start(ProcessSpec(BUSY, group="sut"))
    try:
        began, before = time.monotonic(), quotas.processes.cpu_times([busy])[busy.id].total_s
        assert busy.wait(1.5) is None
        used = quotas.processes.cpu_times([busy])[busy.id].total_s - before
        share = used / (time.monotonic() - began)
        quotas.changes.create_cgroup("sut", 0.2)  # set anew, with what runs in it
    finally:
        quotas.processes.stop([busy])
    assert 0.03 < share < 0.4
    undone = quotas.changes.restore(own=True)
    assert [each.text for each in undone] == [f"control group {folder}"]
    assert [each.failures for each in undone] == [()]
    assert groups_on(quotas) == []
    quotas.changes.create_cgroup("sut", 0.3)  # and made anew where it was put back
    assert len(groups_on(quotas)) == 1
    quotas.changes.restore(own=True)


def test_a_group_goes_with_an_agent_that_is_killed(quotas: Host, inventory: Inventory) -> None:
    other = connect(inventory.named("sut"))
    other.changes.create_cgroup("sut", 0.5)
    other.processes.start(ProcessSpec(BUSY, group="sut"))
    agent = other.processes.run(("sh", "-c", "echo $PPID")).stdout.decode().strip()
    assert len(groups_on(quotas)) == 1
    assert quotas.processes.run(("kill", "-9", agent)).ok
    deadline = time.monotonic() + 30
    while groups_on(quotas):
        assert time.monotonic() < deadline, "the guardian clears up behind its agent"
    with pytest.raises(HostError):
        other.compare_clocks()


@pytest.mark.parametrize(("name", "cpus"), [("../x", 0.5), ("", 0.5), ("sut", 0.01), ("sut", -1)])
def test_what_is_no_group_is_refused(quotas: Host, name: str, cpus: float) -> None:
    with pytest.raises(HostError, match="a group"):
        quotas.changes.create_cgroup(name, cpus)
    with pytest.raises(HostError, match="no group 'other' was made here"):
        quotas.processes.start(ProcessSpec(("true",), group="other"))
