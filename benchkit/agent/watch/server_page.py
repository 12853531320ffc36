"""A server's page about itself, asked for again and again over one connection.

Made for being asked often: `benchkit.agent.http_response`, which counts every byte of an answer, takes three times as long.
"""

from __future__ import annotations

import re
import socket
from typing import Any, Optional

from benchkit.agent.watch.collector import UnseenError
from benchkit.agent.watch.server_counters import Asked

TIMEOUT_S = 1.0
PAGE_BYTES = 1 << 20
OK = b"200"

LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*(\d+)", re.IGNORECASE)
CHUNKED = re.compile(rb"\r\ntransfer-encoding:[ \t]*chunked", re.IGNORECASE)
CLOSE = re.compile(rb"\r\nconnection:[ \t]*close", re.IGNORECASE)


class Page:
    """One page of one server."""

    def __init__(self, admin: Any) -> None:  # noqa: ANN401 - as it came in the message
        """`admin`: {"path", and "tcp": [address, port] or "unix": path}."""
        self._admin = admin
        host = "{}:{}".format(*admin["tcp"]) if "tcp" in admin else "localhost"
        self._request = f"GET {admin['path']} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()
        self._connection: Optional[socket.socket] = None
        self.asked = Asked(0, 0)
        """What of the server's own counters is our doing."""

    def get(self) -> bytes:
        """The page now. Raises UnseenError for another answer, OSError where there is none in time."""
        try:
            return self._get()
        except (UnseenError, OSError):
            self.close()
            raise

    def close(self) -> None:
        """Hang up."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _get(self) -> bytes:
        if self._connection is None:
            self._connection = self._connect()
            self.asked = Asked(self.asked.requests, self.asked.connections + 1)
        self._connection.sendall(self._request)
        self.asked = Asked(self.asked.requests + 1, self.asked.connections)
        content = b""
        while len(content) < PAGE_BYTES:
            piece = self._connection.recv(PAGE_BYTES)
            content += piece
            head, _, rest = content.partition(b"\r\n\r\n")
            body = body_of(head, rest)
            if body is not None:
                if CLOSE.search(head):
                    self.close()
                return body
            if not piece:
                raise UnseenError("the server hung up before all of its page was there")
        raise UnseenError(f"a page of more than {PAGE_BYTES} bytes")

    def _connect(self) -> socket.socket:
        if "tcp" in self._admin:
            address, port = self._admin["tcp"]
            return socket.create_connection((address, port), TIMEOUT_S)
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.settimeout(TIMEOUT_S)
            connection.connect(self._admin["unix"])
        except OSError:
            connection.close()
            raise
        return connection


def body_of(head: bytes, rest: bytes) -> Optional[bytes]:
    """The body of a response, from its head and what came behind that; None where there has to be more.

    Raises UnseenError for a response that has no page.
    """
    words = head.split(None, 2)
    if len(words) < 2:  # noqa: PLR2004 - version and status
        return None
    if words[1] != OK:
        raise UnseenError(f"its page answers {words[1][:20].decode(errors='replace')}")
    if CHUNKED.search(head):
        return _joined(rest)
    length = LENGTH.search(head)
    return rest if length and len(rest) >= int(length[1]) else None


def _joined(rest: bytes) -> Optional[bytes]:
    """The chunks of a body (RFC 9112, 7.1) as one; None where the last is not there yet."""
    body, at = b"", 0
    while True:
        end = rest.find(b"\r\n", at)
        if end < 0:
            return None
        try:
            size = int(rest[at:end].split(b";", 1)[0], 16)
        except ValueError:
            raise UnseenError(f"a broken chunk: {rest[at:end][:40]!r}") from None
        start = end + 2
        if len(rest) < start + size + 2:
            return None
        if size == 0:
            return body
        body += rest[start : start + size]
        at = start + size + 2
