"""Calls for several hosts at once."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from benchkit.errors import LostError
from benchkit.hosts.connections import run_on_hosts
from benchkit.hosts.host import Host
from benchkit.hosts.inventory import HostSpec
from benchkit.hosts.ssh import SshConnection


def test_a_failure_on_one_host_does_not_keep_a_call_from_the_others() -> None:
    hosts = cast("list[Host]", ["first", "second", "third"])
    reached: list[object] = []

    def do(host: object) -> None:
        if host == "first":
            raise LostError("the link is dead", where="first")
        reached.append(host)

    with pytest.raises(LostError, match="the link is dead"):
        run_on_hosts(hosts, do)
    assert sorted(map(str, reached)) == ["second", "third"]


@pytest.mark.parametrize(
    ("config", "hops"),
    [
        ("Host gw\n  ProxyJump none\nHost *\n  ProxyJump gw\n", ["gw", "sut"]),
        ("Host sut\n  ProxyJump none\nHost *\n  ProxyJump gw\n", ["sut"]),
    ],
)
def test_a_jump_host_named_none_is_none(
    config: str, hops: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "config").write_text(config)
    monkeypatch.setenv("HOME", str(tmp_path))
    connection = SshConnection(HostSpec(name="sut", address="sut", roles=()), {})
    assert [hop.host for hop, *_ in connection._hops] == hops
