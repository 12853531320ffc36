"""Collectors of the sockets of services, from sock_diag(7): accept queues, their limits, and established connections.

The kernel is asked directly: a program that lists sockets delays servers and load tools by milliseconds.
"""

from __future__ import annotations

import ctypes
import os
import socket
import struct
import sys
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Callable, Dict, Generic, Iterator, NamedTuple, Optional, Sequence, Set, TypeVar

from benchkit.agent.common import OperationError, Values
from benchkit.agent.operations import SocketAddress

NETLINK_SOCK_DIAG = 4
CLONE_NEWNET = 0x40000000
SOCK_DIAG_BY_FAMILY, DUMP = 20, 0x301
"""Type and flags of a request for all sockets of a family (linux/sock_diag.h, netlink.h)."""
ERROR, DONE = 2, 3
"""Types of the messages that end an answer (linux/netlink.h)."""
ESTABLISHED, LISTEN = 1, 10
"""Numbers of states, of TCP and of unix sockets (net/tcp_states.h)."""
SHOWN = 0x1 | 0x10
"""Attributes of unix sockets: their names and queues (linux/unix_diag.h)."""
NAME, QUEUES = 0, 4
BUFFER_BYTES = 1 << 16
"""Part of an answer; the kernel sends at most 32 KiB (af_netlink.c)."""

HEADER = struct.Struct("=IHHII")
"""Length with the header, type, flags, sequence number and port of a message."""
TCP_REQUEST = struct.Struct("=BBxxI48x")
"""Family, protocol and states (linux/inet_diag.h, inet_diag_req_v2)."""
TCP_SOCKET = struct.Struct("=Bxxx2s2x16s32xIIII")
"""Family, port, address, both queues, user and inode (inet_diag_msg)."""
UNIX_REQUEST = struct.Struct("=BxxxIIIII")
"""Family, states, inode, attributes and cookie (unix_diag_req)."""
UNIX_SOCKET = struct.Struct("=4xI8x")
"""Inode (unix_diag_msg); attributes follow."""
ATTRIBUTE = struct.Struct("=HH")
"""Length with this head, and type."""

T = TypeVar("T")


class Socket(NamedTuple):
    """A socket, and the number and limit of connections in its accept queue if it listens."""

    inode: int
    place: str
    """Its port, or the path of a unix socket."""
    address: str
    """An IP address with its port, or the path of a unix socket."""
    queued: int
    limit: int


def parse_tcp(message: bytes) -> Socket:
    """Return a TCP socket of an answer."""
    family, port_bytes, raw, queued, limit, _, inode = TCP_SOCKET.unpack_from(message)
    port = str(int.from_bytes(port_bytes, "big"))
    host = socket.inet_ntop(family, raw) if family == socket.AF_INET6 else socket.inet_ntop(family, raw[:4])
    return Socket(inode, port, f"[{host}]:{port}" if family == socket.AF_INET6 else f"{host}:{port}", queued, limit)


def parse_unix(message: bytes) -> Socket:
    """Return a unix socket of an answer; its path is empty where it has none."""
    (inode,) = UNIX_SOCKET.unpack_from(message)
    path, queued, limit, at = "", 0, 0, UNIX_SOCKET.size
    while at < len(message):
        length, kind = ATTRIBUTE.unpack_from(message, at)
        value = message[at + ATTRIBUTE.size : at + length]
        if kind == NAME:
            path = os.fsdecode(value.rstrip(b"\0"))
        elif kind == QUEUES:
            queued, limit = struct.unpack("=II", value)
        at += _aligned(length)
    return Socket(inode, path, path, queued, limit)


def _aligned(length: int) -> int:
    return (length + 3) & ~3


def network_of(pids: Sequence[int]) -> Optional[int]:
    """Return the first of these processes outside the agent's network namespace; None: all are in it."""
    own = _network_id("self")
    return next((pid for pid in pids if _network_id(str(pid)) not in (own, None)), None)


def _network_id(process: str) -> Optional[str]:
    try:
        return os.readlink(f"/proc/{process}/ns/net")  # noqa: PTH115 - as all of the agent
    except OSError:
        return None


class SharedReading(Generic[T]):
    """A reading for many services, repeated when one of them asks for it a second time; safe for many threads.

    All sockets are listed at once, and a sliced block has a server for each of its cells.
    """

    def __init__(self, read: Callable[[], T]) -> None:
        self._read = read
        self._lock = threading.Lock()
        self._served: Set[object] = set()
        self._found: Optional[T] = None

    def of(self, service: object) -> T:
        """Return a reading that this service has not had yet. Raises OperationError."""
        with self._lock:
            if self._found is None or service in self._served:
                self._served, self._found = set(), None
                self._found = self._read()
            self._served.add(service)
            return self._found


