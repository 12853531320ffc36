"""Sockets of the host: connections to them, HTTP requests, and the owners of ports."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import struct
import sys
import time
from typing import Dict, Iterable, Iterator, List, Optional, Tuple

from benchkit.agent.common import Answer, RefusedError, poll_until, read_text
from benchkit.agent.frames import Json
from benchkit.agent.http2_stream import Http2Stream
from benchkit.agent.http_response import HttpResponse
from benchkit.agent.proc import pids, proc_stat
from benchkit.agent.processes import Processes

TCP_LISTEN = "LISTEN"
TCP_STATES = {
    "01": "ESTAB",
    "02": "SYN-SENT",
    "03": "SYN-RECV",
    "04": "FIN-WAIT-1",
    "05": "FIN-WAIT-2",
    "06": "TIME-WAIT",
    "07": "CLOSE",
    "08": "CLOSE-WAIT",
    "09": "LAST-ACK",
    "0A": TCP_LISTEN,
    "0B": "CLOSING",
}
"""Names of the states of include/net/tcp_states.h, as ss(8) prints them; /proc/net/tcp has the numbers."""

SOCKET_LINK = "socket:["
"""Start of the target of a link in /proc/PID/fd to a socket; its inode and a bracket follow."""

MAX_OWNERS = 5
"""Sockets named for a port: a server that has just ended can leave thousands of connections."""


class Sockets:
    """Checks of the host's sockets: listeners, their owners, and answers to HTTP requests."""

    def __init__(self, processes: Processes) -> None:
        self._processes = processes

    def probe_port(
        self,
        *,
        timeout_s: float,
        tcp: Optional[Tuple[str, int]] = None,
        unix: Optional[str] = None,
        state: str = "accepting",
        process: Optional[int] = None,
    ) -> Json:
        """Wait until a socket is "accepting" connections or "closed", or until `process` has ended."""
        began = time.monotonic()
        reached, error = False, None
        for _ in poll_until(began + timeout_s, 0.0005, 0.02):
            has_ended = process is not None and self._processes.has_ended(process)
            error = self._try_to_connect(tcp, unix, max(0.05, began + timeout_s - time.monotonic()))
            reached = (error is None) == (state == "accepting")
            if reached or has_ended:
                break
        ended = process is not None and self._processes.has_ended(process)
        return {"reached": reached, "elapsed_s": time.monotonic() - began, "error": error, "process_ended": ended}

    def http_probe(
        self,
        *,
        timeout_s: float,
        tcp: Optional[Tuple[str, int]] = None,
        unix: Optional[str] = None,
        method: str = "GET",
        path: str = "/",
        headers: Iterable[Tuple[str, str]] = (),
        max_body: int = 4096,
        max_total: int = 64 << 20,
        body: bytes = b"",
        http2_bytes: int = 0,
        http2: bool = False,
        tls: Optional[Json] = None,
    ) -> Answer:
        """Send a request over a new connection; return the response with every byte counted.

        The body of the answer is the first `max_body` bytes of the response; the hash is over everything that was read.
        With `tls` (see `benchkit.agent.tls`) the connection is encrypted, and what was negotiated is returned. Where
        that is HTTP/2, or `http2` says so, the last `http2_bytes` of `body` are sent instead, the same request in
        HTTP/2; the body of the answer is then all that came back.
        """
        plain = len(body) - http2_bytes
        lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers), "", ""]
        if any(part in line for line in lines for part in "\r\n"):
            raise RefusedError("bad-request", "a line break within a request line or header")
        deadline = time.monotonic() + timeout_s
        with contextlib.ExitStack() as stack:
            connection = stack.enter_context(self._socket(tcp, unix, timeout_s))
            connection.settimeout(max(0.001, deadline - time.monotonic()))
            agreed: Optional[Json] = None
            if tls is not None:
                from benchkit.agent.tls import negotiated, wrapped  # noqa: PLC0415 - slow, and few trials have TLS

                connection = encrypted = stack.enter_context(wrapped(connection, tls))
                agreed = negotiated(encrypted)
                http2 = agreed["alpn"] == "h2"
            if http2:
                connection.sendall(body[plain:])
                stream = Http2Stream(connection, deadline, max_total)
                stream.read()
                return {"http2": True, "negotiated": agreed}, bytes(stream.received)
            connection.sendall("\r\n".join(lines).encode("latin-1") + body[:plain])
            response = HttpResponse(connection, deadline, max_body, max_total)
            response.read(method)
        return {**response.report(), "http2": False, "negotiated": agreed}, bytes(response.body_start)

    def port_owners(self, *, ports: List[int]) -> Json:
        """Return what has each of these TCP ports, with its process where that is visible; nothing for a free one.

        That is the listeners; where there are none and no server could listen, the connections that have the port at
        this end: outgoing ones may have any port of ip_local_port_range, and keep it for a minute after their end
        (TIME-WAIT).
        """
        bindable = {port: is_free(port) for port in ports}
        busy = [port for port in ports if not bindable[port]]
        sockets = [each for each in _tcp_sockets() if each["port"] in busy] if busy else []
        owners: Dict[str, List[Json]] = {str(port): [] for port in ports}
        for port in busy:
            of_port = [each for each in sockets if each["port"] == port]
            listeners = [each for each in of_port if each["state"] == TCP_LISTEN]
            if listeners or bindable[port] is False:
                owners[str(port)] = listeners or of_port[:MAX_OWNERS]
                if not owners[str(port)]:  # bound, and neither listening nor connected
                    owners[str(port)] = [{"port": port, "address": None, "uid": None, "inode": 0}]
        named = [each for of_port in owners.values() for each in of_port]
        holders = holders_of({each["inode"] for each in named} - {0}) if named else {}
        for each in named:
            process = proc_stat(holders.get(each.pop("inode"), 0))
            each.update(
                pid=process.pid if process else None,
                command=process.name if process else None,
                start=process.start if process else None,
            )
        return {"owners": owners}

    def listeners(self, *, process: int) -> Json:
        """Return the TCP addresses on which a started process and its descendants listen."""
        inodes = {inode for each in self._processes.trees().get(process, ()) for inode in socket_inodes(each.pid)}
        found = {
            (each["address"], each["port"])
            for each in _tcp_sockets()
            if each["state"] == TCP_LISTEN and each["inode"] in inodes
        }
        return {"listeners": sorted(found)}

    def _socket(self, tcp: Optional[Tuple[str, int]], unix: Optional[str], timeout_s: float) -> socket.socket:
        if tcp is not None:
            return socket.create_connection((tcp[0], tcp[1]), timeout_s)
        if unix is None:
            raise RefusedError("bad-request", "neither a TCP address nor the path of a socket")
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.settimeout(timeout_s)
            connection.connect(unix)
        except OSError:
            connection.close()
            raise
        return connection

    def _try_to_connect(self, tcp: Optional[Tuple[str, int]], unix: Optional[str], timeout_s: float) -> Optional[str]:
        """Try to connect; return the reason of a failure.

        A port without a listener can connect to itself, where the kernel chooses it as source port too (RFC 9293,
        section 3.5, simultaneous open). Such a connection is reset at once, or the port would be in use for a minute.
        """
        try:
            with self._socket(tcp, unix, min(timeout_s, 1.0)) as connection:
                if tcp is not None and connection.getsockname() == connection.getpeername():
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    return os.strerror(errno.ECONNREFUSED)
        except socket.timeout:
            return "no answer"
        except OSError as error:
            return error.strerror or str(error)
        return None


