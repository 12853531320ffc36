"""Sockets of the host: connections to them, HTTP requests, and the owners of ports."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import struct
import sys
import time
from typing import Dict, Iterable, List, Optional, Tuple

from benchkit.agent.common import Answer, RefusedError, poll_until, read_text
from benchkit.agent.frames import Json
from benchkit.agent.http_response import HttpResponse
from benchkit.agent.proc import pids, proc_stat
from benchkit.agent.processes import Processes

TCP_LISTEN = "0A"  # include/net/tcp_states.h, as /proc/net/tcp writes it


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
    ) -> Answer:
        """Send an HTTP/1.1 request over a new connection; return the response with every byte counted.

        The body of the answer is the first `max_body` bytes of the response; the hash is over everything that was read.
        """
        lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers), "", ""]
        if any(part in line for line in lines for part in "\r\n"):
            raise RefusedError("bad-request", "a line break within a request line or header")
        deadline = time.monotonic() + timeout_s
        with self._socket(tcp, unix, timeout_s) as connection:
            connection.settimeout(max(0.001, deadline - time.monotonic()))
            connection.sendall("\r\n".join(lines).encode("latin-1") + body)
            response = HttpResponse(connection, deadline, max_body, max_total)
            response.read(method)
        return response.report(), bytes(response.body_start)

    def port_owners(self, *, ports: List[int]) -> Json:
        """Return the listeners on each of these TCP ports, with pid and command where they are visible."""
        bindable = {port: is_free(port) for port in ports}
        busy = [port for port in ports if not bindable[port]]
        listening: Dict[int, Json] = {}
        for name, family in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)) if busy else ():
            for line in (read_text(f"/proc/net/{name}") or "").splitlines()[1:]:
                field = line.split()
                port = int(field[1].rpartition(":")[2], 16)
                if port in busy and field[3] == TCP_LISTEN:
                    address = kernel_address(field[1].rpartition(":")[0], family)
                    listening[int(field[9])] = {"port": port, "address": address, "uid": int(field[7])}
        holders = holders_of(set(listening)) if listening else {}
        owners: Dict[str, List[Json]] = {str(port): [] for port in ports}
        for inode, socket_ in listening.items():
            process = proc_stat(holders.get(inode, 0))
            owner = {"pid": process.pid, "command": process.name} if process else {"pid": None, "command": None}
            owners[str(socket_["port"])].append({**socket_, **owner})
        for port in busy:  # bound without a listener, or the listener is not visible
            if not owners[str(port)] and bindable[port] is False:
                owners[str(port)].append({"port": port, "address": None, "uid": None, "pid": None, "command": None})
        return {"owners": owners}

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

        A port without a listener can connect to itself, where the kernel chooses it as source port too (RFC 9293, section
        3.5, simultaneous open). Such a connection is reset at once, or the port would be in use for a minute.
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
    wanted = {f"socket:[{inode}]": inode for inode in inodes}
    found: Dict[int, int] = {}
    for pid in pids():
        with contextlib.suppress(OSError):  # of another user, or ended meanwhile
            for entry in os.scandir(f"/proc/{pid}/fd"):
                with contextlib.suppress(OSError):
                    target = os.readlink(entry.path)  # noqa: PTH115 - thousands of them
                    if target in wanted:
                        found.setdefault(wanted[target], pid)
    return found
