"""SSH for git: keys that the controller makes and keeps, the server's configuration, and what its readers are given."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Literal

from benchkit.services.backend import ControllerFile, File
from benchkit.services.endpoint import Endpoint
from benchkit.services.kept_secrets import kept

SSH_PORT = 22
PRIVATE = 0o600

PENALTIES_SINCE = (9, 8)
"""From this version on sshd locks out addresses that connect without logging in, as a look whether it listens does; older
ones refuse to start on the option that turns this off (release notes of OpenSSH 9.8)."""


@dataclass(frozen=True)
class SshKey(ControllerFile):
    """One half of a key pair (Ed25519), as OpenSSH's files have it."""

    name: str
    """Whose it is; the pair is made when it is first wanted."""
    half: Literal["private", "public"]
    before: str = ""
    """What stands before the public key on its line: options, or the name of a host."""

    def read(self) -> bytes:
        """The private key, or the line with the public one."""
        private = kept(f"ssh {self.name}", _new_key)
        return private if self.half == "private" else f"{self.before}{_public(private)}\n".encode()


def _new_key() -> bytes:
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415 - slow, and only the first deployment wants it
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # noqa: PLC0415

    return Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
    )


def _public(private: bytes) -> str:
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415 - as above

    key = serialization.load_ssh_private_key(private, password=None).public_key()
    return key.public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH).decode()


def host_key(server: Endpoint) -> str:
    """The name of the key by which a server is known."""
    return f"host {server.host} {server.authority}"


def reader_key(server: Endpoint, reader: str) -> str:
    """The name of the key with which a reader logs in to a server."""
    return f"reader {reader} of {server.host} {server.authority}"


def repository_url(server: Endpoint, path: str) -> str:
    """The URL of a repository, for git."""
    return f"ssh://{server.user}@{server.authority}/{path}"


def known_as(server: Endpoint) -> str:
    """How a known_hosts file names a server (sshd(8), SSH_KNOWN_HOSTS FILE FORMAT)."""
    return str(server.address) if server.port == SSH_PORT else f"[{server.address}]:{server.port}"


@dataclass(frozen=True)
class GitReaderFiles:
    """What a host needs to read from a git server: files of its own, and the command that git is given."""

    files: tuple[File, ...]
    command: str
    """For GIT_SSH_COMMAND."""


def reading(server: Endpoint, reader: str, folder: PurePosixPath, pinned: str | None = None) -> GitReaderFiles:
    """The files with which a reader logs in, in a folder of its own; nothing of the login's own settings counts.

    `pinned` is the server's public key where benchkit did not make it.
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
    line = f"{known_as(server)} "
    key = f"{line}{pinned}\n".encode() if pinned is not None else SshKey(host_key(server), "public", before=line)
    return GitReaderFiles(
        files=(
            File(config, "".join(f"{line}\n" for line in lines).encode()),
            File(identity, SshKey(reader_key(server, reader), "private"), PRIVATE),
            File(known, key),
        ),
        command=f"ssh -F {shlex.quote(str(config))}",
    )


def server_config(
    *,
    version: tuple[int, ...],
    listen: Endpoint,
    host_key: PurePosixPath,
    authorized_keys: tuple[PurePosixPath, ...],
    root: bool,
) -> str:
    """sshd_config of a git server for an OpenSSH of this version: only the readers' keys open it.

    Start-ups are not rationed: a pull opens several connections, and fifty developers may pull at once.
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
        "StrictModes no",  # the folder is benchkit's alone, whatever the folders above it are
        "UseDNS no",
        "DisableForwarding yes",
        "PermitTTY no",
        "PermitUserRC no",
        "SetEnv SHLVL=1",  # a shell within a shell, bash thinks, and reads no start-up file, which may print or take long
        "PrintMotd no",
        "PrintLastLog no",
        "MaxStartups 1000",
        "LoginGraceTime 30",
    ]
    if version >= PENALTIES_SINCE:
        lines.append("PerSourcePenalties no")
    return "\n".join(lines) + "\n"


def _quoted(path: PurePosixPath) -> str:
    """A path as an argument of OpenSSH's configuration files, which split at blanks."""
    return f'"{path}"'
