"""UDP on behalf of the controller, which has the QUIC library, and a request that every QUIC server answers."""

from __future__ import annotations

import itertools
import os
import socket
import struct
import threading
import time
from typing import Dict, List, Optional, Tuple

from benchkit.agent import operations as ops
from benchkit.agent.common import OperationError
from benchkit.agent.frames import pack_datagrams, unpack_datagrams

MAX_DATAGRAM = 65535
MAX_DATAGRAMS = 256
"""Datagrams after which an exchange returns, even if more have arrived."""
SILENCE_S = 0.0005
"""Time without a datagram after which the received ones are returned."""
INITIAL_BYTES = 1200
"""Smallest first datagram of a client (RFC 9000, 14.1)."""
RESERVED_VERSION = 0x1A2A3A4A
"""A version that no server speaks: a server answers it with its own versions (RFC 9000, 15 and 6.1)."""
FIXED_BYTES = 6
"""Bytes of a packet with a long header up to the length of its first identity (RFC 8999, 5.1)."""
ANSWER_S = 0.5


class DatagramSessions:
    """The UDP sockets that the controller has open on this host; safe for many threads."""

    def __init__(self) -> None:
        self._sockets: Dict[int, socket.socket] = {}
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()

    def exchange(self, wanted: ops.ExchangeDatagrams) -> ops.Datagrams:
        """Send datagrams, and return those that come back."""
        number, connection = self._session(wanted)
        error: Optional[str] = None
        received: List[bytes] = []
        try:
            for each in unpack_datagrams(wanted.body):
                connection.send(each)
            deadline = time.monotonic() + wanted.wait_s
            while len(received) < MAX_DATAGRAMS:
                connection.settimeout(max(SILENCE_S, 0.0 if received else deadline - time.monotonic()))
                received.append(connection.recv(MAX_DATAGRAM))
        except socket.timeout:
            pass
        except OSError as refused:
            error = refused.strerror or str(refused)
        if wanted.ends:
            with self._lock:
                del self._sockets[number]
            connection.close()
        return ops.Datagrams(number, error, pack_datagrams(received))

    def _session(self, wanted: ops.ExchangeDatagrams) -> Tuple[int, socket.socket]:
        with self._lock:
            if wanted.session is not None:
                if wanted.session not in self._sockets:
                    raise OperationError("bad-request", f"no session {wanted.session} for datagrams")
                return wanted.session, self._sockets[wanted.session]
            number = next(self._numbers)
            self._sockets[number] = connected(wanted.at)
            return number, self._sockets[number]


def connected(at: ops.SocketAddress) -> socket.socket:
    """Return a UDP socket that sends to an address and receives from it alone. Raises OSError."""
    if at.udp is None:
        raise OperationError("bad-request", "no UDP address")
    family, kind, protocol, _, address = socket.getaddrinfo(*at.udp, type=socket.SOCK_DGRAM)[0]
    connection = socket.socket(family, kind, protocol)
    try:
        connection.connect(address)
    except OSError:
        connection.close()
        raise
    return connection


def ask_versions(at: ops.SocketAddress, timeout_s: float) -> List[int]:
    """Return the QUIC versions that a server speaks, without opening a connection. Raises OSError.

    A server answers an unknown version in a form that all versions share (RFC 8999, 6).
    """
    identity = os.urandom(8)
    packet = struct.pack(">BIB8sB8s", 0xC0, RESERVED_VERSION, len(identity), identity, len(identity), identity)
    with connected(at) as connection:
        connection.settimeout(min(timeout_s, ANSWER_S))
        connection.send(packet.ljust(INITIAL_BYTES, b"\0"))
        answer = connection.recv(MAX_DATAGRAM)
    versions = offered_versions(answer)
    if not versions:
        raise OSError(f"it answers {answer[:16].hex()}, which is no QUIC")
    return versions


def offered_versions(datagram: bytes) -> List[int]:
    """Return the versions in a Version Negotiation packet (RFC 8999, 6); an empty list for any other packet."""
    if len(datagram) < FIXED_BYTES or not datagram[0] & 0x80 or datagram[1:5] != bytes(4):
        return []
    rest = datagram[FIXED_BYTES + datagram[5] :]  # after the first of two identities, each preceded by its length
    versions = rest[1 + rest[0] :] if rest else b""
    return [int.from_bytes(versions[start : start + 4], "big") for start in range(0, len(versions) - 3, 4)]
