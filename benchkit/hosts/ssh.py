"""SSH connections, one per host: host keys are checked strictly, and the user's keys are the only authentication.

Only this module uses Fabric and Paramiko. Fabric reads `~/.ssh/config` (aliases, users, ports, identities, jump hosts)
but trusts unknown host keys. This module checks the keys of hosts and jump hosts strictly instead.
"""

from __future__ import annotations

import io
import logging
import re
import shlex
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import fabric
import paramiko
from paramiko.hostkeys import HostKeyEntry, HostKeys, InvalidHostKey

from benchkit.errors import HostError, InputError, LostError
from benchkit.files import read_regular
from benchkit.hosts.inventory import HostSpec, require_files

CONNECT_S = 10
"""Timeout of each step: TCP, banner, key exchange, opening a channel."""
LOGIN_S = 120
"""Timeout of the authentication: the time that a server gives its clients (sshd_config(5), LoginGraceTime).

A server with busy CPUs, or that looks up names that do not resolve, takes more than ten seconds.
"""
RECEIVE_TIMEOUT_S = 15.0
"""Timeout of reading from a `SshStream`, and interval of keep-alive messages, which keep connections open in
middleboxes."""
SEND_TIMEOUT_S = 60.0
"""Time after which sending fails if the host has accepted no byte."""
SEND_BYTES = 65536
STDERR_BYTES = 65536
GLOBAL_KNOWN_HOSTS = Path("/etc/ssh/ssh_known_hosts")

logging.getLogger("paramiko").addHandler(logging.NullHandler())  # failures are raised, not logged
logger = logging.getLogger(__name__)

DEFAULT_PORT = 22
_JUMP_NONE = re.compile(r'^(\s*ProxyJump[\s=]+)"?none"?\s*$', re.IGNORECASE | re.MULTILINE)
_KEY, _FIELDS = 3, 4


class RefuseUnknown(paramiko.MissingHostKeyPolicy):
    """A policy that never trusts an unknown key."""

    def __init__(self, where: str, files: list[Path], revoked: frozenset[str]) -> None:
        """Take the known_hosts files, and the keys, in base64, that they revoke."""
        self._where = where
        self._files = files
        self._revoked = revoked

    def missing_host_key(self, client: paramiko.SSHClient, hostname: str, key: paramiko.PKey) -> None:
        """Raise HostError with the line that accepts the key."""
        del client
        kind, encoded = key.get_name(), key.get_base64()
        if encoded in self._revoked:
            hint = "do not connect; ask the owner of the host"
            raise HostError(f"the host key {key.fingerprint} is revoked", where=self._where, hint=hint)
        line = shlex.quote(f"{hostname} {kind} {encoded}")
        raise HostError(
            f"the host key of {hostname} is unknown",
            where=self._where,
            why=f"it presents a key of type {kind} with the fingerprint {key.fingerprint}",
            hint="check the fingerprint on the host (ssh-keygen -lf /etc/ssh/ssh_host_*_key.pub), then accept it with\n"
            f"    echo {line} >> {shlex.quote(str(self._files[0]))}",
        )


class SshConnection:
    """A connection to one host, and to its jump hosts; for one thread."""

    def __init__(self, spec: HostSpec, others: Mapping[str, HostSpec]) -> None:
        """Prepare a connection; `others` are the hosts of the inventory by name, which may be jump hosts."""
        self.name = spec.name
        self._hops: list[tuple[fabric.Connection, list[Path], frozenset[str]]] = []
        try:
            self._connection = self._hop(spec, others)
        except (paramiko.SSHException, KeyError, ValueError) as error:  # an ssh_config that Fabric cannot read
            raise InputError("~/.ssh/config cannot be used", where=self.name, why=repr(error)) from error

    def open(self) -> None:
        """Connect, to the jump hosts first. Raises HostError naming the host, or the jump host, and what to do."""
        for connection, files, revoked in self._hops:
            is_last = connection is self._connection
            where = self.name if is_last else f"{self.name}: jump host {connection.original_host}"
            target = f"{connection.user}@{connection.host}:{connection.port}"
            connection.client.set_missing_host_key_policy(RefuseUnknown(where, files, revoked))
            began = time.monotonic()
            try:
                connection.open()
                transport = connection.transport
                if isinstance(transport.sock, socket.socket):
                    transport.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                transport.set_keepalive(int(RECEIVE_TIMEOUT_S))
            except HostError:
                self.close()
                raise
            except (OSError, EOFError, paramiko.SSHException) as error:
                logger.debug("%s: no connection to %s after %.3f s: %r", where, target, time.monotonic() - began, error)
                self.close()
                raise _explained(error, where, connection, files) from error
            logger.debug("%s: connected to %s after %.3f s", where, target, time.monotonic() - began)

    def run(self, command: str) -> SshStream:
        """Run a line in the host's login shell, without waiting for its end. Raises LostError."""
        try:
            channel = self._connection.transport.open_session(timeout=CONNECT_S)
            channel.settimeout(RECEIVE_TIMEOUT_S)
            channel.exec_command(command)
        except (OSError, EOFError, paramiko.SSHException) as error:
            why = str(error) or type(error).__name__
            raise LostError("the host runs no command over SSH", where=self.name, why=why) from error
        return SshStream(channel, self)

    def close(self) -> None:
        """Disconnect, from the jump hosts last."""
        for connection, *_ in reversed(self._hops):
            connection.client.close()

    def _hop(self, spec: HostSpec, others: Mapping[str, HostSpec]) -> fabric.Connection:
        require_files(spec)
        gateway = None if spec.jump is None else self._hop(others[spec.jump], others)
        connection = fabric.Connection(
            host=spec.address,
            user=spec.user,
            port=spec.port,
            gateway=gateway,
            config=_user_config(),
            forward_agent=False,
            connect_timeout=CONNECT_S,
            connect_kwargs={
                "banner_timeout": CONNECT_S,
                "auth_timeout": LOGIN_S,
                "channel_timeout": CONNECT_S,
                **({} if spec.identity is None else {"key_filename": str(spec.identity)}),
            },
        )
        if gateway is None:  # jump hosts that only ~/.ssh/config names
            for hop in reversed(list(_gateways(connection))):
                self._restrict(hop, spec)
        self._restrict(connection, spec)
        return connection

    def _restrict(self, connection: fabric.Connection, spec: HostSpec) -> None:
        files = _known_hosts_files(connection, spec)
        revoked = _trust(files, connection.client.get_host_keys(), known_name(connection.host, connection.port))
        connection.client.set_log_channel(f"paramiko.{spec.name}")  # logs host key check and authentication at DEBUG
        connection.forward_agent = False
        options = connection.connect_kwargs
        keys = [Path(key).expanduser() for key in options.pop("key_filename", [])]
        keys = [key for key in keys if key.exists()]  # ssh also skips an IdentityFile that does not exist
        options.update(key_filename=[str(key) for key in keys], look_for_keys=not keys, password=None, passphrase=None)
        self._hops.append((connection, files, revoked))


