"""SSH connections and their errors, with real sshds."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from benchkit.errors import HostError
from benchkit.hosts.connections import Hosts, connect, connect_all
from benchkit.hosts.inventory import HostSpec, Inventory
from tests.support.hosts.fixtures import SLOW_STARTS

if TYPE_CHECKING:
    from tests.support.hosts.fixtures import OddServer

Home = Callable[..., Path]


def refused(spec: HostSpec, others: dict[str, HostSpec] | None = None) -> str:
    """Return the message of a connection that fails."""
    with pytest.raises(HostError) as caught:
        connect(spec, others)
    return str(caught.value)


@pytest.fixture
def key(tmp_path: Path) -> Path:
    """A private key that no host knows."""
    path = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True)
    return path


def test_a_slow_and_noisy_start_is_paid_once(odd_server: OddServer, home: Home, hosts: Hosts) -> None:
    home()

    def starts() -> int:
        return len(hosts["sut"].files.read(SLOW_STARTS).splitlines())

    with connect(odd_server.at("slow-and-noisy")) as host:
        once = starts()
        assert once > 0
        for _ in range(3):
            assert host.processes.run(["true"]).ok
        assert starts() == once


@pytest.mark.parametrize(
    ("oddity", "message"),
    [
        ("no-python", "sut: no Python 3.8 or newer: "),
        ("no-login", "sut: the agent does not start: This account is not available."),
    ],
)
def test_a_host_that_cannot_run_the_agent(odd_server: OddServer, home: Home, oddity: str, message: str) -> None:
    home()
    assert refused(odd_server.at(oddity)).startswith(message)


def test_an_unknown_host_key_is_refused_with_the_line_that_accepts_it(
    odd_server: OddServer, home: Home, tmp_path: Path
) -> None:
    home()
    spec = odd_server.spec.model_copy(update={"known_hosts": tmp_path / "known hosts"})
    (tmp_path / "known hosts").touch()
    message = refused(spec)
    assert message.startswith(
        f"sut: the host key of [{spec.address}]:{spec.port} is unknown: it presents a key of type ssh-ed25519"
    )
    assert "fingerprint SHA256:" in message
    assert f"[{spec.address}]:{spec.port} {odd_server.host_key}" in message
    line = message.splitlines()[-1].strip()
    assert shlex.split(line)[0] == "echo"
    subprocess.run(["/bin/sh", "-c", line], check=True)  # as a user would
    connect(spec).close()


def test_a_changed_host_key_is_refused(odd_server: OddServer, home: Home, tmp_path: Path, key: Path) -> None:
    home()
    known = tmp_path / "known_hosts"
    other = " ".join(key.with_suffix(".pub").read_text().split()[:2])
    known.write_text(f"[{odd_server.spec.address}]:{odd_server.spec.port} {other}\n")
    message = refused(odd_server.spec.model_copy(update={"known_hosts": known}))
    assert f"sut: the host key of {odd_server.spec.address}:{odd_server.spec.port} has changed" in message
    assert message.count("SHA256:") == 2
    assert f"ssh-keygen -R '[{odd_server.spec.address}]:{odd_server.spec.port}' -f {known}" in message


def test_a_revoked_host_key_is_refused_though_it_is_known(odd_server: OddServer, home: Home, tmp_path: Path) -> None:
    home()
    known = tmp_path / "known_hosts"
    name = f"[{odd_server.spec.address}]:{odd_server.spec.port}"
    known.write_text(f"{name} {odd_server.host_key}\n@revoked * {odd_server.host_key}\n")
    assert "is revoked" in refused(odd_server.spec.model_copy(update={"known_hosts": known}))


def test_the_inventorys_known_hosts_win_over_the_users_and_bad_lines_do_not_matter(
    odd_server: OddServer, home: Home, key: Path
) -> None:
    ssh = home()
    other = " ".join(key.with_suffix(".pub").read_text().split()[:2])
    name = f"[{odd_server.spec.address}]:{odd_server.spec.port}"
    (ssh / "known_hosts").write_text(
        f"{name} {other}\nnonsense\n{name} ssh-ed25519 !!!\n# {name}\n@cert-authority * x y\n"
    )
    connect(odd_server.spec).close()
    assert "has changed" in refused(odd_server.spec.model_copy(update={"known_hosts": None}))


def test_strictness_is_not_for_ssh_config_to_lift(odd_server: OddServer, home: Home) -> None:
    home("Host *\n  StrictHostKeyChecking no\n  UserKnownHostsFile /dev/null\n")
    assert "is unknown" in refused(odd_server.spec.model_copy(update={"known_hosts": None}))


def test_ssh_config_is_honoured(odd_server: OddServer, home: Home) -> None:
    spec = odd_server.spec
    home(
        f"Host odd\n  HostName {spec.address}\n  Port {spec.port}\n  User root\n  ForwardAgent yes\n"
        f"  IdentityFile ~/no-such-key\n  IdentityFile {spec.identity}\n  UserKnownHostsFile {spec.known_hosts} ~/none\n"
    )
    with connect(HostSpec(name="sut", address="odd", roles=("sut",), workdir=spec.workdir)) as host:
        forwarded = host.processes.run(["/bin/sh", "-c", "echo ${SSH_AUTH_SOCK-none}"])
        assert forwarded.stdout == b"none\n", "the host has no access to the user's keys"


def test_a_key_that_is_not_accepted(odd_server: OddServer, home: Home, key: Path) -> None:
    home()
    message = refused(odd_server.spec.model_copy(update={"identity": key}))
    target = f"{odd_server.spec.address}:{odd_server.spec.port}"
    assert f"sut: {target} refuses the login of root: it accepts none of the offered keys" in message
    assert f"ssh -p {odd_server.spec.port} root@{odd_server.spec.address}" in message


def test_a_key_with_a_passphrase_is_not_asked_for(odd_server: OddServer, home: Home, tmp_path: Path) -> None:
    home()
    path = tmp_path / "locked"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "secret", "-f", str(path)], check=True)
    message = refused(odd_server.spec.model_copy(update={"identity": path}))
    assert "a key needs a passphrase, and benchkit does not ask for it" in message
    assert "ssh-add" in message


def test_a_port_without_a_listener(odd_server: OddServer, home: Home) -> None:
    home()
    message = refused(odd_server.spec.model_copy(update={"port": 1}))
    assert f"sut: cannot connect to {odd_server.spec.address}:1: " in message
    assert "is sshd running there" in message


def through(odd_server: OddServer, inventory: Inventory) -> tuple[HostSpec, dict[str, HostSpec]]:
    """Return the lab host `load`, with the odd server as its jump host."""
    gate = odd_server.spec.model_copy(update={"name": "gate", "roles": ()})
    return inventory.named("load").model_copy(update={"jump": "gate"}), {"gate": gate}


def test_a_jump_host_of_the_inventory(odd_server: OddServer, inventory: Inventory, home: Home) -> None:
    home()
    spec, others = through(odd_server, inventory)
    with connect(spec, others) as host:
        came_from = host.processes.run(["/bin/sh", "-c", "echo $SSH_CLIENT"]).stdout.split()[0].decode()
    assert came_from == odd_server.spec.address


def test_a_jump_host_is_checked_as_strictly(
    odd_server: OddServer, inventory: Inventory, home: Home, tmp_path: Path, key: Path
) -> None:
    home()
    spec, others = through(odd_server, inventory)
    (tmp_path / "empty").touch()
    unknown = others["gate"].model_copy(update={"known_hosts": tmp_path / "empty"})
    message = refused(spec, {"gate": unknown})
    assert message.startswith(
        f"load: jump host {unknown.address}: the host key of [{unknown.address}]:{unknown.port} is unk"
    )
    message = refused(spec, {"gate": others["gate"].model_copy(update={"identity": key})})
    assert message.startswith(f"load: jump host {unknown.address}: ")
    assert "refuses the login of root" in message
    message = refused(spec.model_copy(update={"known_hosts": tmp_path / "empty"}), others)
    assert message.startswith(f"load: the host key of {spec.address} is unknown")
    message = refused(spec.model_copy(update={"port": 1}), others)
    assert message.startswith(f"load: the jump host cannot reach {spec.address}:1")


def test_a_jump_host_of_ssh_config_is_checked_as_strictly(
    odd_server: OddServer, inventory: Inventory, home: Home
) -> None:
    gate, spec = odd_server.spec, inventory.named("load")
    config = (
        f"Host gate\n  HostName {gate.address}\n  Port {gate.port}\n  User root\n  IdentityFile {gate.identity}\n"
        "  StrictHostKeyChecking no\n{known}"
        f"Host {spec.address}\n  ProxyJump gate\n"
    )
    home(config.format(known=""))
    assert refused(spec).startswith(f"load: jump host gate: the host key of [{gate.address}]:{gate.port} is unknown")
    home(config.format(known=f"  UserKnownHostsFile {gate.known_hosts}\n"))
    with connect(spec) as host:
        came_from = host.processes.run(["/bin/sh", "-c", "echo $SSH_CLIENT"]).stdout.split()[0].decode()
    assert came_from == gate.address


def test_the_problems_of_all_hosts_are_reported_together(inventory: Inventory, home: Home, key: Path) -> None:
    home()
    wrong = [
        inventory.named("sut").model_copy(update={"identity": key}),
        inventory.named("load"),
        HostSpec(name="third", address="no-such-host.invalid", roles=("load",)),
        HostSpec(name="gate", address="no-such-gate.invalid", roles=()),
    ]
    with pytest.raises(HostError) as caught:
        connect_all(Inventory(hosts=tuple(wrong)))
    message = str(caught.value)
    assert "sut: " in message
    assert "third: the name no-such-host.invalid does not resolve" in message
    assert "load: " not in message
    assert "no-such-gate" not in message, "a host without a role is a jump host only"
