"""Collectors of the sockets of services: accept queues and established connections, over netlink (sock_diag(7))."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import socket
import struct
import threading
from pathlib import Path
from typing import Collection, Dict, Generic, Iterator, List, NamedTuple, Optional, Set, Tuple, Type, TypeVar

from benchkit.agent.collector import Collector, UnavailableError, Values
from benchkit.agent.common import with_port
from benchkit.agent.operations import SocketAddress

CLONE_NEWNET = 0x40000000  # setns(2)
NETLINK_SOCK_DIAG = 4
SOCK_DIAG_BY_FAMILY = 20
NLM_F_REQUEST, NLM_F_DUMP = 0x1, 0x300
NLMSG_ERROR, NLMSG_DONE = 2, 3

ESTABLISHED, LISTEN = 1, 10  # include/net/tcp_states.h
INET_DIAG_REQ_BYTECODE = 1
S_GE, S_LE = 2, 3  # linux/inet_diag.h, INET_DIAG_BC_S_…: source port ≥, ≤
UDIAG_SHOW_NAME, UDIAG_SHOW_RQLEN = 0x1, 0x10
UNIX_DIAG_NAME, UNIX_DIAG_RQLEN = 0, 4

MESSAGE = struct.Struct("=IHHII")
INET_REQUEST = struct.Struct("=BBBxI")
INET_ID_BYTES = 48
INET_REPLY = struct.Struct("=BBBB2s2s16s16sIIIIIIII")
UNIX_REQUEST = struct.Struct("=BBHIIIII")
UNIX_REPLY_BYTES = 16
ATTRIBUTE = struct.Struct("=HH")
OPERATION = struct.Struct("=BBH")
FAMILIES = (socket.AF_INET, socket.AF_INET6)
TIMEOUT_S = 2.0
BUFFER = 1 << 17


class Listener(NamedTuple):
    """A listening socket, with its accept queue and the limit of the queue."""

    address: str
    """An IP address with its port, or the path of a unix socket."""
    port: Optional[int]
    inode: int
    queued: int
    limit: int


class SockDiag:
    """A netlink socket for requests; for one thread at a time."""

    def __init__(self, network: Optional[int] = None) -> None:
        """Open the socket in the network namespace of the process `network`; None: the agent's.

        Raises UnavailableError where the kernel does not support it.
        """
        try:
            with _in_network(network):
                self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, NETLINK_SOCK_DIAG)
        except OSError as error:
            raise UnavailableError(f"sockets: no sock_diag: {error.strerror}") from None
        self._socket.settimeout(TIMEOUT_S)
        self._number = 0

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def tcp_listeners(self, family: int, ports: Collection[int]) -> List[Listener]:
        """Return the listening TCP sockets of a family on these ports. Raises UnavailableError."""
        found = []
        for reply in self._request(_inet(family, LISTEN)):
            _, _, _, _, port, _, source, _, _, _, _, _, queued, limit, _, inode = INET_REPLY.unpack_from(reply)
            number = int.from_bytes(port, "big")
            if number in ports:
                address = socket.inet_ntop(family, source[:4] if family == socket.AF_INET else source)
                found.append(Listener(with_port(address, number), number, inode, queued, limit))
        return found

    def tcp_established(self, ports: Collection[int]) -> Dict[int, int]:
        """Return the number of established connections to each of these ports of the host. Raises UnavailableError."""
        counts = dict.fromkeys(ports, 0)
        code = _source_ports(min(ports), max(ports))
        for reply in (reply for family in FAMILIES for reply in self._request(_inet(family, ESTABLISHED, code))):
            port = int.from_bytes(reply[4:6], "big")
            if port in counts:
                counts[port] += 1
        return counts

    def unix_listeners(self, paths: Collection[str]) -> List[Listener]:
        """Return the listening unix sockets at these paths. Raises UnavailableError."""
        found = []
        for reply in self._request(_unix(LISTEN, UDIAG_SHOW_NAME | UDIAG_SHOW_RQLEN)):
            path, queue = _unix_attributes(reply)
            if path is not None and path in paths and queue is not None:
                (inode,) = struct.unpack_from("=I", reply, 4)
                found.append(Listener(path, None, inode, *queue))
        return found

    def unix_established(self, paths: Collection[str]) -> Dict[str, int]:
        """Return the number of established connections to the unix sockets at these paths. Raises UnavailableError."""
        counts = dict.fromkeys(paths, 0)
        for reply in self._request(_unix(ESTABLISHED, UDIAG_SHOW_NAME)):
            path, _ = _unix_attributes(reply)
            if path is not None and path in counts:
                counts[path] += 1
        return counts

    def _request(self, request: bytes) -> Iterator[bytes]:
        """Yield the answers to one request, without their headers."""
        self._number += 1
        size = MESSAGE.size + len(request)
        head = MESSAGE.pack(size, SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST | NLM_F_DUMP, self._number, 0)
        try:
            self._socket.send(head + request)
            while True:
                content = self._socket.recv(BUFFER)
                at = 0
                while at < len(content):
                    length, kind, _, number, _ = MESSAGE.unpack_from(content, at)
                    body = content[at + MESSAGE.size : at + length]
                    at += (length + 3) & ~3
                    if number != self._number:  # answer to an earlier request that timed out
                        continue
                    if kind == NLMSG_DONE:
                        return
                    if kind == NLMSG_ERROR:
                        _raise_error(-struct.unpack_from("=i", body)[0])
                        return
                    yield body
        except socket.timeout:
            raise UnavailableError("sockets: sock_diag does not answer") from None
        except OSError as error:
            raise UnavailableError(f"sockets: sock_diag: {error.strerror}") from None


def network_of(pids: List[int]) -> Optional[int]:
    """Return the first of these processes outside the agent's network namespace; None: all are in it."""
    own = _network_id("self")
    return next((pid for pid in pids if _network_id(str(pid)) not in (own, None)), None)


