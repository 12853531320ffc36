"""Sockets as the kernel lists them over netlink (sock_diag(7)): of one port or one state, and not all of the host's."""

from __future__ import annotations

import errno
import os
import socket
import struct
from typing import Collection, Iterator, List, NamedTuple, Optional, Tuple

from benchkit.agent.watch.collector import UnseenError

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
    """A listening socket: its accept queue, and how long that may grow."""

    address: str
    """An IP address with its port, or the path of a unix socket."""
    port: Optional[int]
    inode: int
    queued: int
    limit: int


class SockDiag:
    """A netlink socket to ask on; for one thread at a time."""

    def __init__(self) -> None:
        """Open it. Raises UnseenError where the kernel has no such thing."""
        try:
            self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, NETLINK_SOCK_DIAG)
        except OSError as error:
            raise UnseenError(f"sockets: no sock_diag: {error.strerror}") from None
        self._socket.settimeout(TIMEOUT_S)
        self._number = 0

    def close(self) -> None:
        """Let it go."""
        self._socket.close()

    def tcp_listeners(self, family: int, ports: Collection[int]) -> List[Listener]:
        """The listening TCP sockets of a family on these ports. Raises UnseenError."""
        found = []
        for reply in self._ask(_inet(family, LISTEN)):
            _, _, _, _, port, _, source, _, _, _, _, _, queued, limit, _, inode = INET_REPLY.unpack_from(reply)
            number = int.from_bytes(port, "big")
            if number in ports:
                found.append(Listener(_authority(family, source, number), number, inode, queued, limit))
        return found

    def tcp_established(self, port: int) -> int:
        """How many connections to this port of the host are established. Raises UnseenError."""
        return sum(1 for family in FAMILIES for _ in self._ask(_inet(family, ESTABLISHED, _source_port(port))))

    def unix_listeners(self, paths: Collection[str]) -> List[Listener]:
        """The listening unix sockets at these paths. Raises UnseenError."""
        found = []
        for reply in self._ask(_unix(LISTEN, UDIAG_SHOW_NAME | UDIAG_SHOW_RQLEN)):
            path, queue = _unix_attributes(reply)
            if path is not None and path in paths and queue is not None:
                (inode,) = struct.unpack_from("=I", reply, 4)
                found.append(Listener(path, None, inode, *queue))
        return found

    def unix_established(self, path: str) -> int:
        """How many connections to the unix socket at this path are established. Raises UnseenError."""
        return sum(_unix_attributes(reply)[0] == path for reply in self._ask(_unix(ESTABLISHED, UDIAG_SHOW_NAME)))

    def _ask(self, request: bytes) -> Iterator[bytes]:
        """The answers to one request, without their heads."""
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
                    if number != self._number:  # of a request that was given up
                        continue
                    if kind == NLMSG_DONE:
                        return
                    if kind == NLMSG_ERROR:
                        _refuse(-struct.unpack_from("=i", body)[0])
                        return
                    yield body
        except socket.timeout:
            raise UnseenError("sockets: sock_diag does not answer") from None
        except OSError as error:
            raise UnseenError(f"sockets: sock_diag: {error.strerror}") from None


def _refuse(code: int) -> None:
    """Raise UnseenError for an error of the kernel's, other than having no such sockets at all."""
    if code == errno.ENOENT:  # no module for this family: no IPv6, or no sock_diag for unix sockets
        raise UnseenError("sockets: the kernel has no sock_diag for them (module tcp_diag or unix_diag)")
    raise OSError(code, os.strerror(code))


def _inet(family: int, state: int, code: bytes = b"") -> bytes:
    """A request for TCP sockets of one state, those that the byte code lets pass."""
    request = INET_REQUEST.pack(family, socket.IPPROTO_TCP, 0, 1 << state) + bytes(INET_ID_BYTES)
    if code:
        request += ATTRIBUTE.pack(ATTRIBUTE.size + len(code), INET_DIAG_REQ_BYTECODE) + code
    return request


def _source_port(port: int) -> bytes:
    """Byte code that lets sockets of this local port pass: at least, and at most.

    Each operation says how far to go on where it holds and where it does not; a step beyond the end refuses.
    """
    code = b""
    for left, operation in ((2, S_GE), (1, S_LE)):
        step = 2 * OPERATION.size
        code += OPERATION.pack(operation, step, left * step + 4) + OPERATION.pack(0, 0, port)
    return code


def _unix(state: int, show: int) -> bytes:
    return UNIX_REQUEST.pack(socket.AF_UNIX, 0, 0, 1 << state, 0, show, 0, 0)


def _unix_attributes(reply: bytes) -> Tuple[Optional[str], Optional[Tuple[int, int]]]:
    """The path of a unix socket, and its queue with the limit of that, where the answer has them."""
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