def _tcp_sockets() -> Iterator[Json]:
    """Yield all TCP sockets of the host: the port at this end, and the peer of a connection."""
    for name, family in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)):
        for line in (read_text(f"/proc/net/{name}") or "").splitlines()[1:]:
            field = line.split()
            address, _, port = field[1].rpartition(":")
            peer, _, peer_port = field[2].rpartition(":")
            state = TCP_STATES.get(field[3], field[3])
            text = kernel_address(peer, family)
            text = f"[{text}]" if family == socket.AF_INET6 else text
            yield {
                "port": int(port, 16),
                "address": kernel_address(address, family),
                "uid": int(field[7]),
                "inode": int(field[9]),
                "state": state,
                "peer": None if state == TCP_LISTEN else f"{text}:{int(peer_port, 16)}",
            }


def is_free(port: int) -> Optional[bool]:
    """Return True where a server could listen on this port now; None where this user may not try.

    Less expensive than reading all sockets of the host.
    """
    for family, address in ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")):  # noqa: S104 - bound, not listening
        try:
            with socket.socket(family, socket.SOCK_STREAM) as attempt:
                attempt.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    attempt.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                attempt.bind((address, port))
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EPERM):
                return None
            if error.errno not in (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL):
                return False
    return True


def kernel_address(text: str, family: int) -> str:
    """Convert an address of /proc/net/tcp (32-bit words in the machine's byte order) to the usual notation."""
    raw = bytes.fromhex(text)
    words = [raw[i : i + 4] for i in range(0, len(raw), 4)]
    return socket.inet_ntop(family, b"".join(word[::-1] if sys.byteorder == "little" else word for word in words))


def holders_of(inodes: Iterable[int]) -> Dict[int, int]:
    """Return the lowest pid that has each of these sockets open, as far as it is visible."""
    wanted = set(inodes)
    found: Dict[int, int] = {}
    for pid in pids():
        for inode in wanted.intersection(socket_inodes(pid)):
            found.setdefault(inode, pid)
    return found


def socket_inodes(pid: int) -> Iterator[int]:
    """Yield the inodes of the sockets that a process has open; none where it has ended or belongs to another user."""
    with contextlib.suppress(OSError):
        for entry in os.scandir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                target = os.readlink(entry.path)  # noqa: PTH115 - thousands of them
                if target.startswith(SOCKET_LINK):
                    yield int(target[len(SOCKET_LINK) : -1])
