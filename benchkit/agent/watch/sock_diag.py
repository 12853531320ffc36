"""Sockets listed by the kernel over netlink (sock_diag(7)), filtered by port and state."""

from __future__ import annotations

import errno
import os
import socket
import struct
from typing import Collection, Dict, Iterator, List, NamedTuple, Optional, Tuple

from benchkit.agent.watch.collector import UnavailableError

NETLINK_SOCK_DIAG = 4
SOCK_DIAG_BY_FAMILY = 20
NLM_F_REQUEST, NLM_F_DUMP = 0x1, 0x300
NLMSG_ERROR, NLMSG_DONE = 2, 3

ESTABLISHED, LISTEN = 1, 10  # include/net/tcp_states.h
INET_DIAG_REQ_BYTECODE = 1
S_GE, S_LE = 2, 3  # linux/inet_diag.h, INET_DIAG_BC_…: at least, at most this source port
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

    def __init__(self) -> None:
        """Open the socket. Raises UnavailableError where the kernel does not support it."""
        try:
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
                found.append(Listener(_authority(family, source, number), number, inode, queued, limit))
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
                    if number != self._number:  # of an earlier request that timed out
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


def _raise_error(code: int) -> None:
    """Raise UnavailableError where the kernel has no sock_diag for a family, OSError for its other errors."""
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
    """Return byte code that accepts sockets of these local ports: at least, and at most.

    Each operation has the offset of the next one, for true and false; an offset beyond the end rejects the socket.
    """
    code = b""
    for remaining, operation, port in ((2, S_GE, least), (1, S_LE, most)):
        step = 2 * OPERATION.size
        code += OPERATION.pack(operation, step, remaining * step + 4) + OPERATION.pack(0, 0, port)
    return code


def _unix(state: int, show: int) -> bytes:
    return UNIX_REQUEST.pack(socket.AF_UNIX, 0, 0, 1 << state, 0, show, 0, 0)


def _unix_attributes(reply: bytes) -> Tuple[Optional[str], Optional[Tuple[int, int]]]:
    """Return the path of a unix socket, and its queue with the limit, as far as the answer has them."""
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


def _authority(family: int, source: bytes, port: int) -> str:
    if family == socket.AF_INET:
        return f"{socket.inet_ntop(family, source[:4])}:{port}"
    return f"[{socket.inet_ntop(family, source)}]:{port}"
