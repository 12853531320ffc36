"""One request over HTTP/3: this process has the connection, and the probing host's agent sends its datagrams.

The library opens no socket, so its datagrams can go through the agent.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from benchkit.agent import operations as ops
from benchkit.agent.datagrams import offered_versions
from benchkit.agent.frames import unpack_datagrams
from benchkit.hosts.http2 import Http2Response, request_fields

if TYPE_CHECKING:
    from aioquic.h3.connection import H3Connection
    from aioquic.quic.connection import QuicConnection
    from aioquic.quic.events import ConnectionTerminated, QuicEvent

PEER = ("server", 0)
"""Placeholder for the server's address, which only the agent uses."""
WINDOW = 16 << 20
"""Bytes of content that the server may send at once."""
CRYPTO_ERROR = 0x100
"""First error code for an alert of TLS (RFC 9001, 4.8)."""
NO_APPLICATION_PROTOCOL = CRYPTO_ERROR + 120
CERTIFICATE_ALERTS = range(CRYPTO_ERROR + 42, CRYPTO_ERROR + 50)
"""Error codes for TLS alerts on certificates, from bad_certificate to access_denied (RFC 8446, 6)."""

Exchange = Callable[[Sequence[bytes], float | None], ops.Datagrams]
"""(datagrams to send, longest wait in seconds or None in the last exchange) → received datagrams."""


class Http3Request:
    """A request, and the state of the connection that sends it."""

    def __init__(self, method: str, path: str, headers: Iterable[tuple[str, str]], body: bytes = b"") -> None:
        """Take the headers of the same request over HTTP/1.1, with `Host`."""
        fields = request_fields(method, path, "https", headers)
        self._headers = [(name.encode(), value.encode("latin-1")) for name, value in fields]
        self._body = body
        self._response = Http2Response()
        self._versions: list[int] = []
        self._http: H3Connection | None = None

    def send(
        self, exchange: Exchange, authority: bytes, server_name: str, timeout_s: float
    ) -> tuple[Http2Response, ops.TlsSession]:
        """Open a connection, send the request, and return the response with the parameters of the TLS session.

        The certificate must be signed by `authority` (PEM), and valid for the name or address. Raises ValueError with
        the reason why there is no response.
        """
        from aioquic.quic.configuration import QuicConfiguration  # noqa: PLC0415 - slow, and only HTTP/3 needs it
        from aioquic.quic.connection import QuicConnection  # noqa: PLC0415
        from aioquic.quic.packet import QuicProtocolVersion  # noqa: PLC0415

        configuration = QuicConfiguration(
            alpn_protocols=["h3"],
            server_name=server_name,
            cadata=authority,
            max_data=WINDOW,
            max_stream_data=WINDOW,
            supported_versions=[QuicProtocolVersion.VERSION_1],  # the version that load tools speak
        )
        connection = QuicConnection(configuration=configuration)
        deadline = time.monotonic() + timeout_s
        connection.connect(PEER, time.monotonic())
        try:
            self._run(connection, exchange, deadline)
            session = _session(connection)
        finally:
            connection.close()
            exchange([each for each, _ in connection.datagrams_to_send(time.monotonic())], None)
        return self._response, session

    def _run(self, connection: QuicConnection, exchange: Exchange, deadline: float) -> None:
        """Exchange datagrams until the response has ended. Raises ValueError."""
        has_answered = False
        while not (self._response.complete or self._response.error):
            now = time.monotonic()
            if now >= deadline:
                raise ValueError(
                    "it answers QUIC, but the response did not end in time"
                    if has_answered
                    else "no datagram came back: UDP may be blocked on the way, or no server speaks QUIC there"
                )
            sent = [each for each, _ in connection.datagrams_to_send(now)]
            timer = min(connection.get_timer() or deadline, deadline)
            found = exchange(sent, max(0.0, timer - now))
            if found.error is not None:
                raise ValueError(f"the UDP port is closed: {found.error}")
            for datagram in unpack_datagrams(found.body):
                has_answered = True
                self._versions += offered_versions(datagram)
                connection.receive_datagram(datagram, PEER, time.monotonic())
            if time.monotonic() >= timer:
                connection.handle_timer(time.monotonic())
            self._handle_events(connection)

    def _handle_events(self, connection: QuicConnection) -> None:
        from aioquic.h3.connection import H3Connection  # noqa: PLC0415
        from aioquic.quic.events import ConnectionTerminated, HandshakeCompleted  # noqa: PLC0415

        while (event := connection.next_event()) is not None:
            match event:
                case ConnectionTerminated():
                    raise ValueError(self._why_ended(event))
                case HandshakeCompleted(alpn_protocol=protocol):
                    if protocol != "h3":
                        raise ValueError(f"the handshake agreed on {protocol or 'no protocol'} (ALPN), not on h3")
                    self._http = H3Connection(connection)
                    stream = connection.get_next_available_stream_id()
                    self._http.send_headers(stream, self._headers, end_stream=not self._body)
                    if self._body:
                        self._http.send_data(stream, self._body, end_stream=True)
                case _:
                    self._read(event)

    def _read(self, event: QuicEvent) -> None:
        from aioquic.h3.events import DataReceived, HeadersReceived  # noqa: PLC0415
        from aioquic.quic.events import StreamReset  # noqa: PLC0415

        if isinstance(event, StreamReset):
            self._response.error = hex(event.error_code)
        for each in () if self._http is None else self._http.handle_event(event):
            match each:
                case HeadersReceived(headers=headers, stream_ended=ended):
                    pairs = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in headers]
                    self._response.status = int(dict(pairs).get(":status", "0")) or self._response.status
                    self._response.headers += [pair for pair in pairs if not pair[0].startswith(":")]
                    self._response.complete = ended
                case DataReceived(data=data, stream_ended=ended):
                    self._response.body += data
                    self._response.complete = ended
                case _:
                    pass

    def _why_ended(self, event: ConnectionTerminated) -> str:
        """Return why a connection ended; known reasons in words."""
        if self._versions:
            versions = ", ".join(map(hex, dict.fromkeys(self._versions)))
            return f"it speaks the versions {versions} of QUIC, not 0x1 (RFC 9000)"
        reason = event.reason_phrase or f"error {event.error_code:#x}"
        if event.error_code == NO_APPLICATION_PROTOCOL:
            return f"it speaks QUIC, and refuses the protocol h3 (ALPN): {reason}"
        if event.error_code in CERTIFICATE_ALERTS:
            return f"its certificate does not verify: {reason}"
        return f"the connection ended: {reason}"


def _session(connection: QuicConnection) -> ops.TlsSession:
    """Return the parameters of the TLS session, as the agent returns them for other protocols."""
    from cryptography.hazmat.primitives.serialization import Encoding  # noqa: PLC0415

    tls = connection.tls
    certificate = tls._peer_certificate  # noqa: SLF001 - the library has no public access
    schedule = tls.key_schedule
    return ops.TlsSession(
        tls.alpn_negotiated,
        "TLSv1.3",
        None if schedule is None else f"TLS_{schedule.cipher_suite.name}",
        "" if certificate is None else certificate.public_bytes(Encoding.DER).hex(),
    )
