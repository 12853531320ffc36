"""Parsers of the kernel's files and of counter pages, on values, and the sampling schedule."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path, PurePosixPath

import psutil
import pytest

from benchkit.agent import server_counters
from benchkit.agent.cgroup_accounting import Cgroup, CgroupMount, CpuSplitter
from benchkit.agent.cgroups import cpu_quota, group_folders
from benchkit.agent.collector import UnavailableError, number_after
from benchkit.agent.common import parse_cpu_list
from benchkit.agent.cpu_collectors import Cores, Frequency
from benchkit.agent.operations import CounterSource, SocketAddress
from benchkit.agent.proc import TICKS
from benchkit.agent.process_collectors import ProcessTrees
from benchkit.agent.recorder import GroupValues, Recorder, SampleWriter, SamplingSchedule, Tick
from benchkit.agent.sampler import CoreSpeedSampler, Sampler
from benchkit.agent.server_counters import PAGE_BYTES, BenchkitRequests, CounterPageClient, expvar, nginx, node
from benchkit.agent.socket_collectors import ListeningSockets
from benchkit.models.telemetry import TELEMETRY_METRICS

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
        ("nginx_connections", "active"): 290,
        ("nginx_connections", "reading"): 6,
        ("nginx_connections", "writing"): 178,
        ("nginx_connections", "waiting"): 106,
    }


def test_a_missing_value_of_a_worker_is_absent() -> None:
    page = b'{"workers": {"31": {"requests": 7, "event_loop_lag_p99_s": null}, "32": {"requests": 0}}}'
    assert node(page, BenchkitRequests(1, 1)) == {("requests_total", "31"): 7, ("requests_total", "32"): 0}


def test_what_servers_count_themselves_is_sparse() -> None:
    go = (
        b'{"requests": 7, "tls": {"handshakes": 4, "resumed": 1}, "connections": {"accepted": 3, "open": 2}, "runtime": {"goroutines": 5, "heap_live_bytes": 4096, '
        b'"gc_cycles": 2, "gc_pause_s": 0.1, "gc_cpu_s": 0.2, "allocated_bytes": 512, "mutex_wait_s": 0.3, "scheduler_latencies": [{"low_s": 0, "high_s": 1e-6, "count": 2}]}}'
    )
    workers = b'{"workers": {"31": {"event_loop_lag_p99_s": 0.1, "event_loop_active_s": 0.5}}}'
    own = BenchkitRequests(1, 1)
    found = {**expvar(go, own), **node(workers, own), **nginx(NGINX, own)}
    sparse = {name for name, metric in TELEMETRY_METRICS.items() if metric.sparse}
    of_processes = {"voluntary_switches_total", "involuntary_switches_total", "storage_written_bytes_total"}
    assert {name for name, _ in found} == sparse - of_processes


def test_a_page_in_another_format_is_unavailable() -> None:
    with pytest.raises(UnavailableError, match="not the page of stub_status"):
        nginx(b"<html>404</html>", BenchkitRequests(1, 1))


@pytest.fixture
def serve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[bytes], CounterPageClient]]:
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

        def start(response: bytes) -> CounterPageClient:
            answers.append(pool.submit(answer, response))
            return CounterPageClient(
                CounterSource("nginx", SocketAddress(unix=str(tmp_path / "admin.sock")), "/status")
            )

        yield start
        for each in answers:
            each.result()


@pytest.mark.parametrize(
    ("head", "body"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5", b"abcde"),
        (b"HTTP/1.1 200 OK\r\nX: y\r\ncontent-length:5", b"abcde"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked", b"3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n"),
    ],
)
def test_a_counter_page_is_complete_or_unavailable(
    serve: Callable[[bytes], CounterPageClient], head: bytes, body: bytes
) -> None:
    page = serve(head + b"\r\n\r\n" + body)
    assert (page.get(), page.own) == (b"abcde", BenchkitRequests(requests=1, connections=1))
    page.close()
    for end in (0, len(body) // 2, body.rindex(b"e")):
        with pytest.raises(UnavailableError, match="no complete HTTP response"):
            serve(head + b"\r\n\r\n" + body[:end]).get()


@pytest.mark.parametrize(
    ("response", "why"),
    [
        (b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "answers 404"),
        (b"SSH-2.0-OpenSSH_9.2 Debian\r\n\r\n", "no complete HTTP response: BadStatusLine.*SSH-2.0-OpenSSH_9.2"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "no complete HTTP response: .*incomplete"),
        (b"HTTP/1.1 200 OK\r\n\r\n" + bytes(PAGE_BYTES + 1), "more than 1048576 bytes"),
        (b"", "no complete HTTP response: RemoteDisconnected"),
    ],
)
def test_another_answer_is_no_counter_page(
    serve: Callable[[bytes], CounterPageClient], response: bytes, why: str
) -> None:
    with pytest.raises(UnavailableError, match=why):
        serve(response).get()


def test_clock_rates_are_those_of_psutil_where_the_host_has_them() -> None:
    try:
        rates = Frequency().sample()
    except UnavailableError:
        assert not psutil.cpu_freq(percpu=True)
        return
    assert rates.keys() == {("cpu_frequency_hz", str(core)) for core in range(len(psutil.cpu_freq(percpu=True)))}
    assert min(rates.values()) > 1e8


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
        ({"cpu.stat": "usage_usec 3000000\nuser_usec 2000000\nsystem_usec 1000000\n"}, (2.0, 1.0)),
        (
            {"cpuacct.usage": "3000000000", "cpuacct.usage_user": "1000000000", "cpuacct.usage_sys": "1000000000"},
            (1.5, 1.5),
        ),
        ({"cpuacct.usage": "3000000000", "cpuacct.stat": f"user {3 * TICKS}\nsystem {TICKS}\n"}, (2.25, 0.75)),
        ({}, None),
    ],
    ids=["version 2", "version 1", "before Linux 4.6", "no group"],
)
def test_the_cpu_time_of_a_group_is_its_exact_sum_in_the_shares_of_user_and_system(
    tmp_path: Path, files: dict[str, str], expected: tuple[float, float] | None
) -> None:
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    controllers = ("",) if "cpu.stat" in files else ("cpuacct", "cpu")
    used = Cgroup("/group", dict.fromkeys(controllers, tmp_path)).cpu()
    assert used == (None if expected is None else pytest.approx(expected))


def test_user_and_system_time_only_grow_and_add_up() -> None:
    splitter = CpuSplitter()
    assert splitter.split(1.0, 1, 1) == (0.5, 0.5)
    assert splitter.split(1.1, 1, 9) == pytest.approx((0.5, 0.6)), "user time does not shrink"
    assert splitter.split(0.9, 9, 1) == pytest.approx((0.5, 0.6)), "nor does the whole"
    assert splitter.split(2.0, 0, 0) == pytest.approx((1.4, 0.6))


@pytest.mark.parametrize(
    ("root", "path", "expected"),
    [("/", "/a/b", "a/b"), ("/lab/sut", "/lab/sut/b", "b"), ("/lab/sut", "/b", "b"), ("/lab/sut", "/lab/sut", ".")],
)
def test_the_path_of_a_group_is_below_the_mount_or_that_of_the_kernel(
    tmp_path: Path, root: str, path: str, expected: str
) -> None:
    (tmp_path / expected).mkdir(parents=True, exist_ok=True)
    assert CgroupMount(tmp_path, PurePosixPath(root)).folder(path) == tmp_path / expected


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


def test_a_number_is_found_behind_its_word_alone() -> None:
    content = b"Name:\tx\nnonvoluntary_ctxt_switches:\t3\nvoluntary_ctxt_switches:\t12"
    assert number_after(content, b"voluntary_ctxt_switches:") == 12
    assert number_after(content, b"nonvoluntary_ctxt_switches:") == 3
    assert number_after(content, b"ctxt") is None


def test_the_kernels_lists_of_cpus_are_parsed() -> None:
    assert parse_cpu_list("0-2,8\n") == [0, 1, 2, 8]
    assert parse_cpu_list("3") == [3]
    assert parse_cpu_list("") == []


def test_a_missed_tick_is_skipped() -> None:
    schedule = SamplingSchedule(0.02)
    times: list[float] = []
    for _ in schedule.ticks():
        times.append(time.monotonic())
        if len(times) == 2:
            time.sleep(0.07)
        if len(times) == 5:
            schedule.stop()
    intervals = [later - earlier for earlier, later in pairwise(times)]
    assert intervals[1] >= 0.07
    assert sum(intervals) >= 0.02 * 6, "three ticks fell into the pause and are skipped"


def test_a_requested_tick_starts_after_its_request() -> None:
    schedule = SamplingSchedule(60)
    times: list[float] = []

    ticks = schedule.ticks()
    thread = threading.Thread(target=lambda: times.extend(time.monotonic() for _ in ticks))
    thread.start()
    for _ in range(20):
        asked = time.monotonic()
        assert schedule.tick_now(LONG_S)
        assert times[-1] >= asked
    schedule.stop()
    thread.join(LONG_S)
    assert not thread.is_alive()
    assert 20 <= len(times) <= 21, "the first may be a requested one"
    assert schedule.tick_now(0), "no thread follows any more"


class RecordingTrees(ProcessTrees):
    """Empty process trees that record the time of their refresh."""

    def __init__(self) -> None:
        self.seen_ns = 0

    def refresh(self) -> None:
        self.seen_ns = time.monotonic_ns()

    def close(self) -> None:
        pass


def test_a_sample_has_the_instant_at_which_the_cores_are_read(tmp_path: Path) -> None:
    # Finding processes takes a variable time, during which idle cores would appear busy.
    schedule, trees = SamplingSchedule(60), RecordingTrees()
    recorder = Recorder(tmp_path / "samples", {})
    sampler = Sampler(schedule, recorder, trees, ListeningSockets())
    sampler.add(None, [Cores])
    sampler.start()
    assert schedule.tick_now(LONG_S)
    schedule.stop()
    sampler.join(LONG_S)
    recorder.close({})
    lines = map(json.loads, (tmp_path / "samples").read_text().splitlines())
    instants = [each["t_ns"] for each in lines if "t_ns" in each]
    assert instants
    assert instants[-1] >= trees.seen_ns


def test_scheduled_instants_come_before_regular_ones() -> None:
    schedule = SamplingSchedule(60)
    schedule.tick_at([time.monotonic_ns() - 1, time.monotonic_ns()])
    ticks = schedule.ticks()
    assert [next(ticks) for _ in range(2)] == [Tick.SCHEDULED, Tick.SCHEDULED]


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


def test_a_core_where_the_agent_cannot_run_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The kernel refuses a core that does not exist like one that was removed from the affinity.
    (core, *_), has_ended = sorted(os.sched_getaffinity(0)), 1023
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {core, has_ended})
    recorder = Recorder(tmp_path / "samples", {})
    speeds = CoreSpeedSampler(60, recorder)
    speeds.start()
    deadline = time.monotonic() + LONG_S
    while speeds.problem() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    speeds.stop()
    speeds.join()
    recorder.close({})
    problem = speeds.problem()
    assert problem is not None
    assert problem.startswith(f"core {has_ended}: its speed was not measured")
    assert "Invalid argument" in problem
    assert "do not change the agent's CPU affinity" in problem
