"""An HTTP response read from a socket, with every byte of it counted.

`http.client` does not serve here: it loses the bytes of a chunk that ends early, cannot tell a broken chunk from the
end of the connection, accepts a header without its end, and counts nothing (Python 3.8 to 3.13).
"""

from __future__ import annotations

import hashlib
import socket
import time
from typing import List, Optional, Tuple

from benchkit.agent.common import RefusedError
from benchkit.agent.frames import Json

HEAD_LIMIT = 1 << 20
NO_BODY = frozenset({204, 304})
STATUS_LINE_WORDS = 2


def receive(connection: socket.socket, deadline: float) -> bytes:
    """Return the next bytes of a response; none where the server has closed the connection.

    Raises RefusedError at the instant `deadline` of `time.monotonic()`.
    """
    remaining_s = deadline - time.monotonic()
    if remaining_s <= 0:
        raise RefusedError("timeout", "the response took too long")
    connection.settimeout(remaining_s)
    try:
        return connection.recv(65536)
    except socket.timeout:
        raise RefusedError("timeout", "the response took too long") from None


class HttpResponse:
    """A response that is read from a socket."""

    def __init__(self, connection: socket.socket, deadline: float, max_body: int, max_total: int) -> None:
        self._connection = connection
        self._deadline = deadline
        self._max_body = max_body
        self._max_total = max_total
        self._buffer = bytearray()
        self._digest = hashlib.sha256()
        self.body_start = bytearray()
        self.status = 0
        self.reason = ""
        self.header_bytes = 0
        self.headers: List[Tuple[str, str]] = []
        self.body_bytes = 0
        self.complete = False
        self.closes = False

    def read(self, method: str) -> None:
        """Read the response to a request with this method. Raises RefusedError for what is no HTTP."""
        while True:
            self._read_head()
            if self.status >= 200:  # noqa: PLR2004 - RFC 9110 15.2: 1xx are interim
                break
        length, encoding = self._header("content-length"), self._header("transfer-encoding")
        if method == "HEAD" or self.status in NO_BODY:
            self.complete = True
        elif encoding is not None and encoding.lower().split(",")[-1].strip() == "chunked":
            self.complete = self._read_chunks()
        elif length is not None and length.isascii() and length.isdigit():
            self.complete = self._read_body(int(length))
        else:
            self.complete = self._read_body(None)

    def report(self) -> Json:
        """Return everything except the body."""
        return {
            "status": self.status,
            "reason": self.reason,
            "header_bytes": self.header_bytes,
            "headers": self.headers,
            "body_bytes": self.body_bytes,
            "body_sha256": self._digest.hexdigest(),
            "complete": self.complete,
            "closes": self.closes,
        }

    def _read_head(self) -> None:
        while b"\r\n\r\n" not in self._buffer:
            if len(self._buffer) > HEAD_LIMIT or not self._more():
                start = bytes(self._buffer[:80])
                raise RefusedError(
                    "no-http", "no HTTP response", f"it began with {start!r}" if start else "it was empty"
                )
        head, _, rest = bytes(self._buffer).partition(b"\r\n\r\n")
        self.header_bytes = len(head) + 4
        self._buffer = bytearray(rest)
        first, *lines = head.decode("latin-1").split("\r\n")
        words = first.split(" ", STATUS_LINE_WORDS)
        if len(words) < STATUS_LINE_WORDS or not words[0].startswith("HTTP/1.") or not words[1].isdigit():
            raise RefusedError("no-http", "no HTTP response", f"it began with {first[:80]!r}")
        self.status = int(words[1])
        self.reason = words[2] if len(words) > STATUS_LINE_WORDS else ""
        self.headers = [(name, value.strip()) for name, _, value in (line.partition(":") for line in lines)]
        options = {each.strip() for each in (self._header("connection") or "").lower().split(",")}
        self.closes = "close" in options or (words[0] == "HTTP/1.0" and "keep-alive" not in options)  # RFC 9112, 9.3

    def _header(self, name: str) -> Optional[str]:
        values = [value for each, value in self.headers if each.lower() == name]
        return values[-1] if values else None

    def _more(self) -> bool:
        piece = receive(self._connection, self._deadline)
        self._buffer += piece
        return bool(piece)

    def _read_body(self, size: Optional[int]) -> bool:
        """Read `size` bytes of body, or everything to the end of the connection; return True where all arrived."""
        remaining = size
        while remaining is None or remaining > 0:
            if self.body_bytes >= self._max_total:
                return False
            if not self._buffer and not self._more():
                return remaining is None
            piece = bytes(self._buffer if remaining is None else self._buffer[:remaining])
            del self._buffer[: len(piece)]
            self._digest.update(piece)
            self.body_start += piece[: max(0, self._max_body - len(self.body_start))]
            self.body_bytes += len(piece)
            remaining = None if remaining is None else remaining - len(piece)
        return True

    def _read_chunks(self) -> bool:
        while True:
            while b"\r\n" not in self._buffer:
                if len(self._buffer) > HEAD_LIMIT or not self._more():
                    return False
            line, _, rest = bytes(self._buffer).partition(b"\r\n")
            self._buffer = bytearray(rest)
            try:
                size = int(line.split(b";")[0].strip() or b"0", 16)
            except ValueError:
                raise RefusedError("no-http", "a broken chunk", f"its size is {line[:40]!r}") from None
            if size == 0:
                return True
            if not self._read_body(size):
                return False
            while len(self._buffer) < len(b"\r\n"):
                if not self._more():
                    return False
            del self._buffer[:2]