def _network_id(process: str) -> Optional[str]:
    try:
        return os.readlink(f"/proc/{process}/ns/net")  # noqa: PTH115 - as all of the agent
    except OSError:
        return None


@contextlib.contextmanager
def _in_network(process: Optional[int]) -> Iterator[None]:
    """Move this thread to the network namespace of a process within the context (setns(2)). Raises OSError."""
    if process is None:
        yield
        return
    libc = ctypes.CDLL(None, use_errno=True)
    with Path(f"/proc/{process}/ns/net").open("rb") as there, Path("/proc/thread-self/ns/net").open("rb") as here:
        if libc.setns(there.fileno(), CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        try:
            yield
        finally:
            libc.setns(here.fileno(), CLONE_NEWNET)


def _raise_error(code: int) -> None:
    """Raise UnavailableError where the kernel has no sock_diag for a family, OSError for any other error."""
    if code == errno.ENOENT:  # no module for this family: no IPv6, or no sock_diag for unix sockets
        raise UnavailableError("sockets: the kernel has no sock_diag for them (module tcp_diag or unix_diag)")
    raise OSError(code, os.strerror(code))


def _inet(family: int, state: int, code: bytes = b"") -> bytes:
    """Encode a request for TCP sockets of one state, filtered by byte code."""
    request = INET_REQUEST.pack(family, socket.IPPROTO_TCP, 0, 1 << state) + bytes(INET_ID_BYTES)
    if code:
        request += ATTRIBUTE.pack(ATTRIBUTE.size + len(code), INET_DIAG_REQ_BYTECODE) + code
    return request


def _source_ports(least: int, most: int) -> bytes:
    """Return byte code that accepts sockets with a local port from `least` to `most`.

    Each operation has two offsets of the next one, for true and for false; one beyond the end rejects the socket.
    """
    code = b""
    for remaining, operation, port in ((2, S_GE, least), (1, S_LE, most)):
        step = 2 * OPERATION.size
        code += OPERATION.pack(operation, step, remaining * step + 4) + OPERATION.pack(0, 0, port)
    return code


def _unix(state: int, show: int) -> bytes:
    return UNIX_REQUEST.pack(socket.AF_UNIX, 0, 0, 1 << state, 0, show, 0, 0)


def _unix_attributes(reply: bytes) -> Tuple[Optional[str], Optional[Tuple[int, int]]]:
    """Return path, queue and queue limit of a unix socket, as far as the answer has them."""
    path, queue = None, None
    at = UNIX_REPLY_BYTES
    while at + ATTRIBUTE.size <= len(reply):
        length, kind = ATTRIBUTE.unpack_from(reply, at)
        value = reply[at + ATTRIBUTE.size : at + length]
        if kind == UNIX_DIAG_NAME and value[:1] != b"\0":
            path = os.fsdecode(value.rstrip(b"\0"))
        elif kind == UNIX_DIAG_RQLEN:
            queue = struct.unpack("=II", value)
        at += (length + 3) & ~3
    return path, queue


class NetworkSockets:
    """Sockets of one network namespace that services listen on, read together by one netlink socket."""

    def __init__(self, network: Optional[int]) -> None:
        self._network = network
        self._lock = threading.Lock()
        self._diag: Optional[SockDiag] = None
        self._ports: Set[int] = set()
        self._paths: Set[str] = set()

    def refresh(self) -> None:
        """Read all sockets. Raises UnavailableError."""
        with self._lock:
            if self._diag is not None:
                self._read(self._diag)

    def close(self) -> None:
        """Close the netlink socket."""
        with self._lock:
            if self._diag is not None:
                self._diag.close()

    def _open(self) -> SockDiag:
        """Return the netlink socket, with the lock held. Raises UnavailableError."""
        if self._diag is None:
            self._diag = SockDiag(self._network)
        return self._diag

    def _read(self, diag: SockDiag) -> None:
        raise NotImplementedError


Sockets = TypeVar("Sockets", bound=NetworkSockets)


class SocketsByNetwork(Generic[Sockets]):
    """Sockets of all services, by network namespace."""

    kind: Type[Sockets]

    def __init__(self) -> None:
        self._networks: Dict[Optional[int], Sockets] = {}

    def of(self, network: Optional[int]) -> Sockets:
        """Return the sockets in the network namespace of the process `network`; None: the host's own."""
        return self._networks.setdefault(network, self.kind(network))

    def refresh(self) -> None:
        """Read all sockets. Raises UnavailableError."""
        for each in list(self._networks.values()):
            each.refresh()

    def close(self) -> None:
        """Close the netlink sockets."""
        for each in list(self._networks.values()):
            each.close()


class NetworkListeners(NetworkSockets):
    """The listening sockets of one network namespace; the kernel always lists all of them."""

    def __init__(self, network: Optional[int]) -> None:
        super().__init__(network)
        self._families: Set[int] = set()
        self.current: List[Listener] = []

    def add(self, ports: List[int], paths: List[str]) -> None:
        """Add sockets by port and path. Raises UnavailableError where the kernel does not list them."""
        with self._lock:
            diag = self._open()
            self._families.update(family for family in FAMILIES if diag.tcp_listeners(family, ports))
            self._ports.update(ports)
            self._paths.update(paths)
            self._read(diag)

    def _read(self, diag: SockDiag) -> None:
        found = [each for family in self._families for each in diag.tcp_listeners(family, self._ports)]
        found += diag.unix_listeners(self._paths) if self._paths else []
        self.current = sorted(found, key=lambda each: each.inode)


class ListeningSockets(SocketsByNetwork[NetworkListeners]):
    """The listening sockets of all services."""

    kind = NetworkListeners


class AcceptQueues(Collector):
    """The listening sockets of a service, by port or path."""

    def __init__(self, ports: List[int], paths: List[str], listeners: NetworkListeners) -> None:
        self._ports = ports
        self._paths = paths
        self._listeners = listeners
        self._names: Dict[Tuple[str, int], str] = {}
        listeners.add(ports, paths)

    def sample(self) -> Values:
        """Return queue length and limit by socket.

        Several sockets of one address (SO_REUSEPORT) are numbered: `10.0.0.1:80#2`.
        """
        found: Values = {}
        for listener in self._listeners.current:
            if listener.port in self._ports or listener.address in self._paths:
                name = self._name(listener)
                found["accept_queue", name] = listener.queued
                found["accept_queue_limit", name] = listener.limit
        if not found:
            listening = ", ".join([*map(str, self._ports), *self._paths])
            raise UnavailableError(f"accept queues: no listening socket at {listening}")
        return found

    def _name(self, listener: Listener) -> str:
        key = listener.address, listener.inode
        if key not in self._names:
            before = sum(address == listener.address for address, _ in self._names)
            self._names[key] = f"{listener.address}#{before + 1}" if before else listener.address
        return self._names[key]


class NetworkConnections(NetworkSockets):
    """The numbers of connections to listening sockets in one network namespace.

    For each request the kernel walks its table of all connections, also those in TIME-WAIT: 7 ms where it is empty.
    """

    def __init__(self, network: Optional[int]) -> None:
        super().__init__(network)
        self._by_port: Dict[int, int] = {}
        self._by_path: Dict[str, int] = {}

    def add(self, at: SocketAddress) -> None:
        """Add a socket. Raises UnavailableError."""
        with self._lock:
            self._open()
            if at.tcp is not None:
                self._ports.add(at.tcp[1])
            elif at.unix is not None:
                self._paths.add(at.unix)

    def count(self, at: SocketAddress) -> Values:
        """Return the number of connections to one of the sockets, as last counted. Raises UnavailableError."""
        with self._lock:
            if at.tcp is not None:
                name, count = str(at.tcp[1]), self._by_port.get(at.tcp[1])
            else:
                name, count = str(at.unix), self._by_path.get(at.unix or "")
            if count is None:
                raise UnavailableError(f"connections: those to {name} were not counted")
            return {("connections_established", name): count}

    def _read(self, diag: SockDiag) -> None:
        self._by_port, self._by_path = {}, {}
        if self._ports:
            self._by_port = diag.tcp_established(self._ports)
        if self._paths:
            self._by_path = diag.unix_established(self._paths)


class EstablishedConnections(SocketsByNetwork[NetworkConnections]):
    """The connections to the listening sockets of all services."""

    kind = NetworkConnections


class Connections(Collector):
    """The connections to one listening socket."""

    def __init__(self, at: SocketAddress, established: NetworkConnections) -> None:
        self._at = at
        self._established = established
        established.add(at)

    def sample(self) -> Values:
        """Return the number of connections, as last counted."""
        return self._established.count(self._at)
