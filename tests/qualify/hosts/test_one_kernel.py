"""Two hosts of an inventory on one machine: their settings are restored in the right order for both."""

from __future__ import annotations

import pytest

from benchkit.agent.settings import Sysctls
from benchkit.agent.undo import Undo
from benchkit.hosts.connections import connect_all
from benchkit.hosts.host import Host
from benchkit.hosts.inventory import Inventory

FIN = "net.ipv4.tcp_fin_timeout"


def test_changes_through_both_hosts_are_restored_in_reverse_order(inventory: Inventory, sut: Host) -> None:
    before = sut.call(Sysctls.read, [FIN])[FIN]
    if not before.writable:
        pytest.skip("this user's lab has no settings of its own")
    spec = inventory.named("sut")
    twins = tuple(spec.model_copy(update={"name": name, "workdir": f"{sut.facts.workdir}-{name}"}) for name in "ab")
    with connect_all(Inventory(hosts=twins)) as hosts:
        hosts.lock("one run")
        (owner,) = {hosts.kernel_host(name).name for name in "ab"}
        assert {host.shared_with for host in hosts} == {None, owner}
        for name, value in (("a", "30"), ("b", "20")):
            assert hosts.kernel_host(name).call(Sysctls.write, {FIN: value})[FIN].outcome == "applied"
        assert {len(host.call(Undo.traces).records) for host in hosts} == {0, 2}
        undone = [each for host in hosts for each in host.changes.restore(own=True)]
        assert [each.text for each in undone] == [f"{FIN} (was 30)", f"{FIN} (was {before.value})"]
        assert sut.call(Sysctls.read, [FIN])[FIN] == before
