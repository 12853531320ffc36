"""The frames that controller and agent exchange: magic, length of header, length of body, header (JSON), body.

A request's header is `{"id", "op", "args"}`; its answer `{"id", "ok": {…}}` or `{"id", "error": {"kind", "what",
"why"}}`. Answers come in any order.
"""

from __future__ import annotations

import json
import struct
from typing import Any, Callable, Dict, Optional, Tuple

Json = Dict[str, Any]

PROTOCOL = 2
"""Raised with every change of the messages; controller and agent must have the same."""

COMPLAINT = "benchkit agent: "
"""Begins what an agent prints to stderr at its end about what it could not stop or put back, a line for each."""

MAGIC = b"bnch"
HEAD = struct.Struct(">4sII")
MAX_HEADER = 4 << 20
MAX_BODY = 8 << 20


class FrameError(Exception):
    """Bytes that are no frame of ours, or the end of the stream within one."""


def pack(header: Json, body: bytes = b"") -> bytes:
    """One frame as bytes. Raises FrameError where header or body are too large."""
    text = json.dumps(header, separators=(",", ":")).encode()
    if len(text) > MAX_HEADER or len(body) > MAX_BODY:
        raise FrameError(f"a frame of {len(text)} + {len(body)} bytes; at most {MAX_HEADER} + {MAX_BODY} go")
    return HEAD.pack(MAGIC, len(text), len(body)) + text + body


class FrameReader:
    """Frames out of a stream of bytes, however it is cut into pieces."""

    def __init__(self, receive: Callable[[int], bytes]) -> None:
        """`receive(n)` gives 1 to n bytes, and none at the end of the stream."""
        self._receive = receive
        self._buffer = bytearray()

    def next(self) -> Optional[Tuple[Json, bytes]]:
        """Header and body of the next frame; None at the end of the stream. Raises FrameError."""
        if not self._fill(HEAD.size):
            if self._buffer:
                raise FrameError("the stream ended within a frame")
            return None
        magic, header_size, body_size = HEAD.unpack_from(self._buffer)
        if magic != MAGIC or header_size > MAX_HEADER or body_size > MAX_BODY:
            raise FrameError(f"no frame begins with {bytes(self._buffer[: HEAD.size])!r}")
        end = HEAD.size + header_size + body_size
        if not self._fill(end):
            raise FrameError("the stream ended within a frame")
        text = bytes(self._buffer[HEAD.size : HEAD.size + header_size])
        body = bytes(self._buffer[HEAD.size + header_size : end])
        del self._buffer[:end]
        try:
            header = json.loads(text)
        except ValueError as error:
            raise FrameError(f"a header is no JSON: {error}") from None
        if not isinstance(header, dict):
            raise FrameError("a header is no JSON object")
        return header, body

    def _fill(self, size: int) -> bool:
        while len(self._buffer) < size:
            piece = self._receive(max(65536, size - len(self._buffer)))
            if not piece:
                return False
            self._buffer += piece
        return True
