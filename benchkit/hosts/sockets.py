"""Sockets on a host, checked from the host itself: listeners, their owners, and answers to HTTP requests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from benchkit.agent import operations as ops
from benchkit.agent.operations import SocketAddress
from benchkit.agent.sockets import SocketProbes
from benchkit.errors import HostError, HostStateError
from benchkit.hosts.agent_link import AgentLink
from benchkit.hosts.processes import HostProcess

IPV4_MAPPED = "::ffff:"
"""Prefix of an IPv4 address of an IPv6 socket (RFC 4291, section 2.5.5.2)."""


class PortTakenError(HostStateError):
    """A service's port that another program's socket uses."""


class Sockets:
    """The sockets of one host; safe for many threads."""

    def __init__(self, link: AgentLink, host: str) -> None:
        self._link = link
        self._host = host

    def wait_open(
        self, at: SocketAddress, timeout_s: float, process: HostProcess | None = None, *, waited_s: float = 0.0
    ) -> float:
        """Wait until a socket accepts connections or answers QUIC; return the seconds it took.

        `waited_s` is the time that the caller has waited already, for messages. Raises HostError at the timeout, and
        at once where `process`, which should open the socket, has ended.
        """
        number = None if process is None else process.id
        probe = self._link.call_within(timeout_s, SocketProbes.probe_port, at, timeout_s, number)
        if process is not None and probe.process_ended:
            ended = process.wait(0)
            raise HostError(f"{process.argv[0]} ended before it listened on {at}", where=self._host, why=str(ended))
        if not probe.reached:
            hint = "does a firewall drop UDP, or does the server speak only TCP?" if at.kind == "udp" else None
            why = f"{probe.error} for {waited_s + timeout_s:g} s"
            raise HostError(f"cannot connect to {at}", where=self._host, why=why, hint=hint)
        return probe.elapsed_s

    def get_http(
        self,
        at: SocketAddress,
        path: str = "/",
        *,
        host_header: str = "localhost",
        timeout_s: float = 10,
        max_bytes: int = 1 << 20,
    ) -> ops.HttpPage:
        """Send a GET request over HTTP/1.1 without TLS, and return the response. Raises HostError."""
        headers = [("Host", host_header), ("Connection", "close")]
        return self._link.call_within(timeout_s, SocketProbes.get_http, at, timeout_s, path, headers, max_bytes)

    def listeners(self, process: HostProcess, *, udp: bool = False) -> tuple[SocketAddress, ...]:
        """Return the TCP or UDP addresses on which a process and its descendants listen. Raises HostError.

        The IPv4 address of an IPv6 socket (`::ffff:10.0.0.1`, as Java binds it) is returned as an IPv4 address.
        """
        found = self._link.call(SocketProbes.listeners, process.id, udp)
        return tuple(
            SocketAddress("udp" if udp else "tcp", address.removeprefix(IPV4_MAPPED), port) for address, port in found
        )

    def require_free(self, ports: Iterable[int], *, udp: bool = False) -> None:
        """Raise PortTakenError, naming the owners, where one of these TCP or UDP ports is taken."""
        found = self._link.call(SocketProbes.port_owners, list(ports), udp)
        taken = {port: owners for port, owners in found.items() if owners}
        if taken:
            raise self._taken(taken)

    def require_own_listener(self, process: HostProcess, at: SocketAddress, wait_s: float, older_wait_s: float) -> None:
        """Check that a process or its descendants listen on the port of an address that answers.

        Raises PortTakenError where another program listens and the process therefore ends within `wait_s` seconds. The
        time is `older_wait_s` for a program older than the process, which the process most likely did not start. A
        process that keeps running lets another program listen for it, as containers do.
        """
        port = at.port
        if any(each.port == port for each in self.listeners(process, udp=at.kind == "udp")):
            return
        owners = self._link.call(SocketProbes.port_owners, [port], at.kind == "udp")
        is_older = any(owner.start is not None and owner.start < process.start for owner in owners[port])
        ended = process.wait(older_wait_s if is_older else wait_s)
        if ended is None:
            return
        if owners[port]:
            raise self._taken(owners)
        raise HostError(f"{process.argv[0]} ended after port {port} had opened", where=self._host, why=str(ended))

    def _taken(self, taken: Mapping[int, Sequence[ops.PortOwner]]) -> PortTakenError:
        why = "; ".join(f"port {port} by {', '.join(map(str, owners))}" for port, owners in taken.items())
        what = "a port is taken" if len(taken) == 1 else "ports are taken"
        hint = "stop the program that has it, or choose another port"
        return PortTakenError(what, where=self._host, why=why, hint=hint)
