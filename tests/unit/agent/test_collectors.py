"""Parsers of the kernel's files and of counter pages, on values, and the sampling schedule."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from benchkit.agent import server_counters
from benchkit.agent.cgroups import Cgroup, cpu_quota, group_folders
from benchkit.agent.common import OperationError
from benchkit.agent.host_collectors import parse_cores, parse_memory, parse_protocols, parse_sockets
from benchkit.agent.operations import CounterSource, SocketAddress
from benchkit.agent.proc import TICKS
from benchkit.agent.recorder import GroupValues, Recorder, SampleWriter, Tick
from benchkit.agent.server_counters import BenchkitRequests, CounterPage, nginx, node
from benchkit.agent.socket_collectors import ServiceSockets, SharedReading, SocketTable
from benchkit.agent.sockets import TCP, BoundSocket, parse_bound

LONG_S = 60.0
"""Time for other threads: more than a busy machine keeps them waiting."""

NGINX = b"""Active connections: 291
server accepts handled requests
 16630948 16630946 31070465
Reading: 6 Writing: 179 Waiting: 106
"""
TENGINE = b"""Active connections: 291
server accepts handled requests request_time
 16630948 16630946 31070465 77
Reading: 6 Writing: 179 Waiting: 106
"""


@pytest.mark.parametrize("page", [NGINX, TENGINE])
def test_the_own_requests_are_subtracted_from_the_counters_of_nginx(page: bytes) -> None:
    assert nginx(page, BenchkitRequests(requests=5, connections=2)) == {
        ("requests_total", None): 31070460,
        ("connections_accepted_total", None): 16630946,
    }


def test_a_missing_value_of_a_worker_is_absent() -> None:
    page = b'{"workers": {"31": {"requests": 7, "heap_bytes": null}, "32": {"requests": 0}}}'
    assert node(page, BenchkitRequests(1, 1)) == {("requests_total", "31"): 7, ("requests_total", "32"): 0}


@pytest.fixture
def serve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[bytes], CounterPage]]:
    """Serve these bytes in answer to one request at a unix socket: `serve(response)` returns the page."""
    monkeypatch.setattr(server_counters, "TIMEOUT_S", LONG_S)
    with socket.socket(socket.AF_UNIX) as listener, ThreadPoolExecutor() as pool:
        listener.bind(str(tmp_path / "admin.sock"))
        listener.listen()

        def answer(response: bytes) -> None:
            connection, _ = listener.accept()
            with connection:
                assert connection.recv(4096).startswith(b"GET /status HTTP/1.1\r\nHost: localhost\r\n")
                connection.sendall(response)

        answers = []
        pages: list[CounterPage] = []

        def start(response: bytes) -> CounterPage:
            answers.append(pool.submit(answer, response))
            at = SocketAddress("unix", str(tmp_path / "admin.sock"))
            pages.append(CounterPage(CounterSource("nginx", at, "/status")))
            return pages[-1]

        yield start
        for each in answers:
            each.result()
        for page in pages:
            page.close()


@pytest.mark.parametrize(
    ("head", "body"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: %d" % len(NGINX), NGINX),
        (b"HTTP/1.1 200 OK\r\nX: y\r\ncontent-length:%d" % len(NGINX), NGINX),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked",
            b"3\r\n%b\r\n%x;x=y\r\n%b\r\n0\r\n\r\n" % (NGINX[:3], len(NGINX) - 3, NGINX[3:]),
        ),
    ],
)
def test_a_counter_page_is_complete_or_unavailable(
    serve: Callable[[bytes], CounterPage], head: bytes, body: bytes
) -> None:
    found = serve(head + b"\r\n\r\n" + body).sample()
    assert found == nginx(NGINX, BenchkitRequests(requests=1, connections=1))
    for end in (0, len(body) // 2, body.rindex(b"Waiting")):
        with pytest.raises(OperationError, match="its own counters could not be read"):
            serve(head + b"\r\n\r\n" + body[:end]).sample()


def test_another_page_has_no_counters(serve: Callable[[bytes], CounterPage]) -> None:
    with pytest.raises(OperationError, match="not the page of stub_status"):
        serve(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi").sample()
    with pytest.raises(OperationError, match="the counter page answers 404"):
        serve(b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nhi").sample()


V1 = """\
31 25 0:27 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid - cgroup cgroup rw,cpu,cpuacct
32 25 0:28 / /sys/fs/cgroup/memory rw,nosuid - cgroup cgroup rw,memory
"""
V2 = "24 18 0:22 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate"
BOUND = "90 80 0:27 /docker/ab\\040c /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu"


@pytest.mark.parametrize(
    ("mountinfo", "membership", "expected"),
    [
        (V1, "4:cpu,cpuacct:/user/7\n3:memory:/m", ["cpu,cpuacct/user/7", "cpu,cpuacct/user", "cpu,cpuacct"]),
        (V2, "0::/user.slice/s.scope", ["user.slice/s.scope", "user.slice", ""]),
        (V2, "0::/", [""]),
        (V2, "0::/../outside", [""]),
        (BOUND, "4:cpu:/docker/ab c/inner", ["cpu/inner", "cpu"]),
        (BOUND, "4:cpu:/elsewhere", ["cpu"]),
        (V1, "0::/", []),
        ("", "", []),
    ],
)
def test_the_groups_in_force_are_the_own_group_and_its_parents(
    mountinfo: str, membership: str, expected: list[str]
) -> None:
    assert group_folders(mountinfo, membership) == [Path("/sys/fs/cgroup", each) for each in expected]


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"cpu.stat": "usage_usec 3000000\nuser_usec 2000000\nsystem_usec 1000000\n"}, (3.0, 2.0)),
        (
            {"cpuacct.usage": "3000000000", "cpuacct.usage_user": "1000000000"},
            (3.0, 1.0),
        ),
        ({}, None),
    ],
    ids=["version 2", "version 1", "no group"],
)
def test_the_cpu_time_of_a_group_is_as_the_kernel_counts_it(
    tmp_path: Path, files: dict[str, str], expected: tuple[float, float] | None
) -> None:
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    controllers = ("",) if "cpu.stat" in files else ("cpuacct", "cpu")
    used = Cgroup("/group", dict.fromkeys(controllers, tmp_path)).cpu()
    assert used == (None if expected is None else pytest.approx(expected))


def test_the_smallest_quota_applies(tmp_path: Path) -> None:
    inner, outer, old = (tmp_path / name for name in ("inner", "outer", "old"))
    for folder in (inner, outer, old):
        folder.mkdir()
    assert cpu_quota([inner, outer]) is None
    (inner / "cpu.max").write_text("max 100000\n")
    assert cpu_quota([inner, outer]) is None
    (outer / "cpu.max").write_text("150000 100000\n")
    assert cpu_quota([inner, outer]) == 1.5
    (old / "cpu.cfs_quota_us").write_text("-1\n")
    (old / "cpu.cfs_period_us").write_text("100000\n")
    assert cpu_quota([old]) is None
    (old / "cpu.cfs_quota_us").write_text("50000\n")
    assert cpu_quota([inner, outer, old]) == 0.5


def test_a_requested_sample_replaces_no_scheduled_one(tmp_path: Path) -> None:
    # The sample at the end of the last slice is followed by the last of the session.
    recorder = Recorder(tmp_path / "samples", {})
    sample: GroupValues = [(recorder.group(None), {("tcp_sockets", "time_wait"): 1.0})]
    writer = SampleWriter(recorder, 1000)
    ticks = [Tick.REGULAR, Tick.REQUESTED, Tick.SCHEDULED, Tick.REQUESTED, Tick.REQUESTED]
    for at_ns, tick in enumerate(ticks):
        writer.write(at_ns, sample, tick)
    writer.close()
    recorder.close({})
    lines = map(json.loads, (tmp_path / "samples").read_text().splitlines())
    assert [each["t_ns"] for each in lines if "t_ns" in each] == [1, 2, 4]


TCP_TABLE = b"""\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000:1F90 00000000:0000 0A 00000000:00000007 00:00000000 00000000     0        0 501 1 0 100 0 0 10 0
   1: 0100007F:1F91 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 502 1 0 100 0 0 10 0
   2: 0100007F:1F90 0100007F:E48C 01 00000000:00000003 00:00000000 00000000     0        0 0 1 0 20 0 0 10 -1
