"""Requests and responses over HTTP/2 as bytes, with the server's side of the same library as the other end."""

from __future__ import annotations

import socket
import threading
import time

import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, RequestReceived

from benchkit.agent.common import OperationError
from benchkit.agent.http_reader import Http2Stream
from benchkit.errors import InputError
from benchkit.hosts.http2 import FIRST_WINDOW, Http2Request

HEADERS = [("Host", "10.0.0.1:8443"), ("Connection", "close"), ("Accept", "text/plain")]
BODY = b"Hello World\n" * 20_000
"""More than the window with which flow control begins."""


def answered(request: Http2Request, body: bytes = BODY) -> tuple[dict[str, str], bytes, bytes]:
    """Return the headers and the body that a server receives, and all that it sends."""
    server = H2Connection(H2Configuration(client_side=False, header_encoding="utf-8"))
    server.initiate_connection()
    headers: dict[str, str] = {}
    received = bytearray()
    for event in server.receive_data(request.content):
        if isinstance(event, RequestReceived):
            headers = {str(name): str(value) for name, value in event.headers or ()}
        if isinstance(event, DataReceived):
            received += event.data or b""
    server.send_headers(1, [(":status", "200"), ("content-type", "text/plain"), ("x", "ü")])
    for start in range(0, len(body), 16384):
        server.send_data(1, body[start : start + 16384])
    server.end_stream(1)
    return headers, bytes(received), server.data_to_send()


def test_a_request_goes_out_in_one_piece_and_its_response_is_decoded() -> None:
    request = Http2Request("POST", "/a?b", "https", [*HEADERS, ("Content-Length", "40000")], b"k" * 40_000)
    headers, received, sent = answered(request)
    assert headers == {
        ":method": "POST",
        ":scheme": "https",
        ":authority": "10.0.0.1:8443",
        ":path": "/a?b",
        "accept": "text/plain",
        "content-length": "40000",
    }
    assert received == b"k" * 40_000
    response = request.response(sent)
    assert (response.status, bytes(response.body), response.complete) == (200, BODY, True)
    assert response.headers == [("content-type", "text/plain"), ("x", "ü".encode().decode("latin-1"))]
    assert response.header_bytes == len("HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\nx: ü\r\n\r\n".encode())


def test_part_of_a_response_is_incomplete_and_other_bytes_are_an_error() -> None:
    request = Http2Request("GET", "/", "http", HEADERS)
    response = request.response(answered(request)[2][:-5_000])
    assert (response.status, response.complete) == (200, False)
    with pytest.raises(ValueError, match=r"\w"):  # data outside of a stream
        Http2Request("GET", "/", "http", HEADERS).response(b"\x00\x00\x01\x00\x00\x00\x00\x00\x00a")


def test_a_body_that_flow_control_would_stop_is_refused() -> None:
    with pytest.raises(InputError, match="cannot be probed over HTTP/2"):
        Http2Request("POST", "/", "https", HEADERS, b"k" * (FIRST_WINDOW + 1))


def read_from(content: bytes, *, closes: bool = False) -> bytes:
    """Return what the agent reads of a server that sends this, and keeps the connection open unless it `closes`."""
    near, far = socket.socketpair()
    with near, far:
        sender = threading.Thread(target=far.sendall, args=(content,))
        sender.start()
        if closes:
            sender.join()
            far.shutdown(socket.SHUT_WR)
        stream = Http2Stream(near, time.monotonic() + 60, 1 << 24)
        try:
            stream.read()
        finally:
            sender.join()
    return bytes(stream.received)


def test_the_agent_reads_until_the_stream_has_ended() -> None:
    _, _, sent = answered(Http2Request("GET", "/", "http", HEADERS))
    assert read_from(sent).endswith(sent[-9:])
    assert read_from(sent[:400], closes=True) == sent[:400]
    for other in (b"HTTP/1.1 400 Bad Request\r\n\r\n", b""):
        with pytest.raises(OperationError, match="no HTTP/2 response"):
            read_from(other, closes=True)
