"""One request over HTTP/2 as bytes, and the response parsed from the received bytes. Nothing here opens a socket.

The preface, the settings and the request go out in one piece, with flow-control windows that no response fills.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING

from benchkit.errors import InputError

if TYPE_CHECKING:
    from h2.connection import H2Connection

STREAM = 1
MAX_WINDOW = (1 << 31) - 1
"""Largest window of flow control (RFC 9113, 6.9.1)."""
FIRST_WINDOW = (1 << 16) - 1
"""Window of a connection at its start, in both directions (RFC 9113, 6.9.2)."""
CONNECTION_FIELDS = frozenset({"connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade", "host"})
"""Fields of HTTP/1.1 that HTTP/2 forbids (RFC 9113, 8.2.2), and `Host`, which `:authority` replaces."""


@dataclass
class Http2Response:
    """The response to a request."""

    status: int = 0
    headers: list[tuple[str, str]] = field(default_factory=list)
    body: bytearray = field(default_factory=bytearray)
    complete: bool = False
    error: str | None = None
    """Error code with which the server reset the stream or ended the connection; None where it did neither."""

    @property
    def header_bytes(self) -> int:
        """Size of status and fields as HTTP/1.1 writes them: their compressed size on the wire varies."""
        try:
            reason = HTTPStatus(self.status).phrase
        except ValueError:
            reason = ""
        lines = [f"HTTP/1.1 {self.status} {reason}", *(f"{name}: {value}" for name, value in self.headers), ""]
        return sum(len(f"{line}\r\n".encode("latin-1")) for line in lines)

    @property
    def body_sha256(self) -> str:
        """Hash of the content."""
        return hashlib.sha256(self.body).hexdigest()


class Http2Request:
    """A request, and the state of the connection that decodes its response."""

    def __init__(
        self, method: str, path: str, scheme: str, headers: Iterable[tuple[str, str]], body: bytes = b""
    ) -> None:
        """Take the headers of the same request over HTTP/1.1, with `Host`. Raises InputError for a body above 64 kB."""
        if len(body) > FIRST_WINDOW:
            raise InputError(
                f"a body of {len(body)} bytes cannot be probed over HTTP/2",
                why=f"the probe sends a request in one piece, and flow control begins with {FIRST_WINDOW} bytes",
                hint="send a smaller body, or use http1 or https1",
            )
        self._connection = _opened_connection()
        self._connection.send_headers(STREAM, request_fields(method, path, scheme, headers), end_stream=not body)
        size = self._connection.max_outbound_frame_size
        for start in range(0, len(body), size):
            self._connection.send_data(STREAM, body[start : start + size], end_stream=start + size >= len(body))
        self.content = self._connection.data_to_send()
        """All bytes that the client sends."""

    def response(self, received: bytes) -> Http2Response:
        """Return the response in these bytes, possibly partial. Raises ValueError where they break the protocol."""
        from h2 import events  # noqa: PLC0415 - slow, and only HTTP/2 needs it
        from h2.exceptions import ProtocolError  # noqa: PLC0415

        response = Http2Response()
        try:
            for event in self._connection.receive_data(received):
                match event:
                    case events.ResponseReceived(headers=headers):
                        pairs = _decoded(headers or ())
                        response.status = int(dict(pairs).get(":status", "0"))
                        response.headers = [pair for pair in pairs if not pair[0].startswith(":")]
                    case events.DataReceived(data=data):
                        response.body += data or b""
                    case events.StreamEnded():
                        response.complete = True
                    case events.StreamReset(error_code=code) | events.ConnectionTerminated(error_code=code):
                        response.error = str(code)
                    case _:
                        pass
        except ProtocolError as error:
            raise ValueError(str(error) or type(error).__name__) from None
        return response


def request_fields(method: str, path: str, scheme: str, headers: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the fields of a request in HTTP/2 and HTTP/3, from its headers in HTTP/1.1 with `Host`."""
    pairs = [(name.lower(), value) for name, value in headers]
    authority = next((value for name, value in pairs if name == "host"), "")
    pseudo = [(":method", method), (":scheme", scheme), (":authority", authority), (":path", path)]
    return [*pseudo, *(pair for pair in pairs if pair[0] not in CONNECTION_FIELDS)]


def _opened_connection() -> H2Connection:
    """Return a client's connection after its preface, with windows that no probed body fills."""
    from h2.config import H2Configuration  # noqa: PLC0415
    from h2.connection import H2Connection  # noqa: PLC0415
    from h2.settings import SettingCodes, Settings  # noqa: PLC0415

    connection = H2Connection(H2Configuration(client_side=True, header_encoding=None))
    wanted = {SettingCodes.ENABLE_PUSH: 0, SettingCodes.INITIAL_WINDOW_SIZE: MAX_WINDOW}
    connection.local_settings = Settings(client=True, initial_values=wanted)
    connection.initiate_connection()
    connection.increment_flow_control_window(MAX_WINDOW - FIRST_WINDOW)
    return connection


def _decoded(headers: Iterable[Sequence[bytes | str]]) -> list[tuple[str, str]]:
    """Decode fields as Latin-1, as for HTTP/1.1."""
    return [(_text(name), _text(value)) for name, value in headers]


def _text(part: bytes | str) -> str:
    return part.decode("latin-1") if isinstance(part, bytes) else part
