"""HTTP/1.1 without TLS over TCP and unix sockets, by the standard library."""

from __future__ import annotations

import http.client
import socket
from typing import Sequence, Tuple

from benchkit.agent import operations as ops
from benchkit.agent.common import OperationError

PIECE_BYTES = 1 << 16


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


class HttpConnection(http.client.HTTPConnection):
    """A connection to a TCP address or a unix socket, opened by the first request and again after it was closed."""

    def __init__(self, at: ops.SocketAddress, timeout_s: float) -> None:
        super().__init__(*(at.tcp or ("localhost", 80)), timeout=timeout_s)
        self._at = at
        self._timeout_s = timeout_s

    def connect(self) -> None:
        """Open the connection. Raises OSError."""
        self.sock = connect(self._at, self._timeout_s)


def read_body(response: http.client.HTTPResponse, max_bytes: int) -> bytes:
    """Return the body of a response. Raises OperationError for one that ends early or is larger than `max_bytes`."""
    body = bytearray()
    try:
        while len(body) <= max_bytes:
            piece = response.read(PIECE_BYTES)
            if not piece:
                break
            body += piece
    except http.client.HTTPException as error:
        raise OperationError("no-http", "the response is incomplete", repr(error)) from None
    if len(body) > max_bytes:
        raise OperationError("too-large", f"the response has more than {max_bytes} bytes")
    if response.length:
        raise OperationError("no-http", "the response is incomplete", f"{response.length} bytes are missing")
    return bytes(body)


def get(
    at: ops.SocketAddress, timeout_s: float, path: str, headers: Sequence[Tuple[str, str]], max_bytes: int
) -> ops.HttpPage:
    """Send a GET request over a new connection, and return the response."""
    connection = HttpConnection(at, timeout_s)
    try:
        connection.putrequest("GET", path, skip_host=True, skip_accept_encoding=True)
        for name, value in headers:
            connection.putheader(name, value)
        connection.endheaders()
        response = connection.getresponse()
        return ops.HttpPage(response.status, read_body(response, max_bytes))
    except socket.timeout:
        raise OperationError("timeout", "the response took too long") from None
    except (http.client.HTTPException, ValueError) as error:
        raise OperationError("no-http", "no HTTP response", repr(error)) from None
    finally:
        connection.close()