class SshStream:
    """Standard input and output of a command over an SSH channel; closing it closes the connection too."""

    def __init__(self, channel: paramiko.Channel, connection: SshConnection) -> None:
        self._channel = channel
        self._connection = connection
        self._stderr = bytearray()
        self._readable = threading.Event()
        channel.in_buffer.set_event(self._readable)

    def send(self, content: bytes) -> None:
        """Write to standard input. Raises TimeoutError where the host accepts nothing for `SEND_TIMEOUT_S`."""
        sent_bytes = 0
        accepted_at = time.monotonic()
        while sent_bytes < len(content):
            try:
                size = self._channel.send(content[sent_bytes : sent_bytes + SEND_BYTES])
            except TimeoutError:
                if time.monotonic() > accepted_at + SEND_TIMEOUT_S:
                    raise TimeoutError(f"the host accepted nothing for {SEND_TIMEOUT_S:g} s") from None
                continue
            except (EOFError, paramiko.SSHException) as error:
                raise OSError(str(error) or "the connection is closed") from error
            if size == 0:
                raise OSError("the connection is closed")
            sent_bytes += size
            accepted_at = time.monotonic()

    def receive(self, size: int) -> bytes:
        """Read from standard output."""
        try:  # Paramiko's own timeout uses the wall clock, and grows where the clock is set back
            if not self._readable.wait(self._channel.gettimeout()):
                raise TimeoutError
            return self._channel.recv(size)
        finally:
            self._drain()

    def time_out_after(self, seconds: float) -> None:
        """Shorten the timeout of `receive`."""
        self._channel.settimeout(min(RECEIVE_TIMEOUT_S, seconds))

    def end_input(self) -> None:
        """Close standard input."""
        self._channel.shutdown_write()

    def stderr(self) -> str:
        """Return the standard error output, at most its last 64 KiB."""
        self._drain()
        return self._stderr.decode(errors="replace").strip()

    def exit_code(self, timeout_s: float) -> int | None:
        """Return the exit code; None where the command has not ended within the time."""
        if not self._channel.status_event.wait(max(0.0, timeout_s)):  # also set where the channel is closed
            return None
        return self._channel.recv_exit_status()

    def close(self) -> None:
        """Close the connection, and the channel with it.

        Closing only the channel would send a message, and wait for a host that may accept nothing.
        """
        self._connection.close()

    def _drain(self) -> None:
        while self._channel.recv_stderr_ready():
            self._stderr += self._channel.recv_stderr(STDERR_BYTES)
            del self._stderr[:-STDERR_BYTES]


def _user_config() -> fabric.Config:
    """Return the user's and the system's ssh_config for Fabric.

    `ProxyJump none` becomes a jump over the host itself, which Fabric ignores; else it would look for a host `none`.
    """
    config = paramiko.SSHConfig()
    for path in (Path("~/.ssh/config").expanduser(), Path("/etc/ssh/ssh_config")):
        if path.is_file():
            text = path.read_text(encoding="utf-8-sig", errors="replace")
            config.parse(io.StringIO(_JUMP_NONE.sub(r"\1%h", text)))
    return fabric.Config(ssh_config=config)