class SocketTable:
    """The sockets of a network namespace: that of a process, or the agent's own (None)."""

    def __init__(self, pid: Optional[int]) -> None:
        self._lock = threading.Lock()
        self._pid = pid
        self._netlink: Optional[socket.socket] = None
        self.kinds: Set[str] = set()
        """Kinds of sockets that are asked for: `tcp` and `unix`."""
        self.listeners = SharedReading(lambda: sorted(self._list(LISTEN)))
        self.connections = SharedReading(lambda: Counter(each.place for each in self._list(ESTABLISHED)))

    def _list(self, state: int) -> Iterator[Socket]:
        if "tcp" in self.kinds:
            for family in (socket.AF_INET, socket.AF_INET6):
                request = TCP_REQUEST.pack(family, socket.IPPROTO_TCP, 1 << state)
                yield from map(parse_tcp, self._ask(request))
        if "unix" in self.kinds:
            request = UNIX_REQUEST.pack(socket.AF_UNIX, 1 << state, 0, SHOWN, 0, 0)
            yield from map(parse_unix, self._ask(request))

    def _ask(self, request: bytes) -> Sequence[bytes]:
        """Return the messages of an answer. Raises OperationError."""
        try:
            with self._lock:
                if self._netlink is None:
                    self._netlink = _netlink_in(self._pid)
                self._netlink.send(HEADER.pack(HEADER.size + len(request), SOCK_DIAG_BY_FAMILY, DUMP, 0, 0) + request)
                return list(_messages(self._netlink))
        except OSError as error:
            raise OperationError("unavailable", "sockets: the kernel does not list them", error.strerror) from None

    def close(self) -> None:
        """Close the connection to the kernel."""
        with self._lock:
            if self._netlink is not None:
                self._netlink.close()


def _netlink_in(pid: Optional[int]) -> socket.socket:
    """Return a netlink socket in the network namespace of a process. Raises OSError."""

    def opened() -> socket.socket:
        if pid is not None:
            libc = ctypes.CDLL(None, use_errno=True)
            with open(f"/proc/{pid}/ns/net") as namespace:  # noqa: PTH123 - as all of the agent
                if libc.setns(namespace.fileno(), CLONE_NEWNET):
                    raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        return socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_SOCK_DIAG)

    with ThreadPoolExecutor(1) as thread:  # setns(2) moves the calling thread, which ends then
        return thread.submit(opened).result()


def _messages(netlink: socket.socket) -> Iterator[bytes]:
    """Yield what the messages of an answer hold, up to its end. Raises OSError where the kernel refuses the request."""
    while True:
        part, at = netlink.recv(BUFFER_BYTES), 0
        while at < len(part):
            length, kind, *_ = HEADER.unpack_from(part, at)
            content = part[at + HEADER.size : at + length]
            if kind == DONE:
                return
            if kind == ERROR:
                code = -int.from_bytes(content[:4], sys.byteorder, signed=True)
                raise OSError(code, os.strerror(code))
            yield content
            at += _aligned(length)


class ServiceSockets:
    """The sockets of a service, by port or path, among those of its network namespace."""

    def __init__(self, listeners: Sequence[SocketAddress], table: SocketTable) -> None:
        self._table = table
        table.kinds.update(each.kind for each in listeners)
        self._places = [
            *(str(each.port) for each in listeners if each.kind == "tcp"),
            *(each.address for each in listeners if each.kind == "unix"),
        ]
        self._names: Dict[int, str] = {}

    def accept_queues(self) -> Values:
        """Return queue length and limit by socket.

        Several sockets of one address (SO_REUSEPORT) are numbered: `10.0.0.1:80#2`.
        """
        found: Values = {}
        for each in self._table.listeners.of(self):
            if each.place in self._places:
                name = self._name(each)
                found["accept_queue", name], found["accept_queue_limit", name] = each.queued, each.limit
        if not found:
            raise OperationError("unavailable", f"accept queues: no listening socket at {', '.join(self._places)}")
        return found

    def connections(self) -> Values:
        """Return the number of established connections by port and path. Raises OperationError."""
        ends = self._table.connections.of(self)
        return {("connections_established", place): ends[place] for place in self._places}

    def _name(self, listener: Socket) -> str:
        if listener.inode not in self._names:
            before = sum(name.partition("#")[0] == listener.address for name in self._names.values())
            self._names[listener.inode] = f"{listener.address}#{before + 1}" if before else listener.address
        return self._names[listener.inode]
