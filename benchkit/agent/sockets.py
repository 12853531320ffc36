"""Sockets of the host: connections to them, and the owners of ports."""

from __future__ import annotations

import contextlib
import errno
import http.client
import itertools
import os
import socket
import struct
import sys
import time
from typing import Dict, Iterable, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from benchkit.agent import operations as ops
from benchkit.agent.common import OperationError, poll_until
from benchkit.agent.operations import operation
from benchkit.agent.proc import pids, proc_stat
from benchkit.agent.processes import ProcessTable


def connect(at: ops.SocketAddress, timeout_s: float) -> socket.socket:
    """Return a connection to a server. Raises OSError."""
    if at.kind != "unix":
        return socket.create_connection((at.address, at.port), timeout_s)
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(timeout_s)
        connection.connect(at.address)
    except OSError:
        connection.close()
        raise
    return connection


class HttpConnection(http.client.HTTPConnection):
    """A connection to a TCP address or a unix socket, opened by the first request and again after it was closed."""

    def __init__(self, at: ops.SocketAddress, timeout_s: float) -> None:
        super().__init__("localhost" if at.kind == "unix" else at.address, at.port or 80, timeout=timeout_s)
        self._at = at
        self._timeout_s = timeout_s

    def connect(self) -> None:
        """Open the connection. Raises OSError."""
        self.sock = connect(self._at, self._timeout_s)


def read_body(response: http.client.HTTPResponse, max_bytes: int) -> bytes:
    """Return the body of a response. Raises OperationError or HTTPException if it is incomplete or too large."""
    body = response.read(max_bytes + 1)
    if len(body) > max_bytes:
        raise OperationError("too-large", f"the response has more than {max_bytes} bytes")
    if response.length:
        raise OperationError("no-http", "the response is incomplete", f"{response.length} bytes are missing")
    return body


TCP, UDP = "tcp", "udp"
BOUND = {TCP: b"0A", UDP: b"07"}
"""State in /proc/net/tcp of a listening socket, and in /proc/net/udp of one that is bound and not connected."""

INITIAL_BYTES = 1200
"""Smallest first datagram of a client (RFC 9000, 14.1)."""
RESERVED_VERSION = 0x1A2A3A4A
"""A version that no server speaks: a server answers it with its own versions (RFC 9000, 15 and 6.1)."""
ANSWER_S = 0.5

SOCKET_LINK = "socket:["
"""Prefix of the targets of /proc/PID/fd links to sockets; the inode and a bracket follow."""


class SocketProbes:
    """Reader of the host's sockets: listeners and their owners."""

    def __init__(self, processes: ProcessTable) -> None:
        self._processes = processes

    @operation()
    def probe_port(self, at: ops.SocketAddress, timeout_s: float, process: Optional[int] = None) -> ops.PortProbe:
        """Wait until a socket accepts connections, or until a started process has ended."""
        began = time.monotonic()
        error: Optional[str] = None
        for _ in poll_until(began + timeout_s, 0.0005, 0.02):
            has_ended = process is not None and self._processes.child(process).ended is not None
            error = _try_to_connect(at, max(0.05, began + timeout_s - time.monotonic()))
            if error is None or has_ended:
                break
        ended = process is not None and self._processes.child(process).ended is not None
        return ops.PortProbe(error is None, time.monotonic() - began, error, ended)

    @operation()
    def get_http(
        self,
        at: ops.SocketAddress,
        timeout_s: float,
        path: str = "/",
        headers: Sequence[Tuple[str, str]] = (),
        max_bytes: int = 1 << 20,
    ) -> ops.HttpPage:
        """Send a GET request over HTTP/1.1 and a new connection; a larger body than `max_bytes` is an error."""
        connection = HttpConnection(at, timeout_s)
        try:
            connection.putrequest("GET", path, skip_host=True, skip_accept_encoding=True)
            for name, value in headers:
                connection.putheader(name, value)
            connection.endheaders()
            response = connection.getresponse()
            return ops.HttpPage(response.status, read_body(response, max_bytes))
        except socket.timeout:
            raise OperationError("timeout", "the response took too long") from None
        except (http.client.HTTPException, ValueError) as error:
            raise OperationError("no-http", "no HTTP response", repr(error)) from None
        finally:
            connection.close()

    @operation()
    def port_owners(self, ports: Sequence[int], udp: bool = False) -> Dict[int, List[ops.PortOwner]]:  # noqa: FBT001, FBT002 - as JSON
        """Return the listening sockets on each of these TCP or UDP ports, with their visible processes."""
        sockets = [each for each in bound_sockets(UDP if udp else TCP) if each.port in ports]
        owners = {each.inode: ops.PortOwner(each.port, each.address, each.uid, None, None) for each in sockets}
        _find_processes(owners)
        return {port: [owner for owner in owners.values() if owner.port == port] for port in ports}

    @operation()
    def listeners(self, process: int, udp: bool = False) -> List[Tuple[str, int]]:  # noqa: FBT001, FBT002 - as JSON
        """Return the TCP or UDP addresses on which a started process and its descendants listen."""
        tree = self._processes.trees().get(process, ())
        inodes = {inode for each in tree for inode in socket_inodes(each.pid)}
        sockets = bound_sockets(UDP if udp else TCP)
        return sorted({(each.address, each.port) for each in sockets if each.inode in inodes})


