"""Connected hosts of the session's lab, and an sshd on one of them that behaves as bad ones do."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from benchkit.agent.files import FileStore
from benchkit.agent.operations import ProcessSpec, SocketAddress
from benchkit.hosts.connections import Hosts, connect_all
from benchkit.hosts.files import PlacedFile
from benchkit.hosts.host import Host
from benchkit.hosts.inventory import HostSpec, Inventory
from benchkit.lab.lab import Lab


@pytest.fixture(scope="session")
def inventory(lab: Lab) -> Inventory:
    return lab.inventory()


@pytest.fixture(scope="session")
def hosts(inventory: Inventory) -> Iterator[Hosts]:
    """The lab's hosts, connected for the session; tests leave nothing on them."""
    with connect_all(inventory) as connected:
        yield connected


@pytest.fixture
def sut(hosts: Hosts) -> Host:
    return hosts["sut"]


def new_key(path: Path, passphrase: str = "") -> str:
    """Make a key pair; its public half as authorized_keys and known_hosts files have it."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", passphrase, "-f", str(path)], check=True)
    return " ".join(path.with_suffix(".pub").read_text().split()[:2])


@dataclass(frozen=True)
class OddServer:
    """An sshd of ours on a lab host, with a port for each oddity."""

    spec: HostSpec
    """Reached at its plain port."""
    host_key: str
    ports: dict[str, int]

    def at(self, oddity: str) -> HostSpec:
        """Return the spec of the port with this oddity."""
        return self.spec.model_copy(update={"port": self.ports[oddity]})


SLOW_STARTS = "odd/slow-starts"
"""File on the lab host with a line for each start of the slow shell."""
ODDITIES = {
    "plain": None,
    # The login shell runs this in place of the command, which is in SSH_ORIGINAL_COMMAND.
    "no-python": 'exec env -i HOME=/nonexistent PATH=/nonexistent /bin/sh -c "$SSH_ORIGINAL_COMMAND"',
    "slow-and-noisy": 'echo welcome; echo to >&2; echo >> SLOW_STARTS; sleep 0.7; exec sh -c "$SSH_ORIGINAL_COMMAND"',
    "no-login": "echo This account is not available.; exit 1",
}


@pytest.fixture(scope="session")
def odd_server(hosts: Hosts, inventory: Inventory, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OddServer]:
    """Listens on ports of the lab host `sut`; the session's key opens it, its host key is in a known_hosts file."""
    folder = tmp_path_factory.mktemp("odd")
    host, spec = hosts["sut"], inventory.named("sut")
    host_key = new_key(folder / "host_key")
    new_key(folder / "identity")
    # Below the ports that outgoing connections of the host are given.
    ports = {oddity: 20022 + number for number, oddity in enumerate(ODDITIES)}
    there = host.call(FileStore.mkdir, "odd")
    lines = [f"Port {port}" for port in ports.values()]
    lines += [
        f"HostKey {there}/host_key",
        f"AuthorizedKeysFile {there}/authorized_keys",
        *(
            "PidFile none",
            "PasswordAuthentication no",
            "KbdInteractiveAuthentication no",
            "UsePAM no",
            "StrictModes no",
        ),
        *("PermitRootLogin prohibit-password", "AllowTcpForwarding yes", "AllowAgentForwarding yes", "UseDNS no"),
    ]
    for oddity, command in ODDITIES.items():
        if command is not None:
            forced = command.replace("SLOW_STARTS", str(host.workdir / SLOW_STARTS)).replace("FOLDER", str(there))
            lines += [f"Match LocalPort {ports[oddity]}", f"ForceCommand {forced}"]
    host.files.place(
        [
            PlacedFile(there / "sshd_config", "\n".join([*lines, ""]).encode(), 0o600),
            PlacedFile(there / "host_key", folder / "host_key", 0o600),
            PlacedFile(there / "authorized_keys", folder / "identity.pub", 0o600),
        ]
    )
    sshd = host.facts.programs["sshd"].path
    process = host.processes.start(ProcessSpec([sshd, "-D", "-e", "-f", str(there / "sshd_config")]))
    for port in ports.values():  # one sshd opens them one after the other
        host.sockets.wait_open(SocketAddress("tcp", spec.address, port), 60, process)
    known_hosts = folder / "known_hosts"
    known_hosts.write_text("".join(f"[{spec.address}]:{port} {host_key}\n" for port in ports.values()))
    update = {
        "identity": folder / "identity",
        "known_hosts": known_hosts,
        "port": ports["plain"],
        "workdir": f"{host.workdir}-odd",
    }
    yield OddServer(spec.model_copy(update=update), host_key, ports)
    host.processes.stop([process])
    host.call(FileStore.remove, "odd")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """A home folder of the test's own: `home(ssh_config)` writes its ~/.ssh/config."""
    ssh = tmp_path / "home" / ".ssh"
    ssh.mkdir(parents=True, mode=0o700)
    monkeypatch.setenv("HOME", str(ssh.parent))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)

    def write(config: str = "") -> Path:
        (ssh / "config").write_text(config)
        return ssh

    write()
    return write
