"""The frames of one HTTP/2 response, read from a socket until its stream ends (RFC 9113)."""

from __future__ import annotations

import socket

from benchkit.agent.common import RefusedError
from benchkit.agent.http_response import receive

FRAME_HEADER = 9
DATA, HEADERS, RST_STREAM, SETTINGS, GOAWAY, CONTINUATION = 0, 1, 3, 4, 7, 9
END_STREAM, END_HEADERS = 0x1, 0x4
REQUEST_STREAM = 1
"""Stream of a client's first request (RFC 9113, 5.1.1)."""


class Http2Stream:
    """The frames of a connection whose only request is on stream 1."""

    def __init__(self, connection: socket.socket, deadline: float, max_total: int) -> None:
        self._connection = connection
        self._deadline = deadline
        self._max_total = max_total
        self._is_ending = False
        self.received = bytearray()

    def read(self) -> None:
        """Read frames until the response has ended, the server closes, or `max_total` bytes are there.

        Raises RefusedError for what is no HTTP/2, or takes too long.
        """
        start = 0
        while len(self.received) < self._max_total:
            if not self._fill(start + FRAME_HEADER):
                return
            header = self.received[start : start + FRAME_HEADER]
            if start == 0 and header[3] != SETTINGS:  # a server's first frame (RFC 9113, 3.4)
                raise RefusedError("no-http", "no HTTP/2 response", f"it began with {bytes(self.received[:80])!r}")
            end = start + FRAME_HEADER + int.from_bytes(header[:3], "big")
            if not self._fill(end) or self._ends(header[3], header[4], int.from_bytes(header[5:9], "big")):
                return
            start = end

    def _ends(self, kind: int, flags: int, stream: int) -> bool:
        """Return True for the last frame of the response."""
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
        """Read until `size` bytes are there; return False where the server closes before that."""
        while len(self.received) < size:
            piece = receive(self._connection, self._deadline)
            if not piece:
                if not self.received:
                    raise RefusedError("no-http", "no HTTP/2 response", "it was empty")
                return False
            self.received += piece
        return True
