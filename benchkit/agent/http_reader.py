"""HTTP responses read from a socket: over HTTP/1.1 with every byte counted, over HTTP/2 as frames.

`http.client` does not serve here (Python 3.8 to 3.13). It loses the bytes of a chunk that ends early, and cannot tell a
broken chunk from the end of the connection. It accepts a header without its end, and counts nothing.
"""

from __future__ import annotations

import hashlib
import socket
import time
from typing import Optional, Tuple

from benchkit.agent import operations as ops
from benchkit.agent.common import OperationError

HEAD_LIMIT = 1 << 20
NO_BODY = frozenset({204, 304})
STATUS_LINE_WORDS = 2

FRAME_HEADER = 9
DATA, HEADERS, RST_STREAM, SETTINGS, GOAWAY, CONTINUATION = 0, 1, 3, 4, 7, 9
END_STREAM, END_HEADERS = 0x1, 0x4
REQUEST_STREAM = 1
"""Stream of a client's first request (RFC 9113, 5.1.1)."""

PARTIAL_CHAIN = 0x80000
"""X509_V_FLAG_PARTIAL_CHAIN (OpenSSL): trust a certificate in the file even if its issuer is not there. Python 3.10 and
later has a name for it."""


def connect(at: ops.SocketAddress, timeout_s: float) -> socket.socket:
    """Return a connection to a server. Raises OSError."""
    if at.tcp is not None:
        return socket.create_connection(at.tcp, timeout_s)
    if at.unix is None:
        raise OperationError("bad-request", "neither a TCP address nor the path of a socket")
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(timeout_s)
        connection.connect(at.unix)
    except OSError:
        connection.close()
        raise
    return connection


def receive(connection: socket.socket, deadline: float) -> bytes:
    """Return the next bytes of a response; none where the server has closed the connection.

    Raises OperationError at the instant `deadline` of `time.monotonic()`.
    """
    remaining_s = deadline - time.monotonic()
    if remaining_s <= 0:
        raise OperationError("timeout", "the response took too long")
    connection.settimeout(remaining_s)
    try:
        return connection.recv(65536)
    except socket.timeout:
        raise OperationError("timeout", "the response took too long") from None


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
        self.head = ops.HttpHead(0, "", 0, [], 0, "", complete=False, closes=False)
        """The response without its body."""

    def read(self, method: str) -> None:
        """Read the response to a request with this method. Raises OperationError for bytes that are no HTTP."""
        while True:
            self._read_head()
            if self.head.status >= 200:  # noqa: PLR2004 - RFC 9110 15.2: 1xx are interim
                break
        length, encoding = self._header("content-length"), self._header("transfer-encoding")
        if method == "HEAD" or self.head.status in NO_BODY:
            self.head.complete = True
        elif encoding is not None and encoding.lower().split(",")[-1].strip() == "chunked":
            self.head.complete = self._read_chunks()
        elif length is not None and length.isascii() and length.isdigit():
            self.head.complete = self._read_body(int(length))
        else:
            self.head.complete = self._read_body(None)
        self.head.body_sha256 = self._digest.hexdigest()

    def _read_head(self) -> None:
        while b"\r\n\r\n" not in self._buffer:
            if len(self._buffer) > HEAD_LIMIT or not self._more():
                start = bytes(self._buffer[:80])
                raise OperationError(
                    "no-http", "no HTTP response", f"it began with {start!r}" if start else "it was empty"
                )
        head, _, rest = bytes(self._buffer).partition(b"\r\n\r\n")
        self.head.header_bytes = len(head) + 4
        self._buffer = bytearray(rest)
        first, *lines = head.decode("latin-1").split("\r\n")
        words = first.split(" ", STATUS_LINE_WORDS)
        if len(words) < STATUS_LINE_WORDS or not words[0].startswith("HTTP/1.") or not words[1].isdigit():
            raise OperationError("no-http", "no HTTP response", f"it began with {first[:80]!r}")
        self.head.status = int(words[1])
        self.head.reason = words[2] if len(words) > STATUS_LINE_WORDS else ""
        self.head.headers = [(name, value.strip()) for name, _, value in (line.partition(":") for line in lines)]
        options = {each.strip() for each in (self._header("connection") or "").lower().split(",")}
        # See RFC 9112, 9.3.
        self.head.closes = "close" in options or (words[0] == "HTTP/1.0" and "keep-alive" not in options)

    def _header(self, name: str) -> Optional[str]:
        values = [value for each, value in self.head.headers if each.lower() == name]
        return values[-1] if values else None

    def _more(self) -> bool:
        piece = receive(self._connection, self._deadline)
        self._buffer += piece
        return bool(piece)

    def _read_body(self, size: Optional[int]) -> bool:
        """Read `size` bytes of body, or everything to the end of the connection; return True where all arrived."""
        remaining = size
        while remaining is None or remaining > 0:
            if self.head.body_bytes >= self._max_total:
                return False
            if not self._buffer and not self._more():
                return remaining is None
            piece = bytes(self._buffer if remaining is None else self._buffer[:remaining])
            del self._buffer[: len(piece)]
            self._digest.update(piece)
            self.body_start += piece[: max(0, self._max_body - len(self.body_start))]
            self.head.body_bytes += len(piece)
            remaining = None if remaining is None else remaining - len(piece)
        return True

    def _read_line(self) -> Optional[bytes]:
        """Return the next line without its end; None where it is too long, or the connection ends within it."""
        while b"\r\n" not in self._buffer:
            if len(self._buffer) > HEAD_LIMIT or not self._more():
                return None
        line, _, rest = bytes(self._buffer).partition(b"\r\n")
        self._buffer = bytearray(rest)
        return line

    def _read_chunks(self) -> bool:
        while (line := self._read_line()) is not None:
            try:
                size = int(line.split(b";")[0].strip() or b"0", 16)
            except ValueError:
                raise OperationError("no-http", "a broken chunk", f"its size is {line[:40]!r}") from None
            if size == 0:
                while self._read_line():  # trailer fields; the content is complete even if they are missing
                    pass
                return True
            if not self._read_body(size) or self._read_line() is None:
                return False
        return False


