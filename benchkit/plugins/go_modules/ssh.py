"""SSH for git: keys that the controller creates and keeps, the server's configuration, and the files of its readers."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Literal

from benchkit.services.certificates import PRIVATE_FILE
from benchkit.services.controller_files import get_or_create
from benchkit.services.placement import Endpoint
from benchkit.services.service import ControllerFile, ServiceFile

SSH_PORT = 22

PENALTIES_SINCE = (9, 8)
"""First sshd that locks out addresses that connect without logging in, as a check of the port does. Older ones do not
start with the option that turns this off (release notes of OpenSSH 9.8)."""


@dataclass(frozen=True)
class SshKeyFile(ControllerFile):
    """The private or public key of a pair (Ed25519), in the format of OpenSSH's files."""

    name: str
    """Owner of the pair."""
    part: Literal["private", "public"]
    prefix: str = ""
    """Text before the public key on its line: options, or the name of a host."""

    def read(self) -> bytes:
        """Return the private key, or the line with the public one."""
        private = get_or_create(f"ssh {self.name}", _create_key)
        return private if self.part == "private" else f"{self.prefix}{_public_key(private)}\n".encode()


def _create_key() -> bytes:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
    )


def _public_key(private: bytes) -> str:
    from cryptography.hazmat.primitives import serialization

    key = serialization.load_ssh_private_key(private, password=None).public_key()
    return key.public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH).decode()


def host_key_name(server: Endpoint) -> str:
    """Return the name of a server's host key."""
    return f"host {server.host} {server.authority}"


def reader_key_name(server: Endpoint, reader: str) -> str:
    """Return the name of the key with which a reader logs in to a server."""
    return f"reader {reader} of {server.host} {server.authority}"


def repository_url(server: Endpoint, path: str) -> str:
    """Return the URL of a repository for git."""
    return f"ssh://{server.user}@{server.authority}/{path}"


@dataclass(frozen=True)
class GitReader:
    """The files with which a service reads from a git server, and the SSH command for its git."""

    files: tuple[ServiceFile, ...]
    ssh_command: str
    """Value of GIT_SSH_COMMAND."""


def git_reader(server: Endpoint, reader: str, folder: PurePosixPath, host_key: str | None = None) -> GitReader:
    """Return the files in `folder` with which a reader logs in, independent of the login user's SSH settings.

    `host_key` is the server's public key where benchkit did not create it.
    """
    config, identity, known = folder / "ssh_config", folder / "ssh_key", folder / "ssh_known_hosts"
    lines = [
        f"IdentityFile {_quoted(identity)}",
        "IdentitiesOnly yes",
        f"UserKnownHostsFile {_quoted(known)}",
        "GlobalKnownHostsFile /dev/null",
        "StrictHostKeyChecking yes",
        "UpdateHostKeys no",
        "BatchMode yes",
        "ConnectTimeout 10",
        "ControlMaster no",
        "ForwardAgent no",
    ]
    name = f"{server.address} " if server.port == SSH_PORT else f"[{server.address}]:{server.port} "  # sshd(8)
    key: bytes | SshKeyFile = SshKeyFile(host_key_name(server), "public", prefix=name)
    if host_key is not None:
        key = f"{name}{host_key}\n".encode()
    return GitReader(
        files=(
            ServiceFile(config, "".join(f"{line}\n" for line in lines).encode()),
            ServiceFile(identity, SshKeyFile(reader_key_name(server, reader), "private"), PRIVATE_FILE),
            ServiceFile(known, key),
        ),
        ssh_command=f"ssh -F {shlex.quote(str(config))}",
    )


def server_config(
    *,
    version: tuple[int, ...],
    listen: Endpoint,
    host_key: PurePosixPath,
    authorized_keys: tuple[PurePosixPath, ...],
    root: bool,
) -> str:
    """Return the sshd_config of a git server for this version of OpenSSH: only readers' keys can log in.

    MaxStartups is high because a pull opens several connections, and fifty developers may pull at once.
    """
    lines = [
        f"ListenAddress {listen.authority}",
        f"HostKey {_quoted(host_key)}",
        f"AuthorizedKeysFile {' '.join(_quoted(path).replace('%', '%%') for path in authorized_keys)}",
        f"AllowUsers {listen.user}",
        "PidFile none",
        "AuthenticationMethods publickey",
        "PasswordAuthentication no",
        "KbdInteractiveAuthentication no",
        f"PermitRootLogin {'forced-commands-only' if root else 'no'}",
        "UsePAM no",
        "StrictModes no",  # only benchkit writes to the folder, whatever the modes of its parents are
        "UseDNS no",
        "DisableForwarding yes",
        "PermitTTY no",
        "PermitUserRC no",
        "SetEnv SHLVL=1",  # makes bash a nested shell, which skips start-up files: these may print or be slow
        "PrintMotd no",
        "PrintLastLog no",
        "MaxStartups 1000",
        "LoginGraceTime 30",
    ]
    if version >= PENALTIES_SINCE:
        lines.append("PerSourcePenalties no")
    return "\n".join(lines) + "\n"


def _quoted(path: PurePosixPath) -> str:
    """Return a path quoted for OpenSSH's configuration files, which split arguments at blanks."""
    return f'"{path}"'
