from __future__ import annotations

import os
import select
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from benchkit.agent import operations as ops
from benchkit.agent.processes import ProcessTable
from benchkit.agent.sockets import SocketProbes
from benchkit.hosts.agent_link import AgentLink, RefusedError
from tests.support.waiting import wait_until

Serve = Callable[[bytes], int]


def probe(agent: AgentLink, at: ops.SocketAddress, timeout_s: float = 60, process: int | None = None) -> ops.PortProbe:
    return agent.call_within(timeout_s, SocketProbes.probe_port, at, timeout_s, process)


def local(port: int) -> ops.SocketAddress:
    return ops.SocketAddress("tcp", "127.0.0.1", port)


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as made:
        made.settimeout(60)
        yield made


def port_of(listening: socket.socket) -> int:
    return int(listening.getsockname()[1])


@pytest.fixture
def closed() -> Iterator[socket.socket]:
    """A socket with a port that nobody else can take, and that is closed until it listens."""
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        yield made


def test_waiting_ends_soon_after_the_port_opens(agent: AgentLink, closed: socket.socket) -> None:
    waiting = agent.submit(SocketProbes.probe_port, local(port_of(closed)), 30)
    time.sleep(0.2)
    closed.listen()
    opened = time.monotonic()
    assert agent.result(waiting, 30).reached
    assert time.monotonic() - opened < 29, "before its own time was up"


@pytest.fixture
def peer() -> Iterator[socket.socket]:
    """A UDP socket, which is no server until a test answers."""
    with socket.socket(type=socket.SOCK_DGRAM) as made:
        made.bind(("127.0.0.1", 0))
        yield made


def udp(peer: socket.socket) -> ops.SocketAddress:
    return ops.SocketAddress("udp", *peer.getsockname())


def test_a_quic_server_is_ready_once_it_states_its_versions(agent: AgentLink, peer: socket.socket) -> None:
    waiting = agent.submit(SocketProbes.probe_port, udp(peer), 60)
    peer.settimeout(60)
    for answer in (b"no QUIC", *[None] * 20):  # an answer that comes late is asked for again
        asked, client = peer.recvfrom(2000)
        assert (len(asked), asked[0] & 0x80) == (1200, 0x80)
        identity = asked[6:14]  # of the server, as the client chose it; the client's own follows
        versions = b"\0\0\0\1\x6b\x33\x43\xcf"
        peer.sendto(answer or b"\x80" + bytes(4) + b"\x08" + asked[15:23] + b"\x08" + identity + versions, client)
        if answer is None and select.select([peer], [], [], 1)[0] == []:
            break
    assert agent.result(waiting, 60).reached
    closed = udp(peer)
    peer.close()
    found = probe(agent, closed, 0.1)
    assert (found.reached, found.error) == (False, "Connection refused")


def test_a_bound_udp_port_is_taken_and_tcp_is_another_port(agent: AgentLink, peer: socket.socket) -> None:
    port = peer.getsockname()[1]
    (owner,) = agent.call(SocketProbes.port_owners, [port], udp=True)[port]
    assert (owner.address, owner.pid) == ("127.0.0.1", os.getpid())
    of_tcp = agent.call(SocketProbes.port_owners, [port])[port]
    assert os.getpid() not in [each.pid for each in of_tcp], "others may use the same number for TCP"
    code = "import socket, time; s = socket.socket(type=socket.SOCK_DGRAM); s.bind(('127.0.0.1', 0)); time.sleep(60)"
    bound = agent.call(ProcessTable.start, ops.ProcessSpec(argv=["python3", "-c", code]))
    wait_until(lambda: bool(agent.call(SocketProbes.listeners, bound.id, udp=True)))
    assert agent.call(SocketProbes.listeners, bound.id) == []
    agent.call_within(10, ProcessTable.stop, [bound.id], signal.SIGTERM, 5)


@pytest.fixture
def serve(listener: socket.socket) -> Iterator[Serve]:
    """Answer one request with these bytes, then close the connection."""
    threads: list[threading.Thread] = []

    def answer(response: bytes) -> None:
        connection, _ = listener.accept()
        with connection:
            seen.append(connection.recv(65536))
            connection.sendall(response)

    seen: list[bytes] = []

    def start(response: bytes) -> int:
        threads.append(threading.Thread(target=answer, args=(response,)))
        threads[-1].start()
        return port_of(listener)

    yield start
    for thread in threads:
        thread.join()
    assert len(seen) == len(threads)


def http(agent: AgentLink, port: int, timeout_s: float = 60) -> ops.HttpPage:
    return agent.call_within(timeout_s, SocketProbes.get_http, local(port), timeout_s, max_bytes=12)


@pytest.mark.parametrize(
    ("response", "status", "body"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\nHello World\n", 200, b"Hello World\n"),
        (b"HTTP/1.1 404 No\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nHello\r\n0\r\n\r\n", 404, b"Hello"),
    ],
)
def test_a_response_is_read(agent: AgentLink, serve: Serve, response: bytes, status: int, body: bytes) -> None:
    assert http(agent, serve(response)) == ops.HttpPage(status, body)


@pytest.mark.parametrize(
    ("response", "kind"),
    [
        (b"", "no-http"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\nHello", "no-http"),
        (b"HTTP/1.1 200 OK\r\n\r\nmore than twelve", "too-large"),
    ],
)
def test_what_is_no_complete_response_is_refused(agent: AgentLink, serve: Serve, response: bytes, kind: str) -> None:
    with pytest.raises(RefusedError) as caught:
        http(agent, serve(response))
    assert caught.value.kind == kind


@pytest.mark.parametrize(("family", "address"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def test_who_listens_is_known(agent: AgentLink, family: socket.AddressFamily, address: str) -> None:
    with socket.create_server((address, 0), family=family) as made:
        port = port_of(made)
        found = agent.call(SocketProbes.port_owners, ports=[port, 1])
    name = Path("/proc/self/comm").read_text().strip()
    start = int(Path("/proc/self/stat").read_text().rpartition(") ")[2].split()[19])
    expected = ops.PortOwner(port, address, os.geteuid(), os.getpid(), name, start=start)
    assert found[port] == [expected]
    assert agent.call(SocketProbes.port_owners, [port]) == {port: []}