class Http2Stream:
    """The frames of a connection whose only request is on stream 1."""

    def __init__(self, connection: socket.socket, deadline: float, max_total: int) -> None:
        self._connection = connection
        self._deadline = deadline
        self._max_total = max_total
        self._is_ending = False
        self.received = bytearray()

    def read(self) -> None:
        """Read frames until the response has ended, the server closes, or `max_total` bytes have arrived.

        Raises OperationError for bytes that are no HTTP/2, and for a response that takes too long.
        """
        start = 0
        while len(self.received) < self._max_total:
            if not self._fill(start + FRAME_HEADER):
                return
            header = self.received[start : start + FRAME_HEADER]
            if start == 0 and header[3] != SETTINGS:  # a server's first frame (RFC 9113, 3.4)
                raise OperationError("no-http", "no HTTP/2 response", f"it began with {bytes(self.received[:80])!r}")
            end = start + FRAME_HEADER + int.from_bytes(header[:3], "big")
            if not self._fill(end) or self._ends(header[3], header[4], int.from_bytes(header[5:9], "big")):
                return
            start = end

    def _ends(self, kind: int, flags: int, stream: int) -> bool:
        if kind == GOAWAY:
            return True
        if stream & 0x7FFFFFFF != REQUEST_STREAM:
            return False
        if kind in (DATA, HEADERS) and flags & END_STREAM:
            self._is_ending = True
        if kind in (HEADERS, CONTINUATION) and not flags & END_HEADERS:
            return False
        return self._is_ending or kind == RST_STREAM

    def _fill(self, size: int) -> bool:
        """Read until `size` bytes have arrived; return False where the server closes the connection first."""
        while len(self.received) < size:
            piece = receive(self._connection, self._deadline)
            if not piece:
                if not self.received:
                    raise OperationError("no-http", "no HTTP/2 response", "it was empty")
                return False
            self.received += piece
        return True


def start_tls(connection: socket.socket, tls: ops.TlsClient) -> Tuple[socket.socket, ops.TlsSession]:
    """Return a connection after its handshake, and the session's parameters. Raises OSError.

    The server's certificate must be signed by a certificate in the file, and valid for the name or address. All TLS
    versions that this Python allows are offered, so that the server chooses.
    """
    import ssl  # noqa: PLC0415 - slow, and few trials have TLS

    context = ssl.create_default_context(cafile=tls.ca_file)
    context.verify_flags |= PARTIAL_CHAIN
    context.set_alpn_protocols(tls.alpn)
    encrypted = context.wrap_socket(connection, server_hostname=tls.server_name)
    cipher = encrypted.cipher()
    certificate = encrypted.getpeercert(binary_form=True) or b""
    return encrypted, ops.TlsSession(
        encrypted.selected_alpn_protocol(), encrypted.version(), cipher[0] if cipher else None, certificate.hex()
    )