def _gateways(connection: fabric.Connection) -> Iterator[fabric.Connection]:
    gateway = connection.gateway
    while isinstance(gateway, fabric.Connection):
        yield gateway
        gateway = gateway.gateway


def _known_hosts_files(connection: fabric.Connection, spec: HostSpec) -> list[Path]:
    configured = shlex.split(connection.ssh_config.get("userknownhostsfile", ""))
    users = [Path(name).expanduser() for name in configured or ["~/.ssh/known_hosts", "~/.ssh/known_hosts2"]]
    return [*([spec.known_hosts] if spec.known_hosts else []), *users, GLOBAL_KNOWN_HOSTS]


def _trust(files: list[Path], known: HostKeys, name: str) -> frozenset[str]:
    """Add a host's keys to `known`; earlier files override later ones. Return all keys that the files revoke.

    Names may be hashed; invalid lines are skipped.
    """
    contents = [_read_lines(file) for file in files]
    revoked = frozenset(
        line[_KEY] for lines in contents for line in lines if line[:1] == ["@revoked"] and len(line) >= _FIELDS
    )
    for lines in reversed(contents):
        keys = HostKeys()
        for entry in filter(None, map(_entry, lines)):
            if entry.key.get_base64() not in revoked:
                for names in entry.hostnames or ():
                    keys.add(names, entry.key.get_name(), entry.key)
        for kind, key in (keys.lookup(name) or {}).items():
            known.add(name, kind, key)
    return revoked


def _entry(fields: list[str]) -> HostKeyEntry | None:
    if not fields or fields[0].startswith(("#", "@")):  # a comment, or a line with a marker
        return None
    try:
        return HostKeyEntry.from_line(" ".join(fields))
    except (InvalidHostKey, paramiko.SSHException):
        return None


def _explained(
    error: Exception,
    where: str,
    connection: Any,  # noqa: ANN401 - Fabric has no types
    files: list[Path],
) -> HostError:
    """Convert the failure of a connection to an error that names the reason and what to do."""
    target = f"{connection.host}:{connection.port}"
    if isinstance(error, paramiko.BadHostKeyException):
        what = f"the host key of {target} has changed"
        why = f"known_hosts has {error.expected_key.fingerprint}, the host presents {error.key.fingerprint}"
        remove = shlex.join(["ssh-keygen", "-R", known_name(connection.host, connection.port), "-f", str(files[0])])
        hint = f"find out why: the connection may be intercepted. If the host was reinstalled: {remove}"
        return HostError(what, where=where, why=why, hint=hint)
    by_hand = shlex.join(["ssh", "-p", str(connection.port), f"{connection.user}@{connection.host}"])
    # Paramiko reports these as failed authentication too.
    unanswered = "transport shut down" in str(error) or "timeout" in str(error)
    if (isinstance(error, paramiko.AuthenticationException) and not unanswered) or "No authentication methods" in str(
        error
    ):
        what = f"{target} refuses the login of {connection.user}"
        why = "it accepts none of the offered keys"
        hint = f"try it in a shell: {by_hand}; a key can be named in the inventory (identity) or in ~/.ssh/config"
        if isinstance(error, paramiko.PasswordRequiredException):
            why, hint = (
                "a key needs a passphrase, and benchkit does not ask for it",
                "add the key to ssh-agent: ssh-add",
            )
        elif not isinstance(error, paramiko.AuthenticationException):
            why = "there is no key to offer"
        return HostError(what, where=where, why=why, hint=hint)
    what, reason, hint = _unreachable(error, connection, target, by_hand)
    return LostError(what, where=where, why=reason, hint=hint)


def _unreachable(error: Exception, connection: Any, target: str, by_hand: str) -> tuple[str, str, str]:  # noqa: ANN401
    if isinstance(error, socket.gaierror):
        hint = "check `address` in the inventory, or HostName in ~/.ssh/config"
        return f"the name {connection.host} does not resolve", str(error.strerror), hint
    if isinstance(error, paramiko.ssh_exception.NoValidConnectionsError):
        why = "; ".join(sorted({str(each) for each in error.errors.values()}))
        return f"cannot connect to {target}", why, "is sshd running there, and is the port right?"
    if isinstance(error, paramiko.ChannelException):
        hint = "check address and port, and that the jump host's sshd has AllowTcpForwarding on"
        return f"the jump host cannot reach {target}", error.text, hint
    if isinstance(error, TimeoutError):
        return f"no answer from {target}", f"waited {CONNECT_S} s", "is the host up, and is the address right?"
    why = str(error) or "it closed the connection"
    return f"no SSH session with {target}", why, f"is sshd running and responsive there? try it in a shell: {by_hand}"


def known_name(host: str, port: int) -> str:
    """Return a host's name as in known_hosts files."""
    return host if port == DEFAULT_PORT else f"[{host}]:{port}"


def _read_lines(file: Path) -> list[list[str]]:
    try:
        return [line.split() for line in read_regular(file).decode("utf-8", "replace").splitlines()]
    except OSError:  # most of these files do not exist
        return []