"""


def test_listening_sockets_are_parsed() -> None:
    lines = iter([*TCP_TABLE.splitlines(), b"of a connection"])
    assert list(parse_bound(lines, TCP, socket.AF_INET)) == [
        BoundSocket(501, "0.0.0.0", 8080, 0),  # noqa: S104 - of a file of the kernel
        BoundSocket(502, "127.0.0.1", 8081, 0),
    ]
    assert next(lines) == b"of a connection", "reading ends behind the listening sockets"


def test_listening_sockets_are_read_from_the_kernel(tmp_path: Path) -> None:
    path, table = str(tmp_path / "socket"), SocketTable(None)
    with (
        socket.create_server(("::1", 0), family=socket.AF_INET6, backlog=9) as six,
        socket.socket(socket.AF_UNIX) as unix,
    ):
        port = six.getsockname()[1]
        unix.bind(path)
        unix.listen(5)
        listeners = [SocketAddress("tcp", "::1", port), SocketAddress("unix", path)]
        with socket.create_connection(("::1", port)):
            sockets = ServiceSockets(listeners, table)
            assert sockets.accept_queues() == {
                ("accept_queue", f"[::1]:{port}"): 1,
                ("accept_queue_limit", f"[::1]:{port}"): 9,
                ("accept_queue", path): 0,
                ("accept_queue_limit", path): 5,
            }
            assert sockets.connections() == {
                ("connections_established", str(port)): 1,
                ("connections_established", path): 0,
            }
    table.close()


def test_sockets_of_a_process_that_has_ended_are_unavailable() -> None:
    sockets = ServiceSockets([SocketAddress("tcp", "", 1)], SocketTable(1 << 22))
    with pytest.raises(OperationError, match="the kernel does not list them: No such file"):
        sockets.accept_queues()


def test_services_share_a_reading_until_one_asks_again() -> None:
    readings = iter(range(3))
    shared = SharedReading(lambda: next(readings))
    assert [shared.of(service) for service in ("a", "b", "a", "b", "b")] == [0, 0, 1, 1, 2]


def test_the_kernels_counters_are_parsed() -> None:
    assert parse_cores(b"\ncpu  9 9\ncpu0 100 100 300 400 1 2 3 4 0 0\nctxt 7\n\n0.50 0.40 0.30 1/99 123\n") == {
        ("cpu_user_s_total", "0"): 200 / TICKS,
        ("cpu_system_s_total", "0"): 300 / TICKS,
        ("cpu_idle_s_total", "0"): 400 / TICKS,
        ("cpu_iowait_s_total", "0"): 1 / TICKS,
        ("cpu_irq_s_total", "0"): 2 / TICKS,
        ("cpu_softirq_s_total", "0"): 3 / TICKS,
        ("cpu_steal_s_total", "0"): 4 / TICKS,
        ("context_switches_total", None): 7,
        ("load1", None): 0.5,
    }
    snmp = b"Tcp: ActiveOpens CurrEstab\nTcp: 5 3\nUdp: InDatagrams NoPorts\nUdp: 10 1\n"
    assert parse_protocols(snmp) == {
        ("tcp_active_opens_total", None): 5,
        ("tcp_sockets", "established"): 3,
    }
    sockstat = b"TCP: inuse 5 orphan 0 tw 2 alloc 9 mem 1\nUDP: inuse 1\nTCP6: inuse 3\n"
    assert parse_sockets(sockstat)["tcp_sockets", "in_use"] == 8
    memory = b"\nMemTotal:  100 kB\nMemAvailable:  40 kB\n"
    assert parse_memory(memory)["memory_used_bytes", None] == 60 * 1024
