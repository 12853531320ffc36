"""The frames between controller and agent: magic, length of header, length of body, header (JSON), body.

A request has the header `{"id", "op", "args"}`, its answer `{"id", "ok": …}` or `{"id", "error": {"kind", "what",
"why"}}`. Answers arrive in any order. `benchkit.agent.operations` encodes calls and results.
"""

from __future__ import annotations

import json
import struct
from pathlib import PurePath
from typing import Any, Callable, Dict, Mapping, Optional, Tuple

JsonObject = Dict[str, Any]

FAILURE_PREFIX = "benchkit agent: "
"""Prefix of the lines that an ending agent prints to stderr, one for each change that it could not restore."""

MAGIC = b"bnch"
HEAD = struct.Struct(">4sII")
MAX_HEADER = 4 << 20
MAX_BODY = 8 << 20


def to_json(value: object) -> object:
    """Return what `json` encodes for a path, a mapping, or a dataclass."""
    if isinstance(value, PurePath):
        return str(value)
    return dict(value) if isinstance(value, Mapping) else vars(value)


_JSON = json.JSONEncoder(separators=(",", ":"), default=to_json)


class FrameError(Exception):
    """Bytes that are not a frame, or the end of the stream within a frame."""


def pack(header: JsonObject, body: bytes = b"") -> bytes:
    """Encode a frame. Raises FrameError where header or body are too large."""
    text = _JSON.encode(header).encode()
    if len(text) > MAX_HEADER or len(body) > MAX_BODY:
        raise FrameError(f"a frame of {len(text)} + {len(body)} bytes; allowed: {MAX_HEADER} + {MAX_BODY}")
    return HEAD.pack(MAGIC, len(text), len(body)) + text + body


class FrameReader:
    """Decoder of frames from a stream of bytes."""

    def __init__(self, receive: Callable[[int], bytes]) -> None:
        """Read from `receive(n)`, which returns 1 to n bytes, and none at the end of the stream."""
        self._receive = receive
        self._buffer = bytearray()

    def next(self) -> Optional[Tuple[JsonObject, bytes]]:
        """Return header and body of the next frame; None at the end of the stream. Raises FrameError."""
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
            raise FrameError(f"a header is not JSON: {error}") from None
        if not isinstance(header, dict):
            raise FrameError("a header is not a JSON object")
        return header, body

    def _fill(self, size: int) -> bool:
        while len(self._buffer) < size:
            piece = self._receive(max(65536, size - len(self._buffer)))
            if not piece:
                return False
            self._buffer += piece
        return True
