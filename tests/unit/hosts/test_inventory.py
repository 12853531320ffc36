from __future__ import annotations

from pathlib import Path

import pytest

from benchkit.errors import InputError
from benchkit.hosts.inventory import HostSpec, Inventory, load_inventory

GOOD = """\
hosts:
  server: {address: 192.0.2.10, user: bench, roles: [sut], sudo: true, workdir: /srv/bench}
  client:
    address: client.example
    port: 2222
    identity: keys/client
    jump: server
    roles: [load, spare]
not_isolated: [vm.swappiness]
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "inventory.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_file_becomes_hosts_in_its_order(tmp_path: Path) -> None:
    inventory = load_inventory(write(tmp_path, GOOD))
    assert inventory == Inventory(
        hosts=(
            HostSpec(
                name="server",
                address="192.0.2.10",
                user="bench",
                roles=("sut",),
                sudo=True,
                workdir="/srv/bench",
                written=f"{tmp_path / 'inventory.yaml'}:2",
            ),
            HostSpec(
                name="client",
                address="client.example",
                port=2222,
                identity=tmp_path / "keys/client",
                jump="server",
                roles=("load", "spare"),
                written=f"{tmp_path / 'inventory.yaml'}:3",
            ),
        ),
        not_isolated=("vm.swappiness",),
    )
    assert [host.name for host in inventory.by_role("load")] == ["client"]
    assert inventory.named("server").sudo
    with pytest.raises(InputError, match="server, client"):
        inventory.named("sevrer")


@pytest.mark.parametrize(
    ("text", "line", "parts"),
    [
        ("hosts:\n  a: {address: x, roles: [sut], port: 70000}\n", 2, ("hosts.a.port", "70000", "65535")),
        ("hosts:\n  a:\n    address: x\n    roles: [sut]\n    wrokdir: /x\n", 5, ("hosts.a.wrokdir", "no such field")),
        ("hosts:\n  a/b: {address: x, roles: []}\n", 2, ("'a/b'", "letters, digits")),
        ("hosts:\n  a: {address: -oProxyCommand=x, roles: []}\n", 2, ("hosts.a.address", "host name")),
        ("hosts:\n  a: {address: x, roles: [], user: 'a;b'}\n", 2, ("hosts.a.user", "login name")),
        ("hosts:\n  a: {address: x, roles: [], workdir: /a/../b}\n", 2, ("hosts.a.workdir", "'..'")),
        ("hosts:\n  a: {address: x, roles: [], workdir: /}\n", 2, ("hosts.a.workdir", "absolute path")),
        ("hosts:\n  a: {address: x}\n", 2, ("hosts.a.roles", "missing")),
        ("hosts:\n  a: {address: x, roles: [], jump: gate}\n", 2, ("hosts.a.jump", "'gate'", "another host")),
        (
            "hosts:\n  a: {address: x, roles: [], jump: b}\n  b: {address: x, roles: [], jump: a}\n",
            1,
            ("cycle", "a → b → a"),
        ),
        ("hosts: {}\n", 1, ("hosts", "at least 1")),
    ],
)
def test_a_bad_file_is_blamed_with_line_field_and_what_is_allowed(
    tmp_path: Path, text: str, line: int, parts: tuple[str, ...]
) -> None:
    path = write(tmp_path, text)
    with pytest.raises(InputError) as caught:
        load_inventory(path)
    message = str(caught.value)
    assert message.startswith(f"{path}:{line}: ")
    assert all(part in message for part in parts), message
