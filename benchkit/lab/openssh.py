"""OpenSSH for a lab: temporary keys, and the configuration of servers and client."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

from benchkit.errors import HostError

KEY_TYPE = "ed25519"
PENALTIES_SINCE = (9, 8)
"""First version whose sshd blocks addresses that connect without logging in, as the wait for its banner does.

Older versions reject the option that turns this off (release notes of OpenSSH 9.8).
"""


def make_keys(ssh_keygen: str, paths: Iterable[Path]) -> None:
    """Create a key pair without a passphrase at each path (and path.pub), in parallel. Raises HostError."""
    processes = [
        subprocess.Popen(
            [ssh_keygen, "-q", "-t", KEY_TYPE, "-N", "", "-C", "benchkit lab", "-f", str(path)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for path in paths
    ]
    results = [(process.communicate()[1], process.returncode) for process in processes]
    for stderr, code in results:
        if code != 0:
            raise HostError("cannot create a key for the lab", where=ssh_keygen, why=stderr.strip())


def public_key(path: Path) -> str:
    """Return type and public key of the pair at `path`, without its comment."""
    return " ".join(path.with_name(f"{path.name}.pub").read_text().split()[:2])


def known_hosts_line(address: str, port: int, key: str) -> str:
    """Return a line of known_hosts (sshd(8), SSH_KNOWN_HOSTS FILE FORMAT: ports other than 22 are in brackets)."""
    return f"{address if port == 22 else f'[{address}]:{port}'} {key}\n"  # noqa: PLR2004 - SSH's port


def server_config(
    *,
    version: tuple[int, int],
    listen: tuple[str, int],
    host_key: Path,
    authorized_keys: Path,
    root: bool,
    environment: Mapping[str, str],
) -> str:
    """Return the sshd_config of a lab host for this version of OpenSSH: only the lab's key can log in.

    Limits of sessions and connections are high: controller, benchmark tools and people may all be logged in at once.
    """
    address, port = listen
    lines = [
        f"ListenAddress {address}:{port}",
        f"HostKey {_quoted(host_key)}",
        f"AuthorizedKeysFile {_quoted(authorized_keys).replace('%', '%%')}",
        "PidFile none",
        "AuthenticationMethods publickey",
        "PasswordAuthentication no",
        "KbdInteractiveAuthentication no",
        f"PermitRootLogin {'prohibit-password' if root else 'no'}",
        "UsePAM no",
        "StrictModes no",  # the folder belongs to this user alone, but its parents may not
        "UseDNS no",
        "X11Forwarding no",
        "AllowAgentForwarding no",
        "AllowTcpForwarding yes",  # a lab host can be a jump host
        "PrintMotd no",
        "PrintLastLog no",
        "PermitUserRC no",
        "MaxSessions 200",
        "MaxStartups 200",
        "LoginGraceTime 30",
        "Subsystem sftp internal-sftp",
    ]
    if environment:  # in one line: sshd takes no second one
        lines.append(f"SetEnv {' '.join(_quoted(f'{name}={value}') for name, value in environment.items())}")
    if version >= PENALTIES_SINCE:
        lines.append("PerSourcePenalties no")
    return "\n".join(lines) + "\n"


def client_config(hosts: Iterable[tuple[str, str, int]], *, user: str, identity: Path, known_hosts: Path) -> str:
    """Return an ssh_config with which `ssh -F FILE NAME` reaches each (name, address, port)."""
    parts = [f"Host {name}\n  HostName {address}\n  Port {port}\n" for name, address, port in hosts]
    common = [
        "Host *",
        f"User {user}",
        f"IdentityFile {_quoted(identity)}",
        "IdentitiesOnly yes",
        f"UserKnownHostsFile {_quoted(known_hosts)}",
        "GlobalKnownHostsFile /dev/null",
        "StrictHostKeyChecking yes",
        "BatchMode yes",
    ]
    return "\n".join([*parts, "\n  ".join(common)]) + "\n"


def _quoted(text: Path | str) -> str:
    """Return an argument of OpenSSH's configuration files, which split at blanks."""
    return f'"{text}"'