def _try_to_connect(at: ops.SocketAddress, timeout_s: float) -> Optional[str]:
    """Try to connect, or to get an answer of a QUIC server; return the reason of a failure, else None.

    Without a listener, a connection can reach itself if the kernel chooses the same source port (RFC 9293, 3.5,
    simultaneous open). It is reset at once; otherwise the port would stay in use for a minute.
    """
    try:
        if at.kind == "udp":
            _ask_versions((at.address, at.port), min(timeout_s, ANSWER_S))
            return None
        with connect(at, min(timeout_s, 1.0)) as connection:
            if at.kind == "tcp" and connection.getsockname() == connection.getpeername():
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                return os.strerror(errno.ECONNREFUSED)
    except socket.timeout:
        return "no answer"
    except OSError as error:
        return error.strerror or str(error)
    return None


def _ask_versions(address: Tuple[str, int], timeout_s: float) -> None:
    """Send a QUIC server a version that it does not know, and wait for its Version Negotiation packet (RFC 8999, 6).

    No connection is opened. Raises OSError where there is no answer, or no QUIC.
    """
    identity = os.urandom(8)
    packet = struct.pack(">BIB8sB8s", 0xC0, RESERVED_VERSION, len(identity), identity, len(identity), identity)
    family, kind, protocol, _, found = socket.getaddrinfo(*address, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind, protocol) as connection:
        connection.settimeout(timeout_s)
        connection.connect(found)
        connection.send(packet.ljust(INITIAL_BYTES, b"\0"))
        answer = connection.recv(65535)
    if not answer[0] & 0x80 or answer[1:5] != bytes(4):
        raise OSError(f"it answers {answer[:16].hex()}, which is not QUIC")


class BoundSocket(NamedTuple):
    """A listening TCP socket, or a UDP socket that is bound and not connected."""

    inode: int
    address: str
    port: int
    uid: int


def bound_sockets(kind: str) -> Iterator[BoundSocket]:
    """Yield the listening TCP sockets, or the bound UDP sockets, of IPv4, then of IPv6."""
    for name, family in ((kind, socket.AF_INET), (f"{kind}6", socket.AF_INET6)):
        with contextlib.suppress(FileNotFoundError), open(f"/proc/self/net/{name}", "rb") as table:  # noqa: PTH123 - often
            yield from parse_bound(table, kind, family)


def parse_bound(table: Iterable[bytes], kind: str, family: int) -> Iterator[BoundSocket]:
    """Parse the lines of /proc/net/tcp or udp.

    Reading ends with the first TCP socket of another state: the kernel lists those after the listening ones
    (tcp_ipv4.c of Linux), and a busy host has many.
    """
    for line in itertools.islice(table, 1, None):
        field = line.split()
        if field[3] == BOUND[kind]:
            address, port = kernel_endpoint(field[1].decode(), family)
            yield BoundSocket(int(field[9]), address, port, int(field[7]))
        elif kind == TCP:
            return


def kernel_endpoint(text: str, family: int) -> Tuple[str, int]:
    """Convert an address and a port of /proc/net/tcp to the usual notation."""
    address, _, port = text.rpartition(":")
    raw = bytes.fromhex(address)  # 32-bit words in the machine's byte order
    words = [raw[i : i + 4] for i in range(0, len(raw), 4)]
    network = b"".join(word[::-1] if sys.byteorder == "little" else word for word in words)
    return socket.inet_ntop(family, network), int(port, 16)


def _find_processes(sockets: Dict[int, ops.PortOwner]) -> None:
    for pid in pids() if sockets else ():
        for inode in sockets.keys() & set(socket_inodes(pid)):
            owner, process = sockets[inode], proc_stat(pid)
            if owner.pid is None and process is not None:
                owner.pid, owner.command, owner.start = pid, process.name, process.start


def socket_inodes(pid: int) -> Iterator[int]:
    """Yield the inodes of the sockets that a process has open; none where it has ended or belongs to another user."""
    with contextlib.suppress(OSError):
        for entry in os.scandir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                target = os.readlink(entry.path)  # noqa: PTH115 - thousands of links
                if target.startswith(SOCKET_LINK):
                    yield int(target[len(SOCKET_LINK) : -1])
