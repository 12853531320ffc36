"""Sockets on a host, as the host itself sees them: who listens, and what an HTTP request to them gets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from benchkit.errors import HostError
from benchkit.hosts.agent_link import Link
from benchkit.hosts.files import HostPath
from benchkit.hosts.processes import Process


@dataclass(frozen=True)
class Tcp:
    """A TCP address on a host."""

    address: str
    port: int

    def __str__(self) -> str:
        """`10.0.0.1:8080`, `[::1]:8080`."""
        return f"[{self.address}]:{self.port}" if ":" in self.address else f"{self.address}:{self.port}"


@dataclass(frozen=True)
class Unix:
    """A unix socket on a host."""

    path: HostPath

    def __str__(self) -> str:
        """`unix:/path`."""
        return f"unix:{self.path}"


@dataclass(frozen=True)
class HttpAnswer:
    """One HTTP response, with every byte counted; header and body names are the field's (RFC 9110)."""

    status: int
    reason: str
    header_bytes: int
    """From the status line to the empty line, both included."""
    headers: tuple[tuple[str, str], ...]
    body_bytes: int
    """Of content: without the framing of chunks."""
    body_sha256: str
    """Of all content that was read."""
    body: bytes
    """Its start."""
    complete: bool
    """Whether all of it came, and was read."""


@dataclass(frozen=True)
class Owner:
    """Who listens on a port; None where it may not be seen."""

    port: int
    address: str | None
    uid: int | None
    pid: int | None
    command: str | None

    def __str__(self) -> str:
        """`nginx (pid 12)`."""
        if self.pid is None:
            return "a process out of sight" if self.uid is None else f"a process of uid {self.uid}"
        return f"{self.command} (pid {self.pid})"


class Sockets:
    """The sockets of one host; safe for many threads."""

    def __init__(self, link: Link, host: str) -> None:
        """Speak to the host's agent over its link."""
        self._link = link
        self._host = host

    def wait_open(self, at: Tcp | Unix, timeout_s: float, process: Process | None = None) -> float:
        """Wait until somebody takes connections; how long it took, seconds.

        Raises HostError when the time is up, and at once where `process`, which was to open the socket, has ended.
        """
        args = {**place(at), "timeout_s": timeout_s, "state": "accepting", "process": process and process.id}
        found = self._link.request("probe_port", args, time_s=timeout_s).fields
        if process is not None and found["process_ended"]:
            ended = process.wait(0)
            raise HostError(f"{process.argv[0]} ended before it listened on {at}", where=self._host, why=str(ended))
        if not found["reached"]:
            raise HostError(f"nobody listens on {at}", where=self._host, why=f"{found['error']} for {timeout_s:g} s")
        return float(found["elapsed_s"])

    def wait_closed(self, at: Tcp | Unix, timeout_s: float) -> float:
        """Wait until nobody takes connections any more; how long it took, seconds. Raises HostError."""
        args = {**place(at), "timeout_s": timeout_s, "state": "closed"}
        found = self._link.request("probe_port", args, time_s=timeout_s).fields
        if not found["reached"]:
            raise HostError(f"somebody still listens on {at}", where=self._host, why=f"after {timeout_s:g} s")
        return float(found["elapsed_s"])

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
        """One HTTP/1.1 request over a connection of its own; at most `max_body` bytes of content come back.

        Headers are sent as given: `Host` and what else the request needs are up to the caller. Raises HostError.
        """
        args = {**place(at), "timeout_s": timeout_s, "method": method, "path": path}
        args |= {"headers": list(headers), "max_body": max_body}
        reply = self._link.request("http_probe", args, body, time_s=timeout_s)
        fields = dict(reply.fields)
        pairs = tuple((name, value) for name, value in fields.pop("headers"))
        return HttpAnswer(headers=pairs, body=reply.body, **fields)

    def owners(self, ports: Iterable[int]) -> Mapping[int, tuple[Owner, ...]]:
        """Who listens on each of these TCP ports, on any address; none where it is free."""
        found = self._link.request("port_owners", {"ports": list(ports)}).fields["owners"]
        return {int(port): tuple(Owner(**owner) for owner in owners) for port, owners in found.items()}

    def require_free(self, ports: Iterable[int]) -> None:
        """Raise HostError naming who holds one of these TCP ports."""
        taken = {port: owners for port, owners in self.owners(ports).items() if owners}
        if taken:
            why = "; ".join(f"port {port} by {', '.join(map(str, owners))}" for port, owners in taken.items())
            what = "a port is taken" if len(taken) == 1 else "ports are taken"
            raise HostError(what, where=self._host, why=why, hint="stop what listens there, or choose another port")


def place(at: Tcp | Unix) -> dict[str, Any]:
    """A socket as the agent is told of it."""
    return {"tcp": [at.address, at.port]} if isinstance(at, Tcp) else {"unix": str(at.path)}
