"""Sockets on a host, checked from the host itself: listeners, their owners, and answers to HTTP requests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from benchkit.errors import HostError, HostStateError
from benchkit.hosts.agent_link import Link
from benchkit.hosts.files import HostPath
from benchkit.hosts.processes import Process

TIME_WAIT = "TIME-WAIT"
"""State in which the kernel keeps a port after a connection has ended, for a minute and without a process."""


@dataclass(frozen=True)
class Tcp:
    """A TCP address on a host."""

    address: str
    port: int

    def __str__(self) -> str:
        """Return `10.0.0.1:8080` or `[::1]:8080`."""
        return f"[{self.address}]:{self.port}" if ":" in self.address else f"{self.address}:{self.port}"


@dataclass(frozen=True)
class Unix:
    """A unix socket on a host."""

    path: HostPath

    def __str__(self) -> str:
        """Return `unix:/path`."""
        return f"unix:{self.path}"


@dataclass(frozen=True)
class HttpAnswer:
    """An HTTP response, with every byte counted (terms of RFC 9110)."""

    status: int
    reason: str
    header_bytes: int
    """Bytes from the status line to the empty line, both included."""
    headers: tuple[tuple[str, str], ...]
    body_bytes: int
    """Bytes of content, without the framing of chunks."""
    body_sha256: str
    """Hash of all content that was read."""
    body: bytes
    """Start of the content."""
    complete: bool
    """True where all of the content arrived and was read."""
    closes: bool = False
    """True where the server closes the connection after it."""


@dataclass(frozen=True)
class PortOwner:
    """The socket that has a port: a listener or a connection; fields are None if the login user may not see them."""

    port: int
    address: str | None
    uid: int | None
    pid: int | None
    command: str | None
    state: str | None = None
    """State of the socket, as ss(8) names it: LISTEN, ESTAB, TIME-WAIT, …"""
    peer: str | None = None
    """Address and port of the other end of a connection."""

    def __str__(self) -> str:
        """Return `nginx (pid 12)`, or `curl (pid 13), its connection to 10.0.0.1:80 (ESTAB)`."""
        if self.pid is not None:
            process = f"{self.command} (pid {self.pid})"
        elif self.state == TIME_WAIT:
            return f"a closed connection to {self.peer} ({TIME_WAIT}, which lasts up to 60 s)"
        else:
            process = "a process that is not visible" if self.uid is None else f"a process of uid {self.uid}"
        return process if self.peer is None else f"{process}, its connection to {self.peer} ({self.state})"


class PortTakenError(HostStateError):
    """A port of a service that a socket of another program has."""


class Sockets:
    """The sockets of one host; safe for many threads."""

    def __init__(self, link: Link, host: str) -> None:
        """Send requests to the host's agent over its link."""
        self._link = link
        self._host = host

    def wait_open(
        self, at: Tcp | Unix, timeout_s: float, process: Process | None = None, *, waited_s: float = 0.0
    ) -> float:
        """Wait until a socket accepts connections; return the seconds it took.

        `waited_s` is the time that the caller has waited already, for messages. Raises HostError at the timeout, and at
        once where `process`, which should open the socket, has ended.
        """
        args = {**address_message(at), "timeout_s": timeout_s, "state": "accepting", "process": process and process.id}
        probe = self._link.request("probe_port", args, timeout_s=timeout_s).fields
        if process is not None and probe["process_ended"]:
            ended = process.wait(0)
            raise HostError(f"{process.argv[0]} ended before it listened on {at}", where=self._host, why=str(ended))
        if not probe["reached"]:
            raise HostError(
                f"cannot connect to {at}", where=self._host, why=f"{probe['error']} for {waited_s + timeout_s:g} s"
            )
        return float(probe["elapsed_s"])

    def wait_closed(self, at: Tcp | Unix, timeout_s: float) -> float:
        """Wait until a socket refuses connections; return the seconds it took. Raises HostError."""
        args = {**address_message(at), "timeout_s": timeout_s, "state": "closed"}
        probe = self._link.request("probe_port", args, timeout_s=timeout_s).fields
        if not probe["reached"]:
            raise HostError(f"{at} still accepts connections", where=self._host, why=f"after {timeout_s:g} s")
        return float(probe["elapsed_s"])

    def http(
        self,
        at: Tcp | Unix,
        path: str = "/",
        *,
        method: str = "GET",
        headers: Iterable[tuple[str, str]] = (),
        body: bytes = b"",
        timeout_s: float = 10,
        max_body: int = 4096,
    ) -> HttpAnswer:
        """Send an HTTP/1.1 request over a new connection; return at most `max_body` bytes of the content.

        Headers are sent as given: the caller adds `Host` and all others. Raises HostError.
        """
        args = {**address_message(at), "timeout_s": timeout_s, "method": method, "path": path}
        args |= {"headers": list(headers), "max_body": max_body}
        reply = self._link.request("http_probe", args, body, timeout_s=timeout_s)
        fields = dict(reply.fields)
        pairs = tuple((name, value) for name, value in fields.pop("headers"))
        return HttpAnswer(headers=pairs, body=reply.body, **fields)

    def owners(self, ports: Iterable[int]) -> Mapping[int, tuple[PortOwner, ...]]:
        """Return what has each of these TCP ports, on any address: listeners, else connections, if any."""
        owners_of = self._link.request("port_owners", {"ports": list(ports)}).fields["owners"]
        return {int(port): tuple(PortOwner(**owner) for owner in owners) for port, owners in owners_of.items()}

    def listeners(self, process: Process) -> tuple[Tcp, ...]:
        """Return the TCP addresses on which a process and its descendants listen. Raises HostError."""
        found = self._link.request("listeners", {"process": process.id}).fields["listeners"]
        return tuple(Tcp(address, port) for address, port in found)

    def require_free(self, ports: Iterable[int]) -> None:
        """Raise PortTakenError, naming the owners, where one of these TCP ports is taken."""
        taken = {port: owners for port, owners in self.owners(ports).items() if owners}
        if taken:
            raise self._taken(taken)

    def require_own_listener(self, process: Process, port: int, wait_s: float) -> None:
        """Check that it is a process or its descendants that listen on a port which accepts connections.

        Raises PortTakenError where another program does, and the process ends within `wait_s` seconds because of that.
        One that stays has another program listen for it, as containers do.
        """
        if any(at.port == port for at in self.listeners(process)):
            return
        owners = self.owners([port])
        ended = process.wait(wait_s)
        if ended is None:
            return
        if owners[port]:
            raise self._taken(owners)
        raise HostError(f"{process.argv[0]} ended when port {port} was open", where=self._host, why=str(ended))

    def _taken(self, taken: Mapping[int, tuple[PortOwner, ...]]) -> PortTakenError:
        why = "; ".join(f"port {port} by {', '.join(map(str, owners))}" for port, owners in taken.items())
        what = "a port is taken" if len(taken) == 1 else "ports are taken"
        return PortTakenError(what, where=self._host, why=why, hint="stop what has it, or choose another port")


def address_message(at: Tcp | Unix) -> dict[str, Any]:
    """Return the agent's message for an address."""
    return {"tcp": [at.address, at.port]} if isinstance(at, Tcp) else {"unix": str(at.path)}
