"""One request over HTTP/3 through an agent, with a server of the same library as the other end."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

import pytest
from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.asyncio.server import serve
from aioquic.h3.connection import H3Connection
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import ProtocolNegotiated, QuicEvent
from aioquic.quic.packet import QuicProtocolVersion

from benchkit.errors import HostError
from benchkit.hosts.agent_link import AgentLink
from benchkit.hosts.sockets import HttpAnswer, HttpHop, Sockets, Udp
from benchkit.services.certificates import RunAuthority, RunCertificate

BODY = b"Hello World\n" * 20_000
IDENTITY = "here", "127.0.0.1", "ecdsa-p256"


class Echo(QuicConnectionProtocol):
    """Answers each request with its method, its content and `BODY`."""

    http: H3Connection | None = None
    method = b""

    def quic_event_received(self, event: QuicEvent) -> None:
        """Answer once a request has ended."""
        if isinstance(event, ProtocolNegotiated):
            self.http = H3Connection(self._quic)
        for each in () if self.http is None else self.http.handle_event(event):
            if isinstance(each, HeadersReceived):
                self.method, content = dict(each.headers)[b":method"], b""
            elif isinstance(each, DataReceived):
                content = each.data
            if isinstance(each, HeadersReceived | DataReceived) and each.stream_ended:
                assert self.http is not None
                self.http.send_headers(each.stream_id, [(b":status", b"202"), (b"x-method", self.method)])
                self.http.send_data(each.stream_id, content + BODY, end_stream=True)
                self.transmit()


@contextmanager
def server(folder: Path, *, alpn: str = "h3", version: int = QuicProtocolVersion.VERSION_1) -> Iterator[Udp]:
    """Run a server in a thread, and give its address."""
    for part, name in (("certificate", "certificate.pem"), ("key", "key.pem")):
        (folder / name).write_bytes(RunCertificate(*IDENTITY, part).read())  # type: ignore[arg-type]
    configuration = QuicConfiguration(is_client=False, alpn_protocols=[alpn], supported_versions=[version])
    configuration.load_cert_chain(folder / "certificate.pem", folder / "key.pem")
    with socket.socket(type=socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        address, port = free.getsockname()
    loop = asyncio.new_event_loop()
    running = loop.run_until_complete(_serve(address, port, configuration))
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield Udp(address, port)
    finally:
        loop.call_soon_threadsafe(running.close)
        loop.call_soon_threadsafe(loop.call_later, 0.05, loop.stop)  # its transport closes in a later turn of the loop
        thread.join()
        loop.close()


async def _serve(address: str, port: int, configuration: QuicConfiguration):  # type: ignore[no-untyped-def]  # noqa: ANN202
    return await serve(address, port, configuration=configuration, create_protocol=Echo)


def ask(agent: AgentLink, at: Udp, workdir: Path, *, name: str = "127.0.0.1", **request: object) -> HttpAnswer:
    (workdir / "ca.pem").write_bytes(RunAuthority().read())
    hop = HttpHop("h3", PurePosixPath(workdir / "ca.pem"), name)
    headers = [("Host", str(at)), ("Connection", "close")]
    return Sockets(agent, "here").http(at, headers=headers, hop=hop, **{"timeout_s": 30, **request})  # type: ignore[arg-type]


def test_an_answer_over_http3_with_what_the_handshake_agreed_on(
    agent: AgentLink, workdir: Path, tmp_path: Path
) -> None:
    with server(tmp_path) as at:
        Sockets(agent, "here").wait_open(at, 30)
        answer = ask(agent, at, workdir, method="POST", body=b"sent")
        named = ask(agent, at, workdir, name="here")
    assert (answer.status, dict(answer.headers)["x-method"]) == (202, "POST")
    assert (answer.body[:16], answer.body_bytes, answer.complete) == (b"sentHello World\n", 4 + len(BODY), True)
    agreed = answer.negotiated
    assert (agreed.protocol, agreed.tls_version, agreed.key) == ("h3", "1.3", "ecdsa-p256")
    assert agreed.cipher in {"TLS_AES_256_GCM_SHA384", "TLS_AES_128_GCM_SHA256", "TLS_CHACHA20_POLY1305_SHA256"}
    assert named.body_bytes == len(BODY)


@pytest.mark.parametrize(
    ("options", "name", "why"),
    [
        ({"alpn": "hq-interop"}, "127.0.0.1", r"it speaks QUIC, and refuses the protocol h3 \(ALPN\)"),
        ({"version": 0x6B3343CF}, "127.0.0.1", r"it speaks the versions .*0x6b3343cf.* of QUIC, not 0x1"),
        ({}, "elsewhere", "its certificate does not verify: .*elsewhere"),
    ],
    ids=["ALPN", "versions", "certificate"],
)
def test_a_handshake_that_fails_says_why(  # noqa: PLR0917
    agent: AgentLink, workdir: Path, tmp_path: Path, options: dict[str, object], name: str, why: str
) -> None:
    with server(tmp_path, **options) as at, pytest.raises(HostError, match=why) as caught:  # type: ignore[arg-type]
        ask(agent, at, workdir, name=name)
    assert caught.value.what == f"{at} does not answer over HTTP/3"


def test_a_port_that_is_closed_or_silent_says_so(agent: AgentLink, workdir: Path) -> None:
    with socket.socket(type=socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        at = Udp(*silent.getsockname())
        with pytest.raises(HostError, match="no datagram came back: UDP may be blocked on the way"):
            ask(agent, at, workdir, timeout_s=0.3)
        with pytest.raises(HostError, match=r"cannot connect to UDP 127.*no answer for 0\.1 s") as caught:
            Sockets(agent, "here").wait_open(at, 0.1)
        assert "firewall" in (caught.value.hint or "")
    with pytest.raises(HostError, match="the UDP port is closed: Connection refused"):
        ask(agent, at, workdir)
