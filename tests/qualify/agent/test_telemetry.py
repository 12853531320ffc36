"""Telemetry of real processes and sockets of this machine."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import psutil
import pytest

from benchkit.agent import operations as ops
from benchkit.agent.processes import ProcessTable
from benchkit.agent.recorder import SECOND_NS
from benchkit.agent.server_counters import TIMEOUT_S
from benchkit.agent.telemetry import Telemetry
from benchkit.hosts.agent_link import AgentLink
from benchkit.models.telemetry import TELEMETRY_METRICS
from benchkit.store.telemetry_table import SampleSeries, SeriesKey, read_telemetry
from tests.support.waiting import wait_until

FAST_S = 0.05


class Watch:
    """One telemetry session, from `start` to `stop`."""

    def __init__(self, agent: AgentLink, file: Path) -> None:
        self._agent = agent
        self._file = file

    def start(self, interval_s: float, *services: ops.SampledService) -> None:
        self._agent.call(Telemetry.start, str(self._file), interval_s, list(services))

    def look(self) -> dict[str, tuple[tuple[int, int], ...]]:
        return self._agent.call(Telemetry.snapshot).processes

    def stop(self) -> tuple[dict[SeriesKey, SampleSeries], list[str]]:
        summary = self._agent.call(Telemetry.stop)
        assert summary is not None
        return read_telemetry(self._file.read_bytes()), summary.unavailable


@pytest.fixture
def watch(agent: AgentLink, workdir: Path, request: pytest.FixtureRequest) -> Iterator[Watch]:
    yield Watch(agent, workdir / "watches" / f"{request.node.name}.jsonl")
    agent.call(Telemetry.stop)


def start(agent: AgentLink, *argv: str) -> ops.ProcessReport:
    return agent.call(ProcessTable.start, ops.ProcessSpec(list(argv)))


def stop(agent: AgentLink, *processes: ops.ProcessReport) -> None:
    agent.call_within(5, ProcessTable.stop, [each.id for each in processes], signal.SIGTERM, 1)


def python(agent: AgentLink, program: str) -> ops.ProcessReport:
    return start(agent, sys.executable, "-c", program)


def service(
    process: ops.ProcessReport,
    *listeners: ops.SocketAddress,
    threads: bool = False,
    counters: ops.CounterSource | None = None,
) -> ops.SampledService:
    return ops.SampledService("app", process.id, list(listeners), threads, counters)


def children_of(pid: int) -> list[int]:
    return [child.pid for child in psutil.Process(pid).children(recursive=True)]


def values(found: Mapping[SeriesKey, SampleSeries], metric: str, service: str | None = "app") -> list[float]:
    """Return the samples of a metric with one instance."""
    (series,) = [series for (name, kind, _), series in found.items() if (name, kind) == (service, metric)]
    return series.numbers


def test_everything_seen_is_in_the_vocabulary_and_counters_only_grow(agent: AgentLink, watch: Watch) -> None:
    process = start(agent, "/bin/sleep", "60")
    watch.start(FAST_S, service(process, threads=True))
    wait_until(lambda: sum(range(200_000)) > 0 and len(watch.look()["app"]) == 1)
    for _ in range(3):
        watch.look()
    found, _ = watch.stop()
    stop(agent, process)
    for (_, metric, instance), series in found.items():
        assert (instance is None) == (TELEMETRY_METRICS[metric].instance is None) or metric == "requests_total", metric
        assert series.t_ns == sorted(set(series.t_ns))
        if TELEMETRY_METRICS[metric].grows and metric not in {"cpu_idle_s_total", "cpu_iowait_s_total"}:  # proc(5)
            assert series.numbers == sorted(series.numbers), metric
    assert {name for name, _, _ in found} == {None, "agent", "app"}
    cores = {instance for _, metric, instance in found if metric == "cpu_idle_s_total"}
    assert cores == {str(core) for core in range(os.cpu_count() or 0)}


FORKING = """
import os, time
for _ in range(2):
    if os.fork() == 0:
        while time.process_time() < 0.15: pass
        time.sleep(60)
time.sleep(60)
"""


def test_workers_that_were_forked_are_in_the_tree_and_what_a_killed_one_took_stays_counted(
    agent: AgentLink, watch: Watch
) -> None:
    process = python(agent, FORKING)
    wait_until(lambda: len(children_of(process.pid)) == 2)
    watch.start(FAST_S, service(process))
    workers = children_of(process.pid)
    wait_until(lambda: all(sum(psutil.Process(pid).cpu_times()[:2]) > 0.12 for pid in workers))
    before = watch.look()["app"]
    os.kill(workers[0], signal.SIGKILL)
    wait_until(lambda: psutil.Process(workers[0]).status() == psutil.STATUS_ZOMBIE)  # its parent takes no note of it
    after = watch.look()["app"]
    found, _ = watch.stop()
    stop(agent, process)
    assert [pid for pid, _ in before] == sorted([process.pid, *workers])
    assert [each for each in before if each not in after] == [(workers[0], dict(before)[workers[0]])]
    assert values(found, "processes")[-1] == 2
    assert values(found, "cpu_s_total")[-1] > 0.24
    assert values(found, "cpu_s_total") == sorted(values(found, "cpu_s_total"))
    each = {instance: series for (_, metric, instance), series in found.items() if metric == "process_cpu_s_total"}
    assert each.keys() == {str(pid) for pid, _ in before}
    assert each[str(workers[1])].numbers[-1] > 0.1


BUSY_TWICE = "import os; os.fork()\nwhile True: pass"


def test_busy_processes_on_one_core_are_on_it_or_in_its_run_queue(agent: AgentLink, watch: Watch) -> None:
    cpu = min(os.sched_getaffinity(0))
    process = agent.call(ProcessTable.start, ops.ProcessSpec([sys.executable, "-c", BUSY_TWICE], cpus=[cpu]))
    wait_until(lambda: len(children_of(process.pid)) == 1)
    watch.start(1.0, service(process))
    watch.look()
    time.sleep(3)
    watch.look()
    found, _ = watch.stop()
    stop(agent, process)
    on_cpu, in_queue = (found["app", metric, None] for metric in ("cpu_s_total", "run_queue_s_total"))
    elapsed_s, cpu_s, queue_s = (series[-1] - series[0] for series in (in_queue.t_ns, on_cpu.numbers, in_queue.numbers))
    assert cpu_s + queue_s == pytest.approx(2 * elapsed_s / SECOND_NS, rel=0.3), "half of it without the queue"
    assert queue_s > 0.5 * cpu_s


LISTENING = """
import socket, time
def listen(address, backlog, family=socket.AF_INET):
    made = socket.socket(family)
    if family != socket.AF_UNIX: made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    made.bind(address)
    made.listen(backlog)
    return made
one = listen(("127.0.0.1", 0), 7)
port = one.getsockname()[1]
two = listen(("127.0.0.1", port), 9)
local = listen("queue.sock", 5, socket.AF_UNIX)
open("port", "w").write(str(port))
time.sleep(60)
"""


def queued(port: int) -> int:
    """Return the connections in the accept queues of a port (proc(5), rx_queue of /proc/net/tcp)."""
    fields = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    listening = [each for each in fields if each[1].endswith(f":{port:04X}") and each[3] == "0A"]
    return sum(int(each[4].partition(":")[2], 16) for each in listening)


def test_every_listening_socket_has_its_accept_queue(agent: AgentLink, watch: Watch, workdir: Path) -> None:
    process = python(agent, LISTENING)
    wait_until(lambda: (workdir / "port").exists() and (workdir / "port").read_text() != "")
    port, path = int((workdir / "port").read_text()), str(workdir / "queue.sock")
    sockets = [ops.SocketAddress("tcp", "127.0.0.1", port), ops.SocketAddress("unix", "queue.sock")]
    watch.start(60, service(process, *sockets))
    with ExitStack() as connections:
        for _ in range(6):
            connections.enter_context(socket.create_connection(("127.0.0.1", port)))
        for _ in range(2):
            local = connections.enter_context(socket.socket(socket.AF_UNIX))
            local.connect(path)
        wait_until(lambda: queued(port) == 6)  # a busy kernel handles the last packet of a handshake later
        watch.look()
    found, unseen = watch.stop()
    stop(agent, process)
    (workdir / "port").unlink()
    depth, limit = (
        {instance: series.numbers[-1] for (_, metric, instance), series in found.items() if metric == name}
        for name in ("accept_queue", "accept_queue_limit")
    )
    first, second = f"127.0.0.1:{port}", f"127.0.0.1:{port}#2"
    assert limit == {first: 7, second: 9, "queue.sock": 5}
    assert depth[first] + depth[second] == 6, "the kernel divides them between the two"
    assert depth["queue.sock"] == 2
    assert not [what for what in unseen if "accept" in what]


def test_connections_and_clock_rates_are_sampled_at_the_scheduled_instants(agent: AgentLink, workdir: Path) -> None:
    process = start(agent, "/bin/sleep", "60")
    with ExitStack() as connections, socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        other = connections.enter_context(socket.create_server(("127.0.0.1", 0)))
        for _ in range(300):  # more than one piece of the kernel's list
            connections.enter_context(socket.create_connection(("127.0.0.1", port)))
            connections.enter_context(listening.accept()[0])
        connections.enter_context(socket.create_connection(other.getsockname()))
        path = str(workdir / "unix")
        local = connections.enter_context(socket.socket(socket.AF_UNIX))
        local.bind(path)
        local.listen()
        for _ in range(2):
            connections.enter_context(socket.socket(socket.AF_UNIX)).connect(path)
            connections.enter_context(local.accept()[0])
        other_port = other.getsockname()[1]
        listeners = [
            ops.SocketAddress("tcp", "127.0.0.1", port),
            ops.SocketAddress("tcp", "127.0.0.1", other_port),
            ops.SocketAddress("unix", path),
        ]
        for wait_s in (0.2, 2.0, 20.0):  # the second count is due after 50 ms, and nothing tells when it was made
            watch = Watch(agent, workdir / "watches" / f"{process.id}-{wait_s}.jsonl")
            watch.start(60, service(process, *listeners))
            watch.look()
            asked = time.monotonic_ns()
            instants = [asked, asked + 50_000_000, asked + 3_600_000_000_000]
            agent.call(Telemetry.schedule_samples, at_ns=instants)
            time.sleep(wait_s)
            found, _ = watch.stop()
            series = found.get(("app", "connections_established", str(port)))
            if series is not None and len(series.numbers) > 1:
                break
    stop(agent, process)
    assert series is not None
    assert series.numbers == [300, 300]
    beside = [found["app", "connections_established", each] for each in (str(other_port), path)]
    assert [each.numbers for each in beside] == [[1, 1], [2, 2]]
    assert all(each.t_ns == series.t_ns for each in beside)
    assert series.t_ns[0] >= asked
    assert series.t_ns[1] >= asked + 50_000_000
    clocks = [each for (_, metric, _), each in found.items() if metric == "cpu_frequency_hz"]
    assert len(clocks) == (len(psutil.cpu_freq(percpu=True)))
    assert all(each.t_ns == series.t_ns and min(each.numbers) > 1e8 for each in clocks)


HELD_S = 30.0
"""Longest time that a counter page is held."""


class Page(BaseHTTPRequestHandler):
    """A server's counter page."""

    protocol_version = "HTTP/1.1"
    content: ClassVar[bytes] = b""
    hold: ClassVar[threading.Event] = threading.Event()
    asked: ClassVar[threading.Event] = threading.Event()

    def do_GET(self) -> None:
        self.asked.set()
        self.hold.wait(HELD_S)
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.content)))
        self.end_headers()
        self.wfile.write(self.content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class calls it so
        """Print nothing."""


@pytest.fixture
def page() -> Iterator[tuple[type[Page], int]]:
    class Own(Page):
        hold = threading.Event()
        asked = threading.Event()

    Own.hold.set()
    with ThreadingHTTPServer(("127.0.0.1", 0), Own) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield Own, server.server_address[1]
        Own.hold.set()
        server.shutdown()
        thread.join()


def test_counters_of_a_server_are_asked_for_and_a_slow_one_delays_nothing_else(
    agent: AgentLink, watch: Watch, page: tuple[type[Page], int]
) -> None:
    handler, port = page
    waits = [{"low_s": None, "high_s": 0.5, "count": 2}, {"low_s": 1.0, "high_s": 2.0, "count": 4}]
    runtime = {"goroutines": 7, "heap_live_bytes": 1 << 20, "gc_cycles": 3, "gc_pause_s": 0.25}
    handler.content = json.dumps({"requests": 41, "runtime": {**runtime, "scheduler_latencies": waits}}).encode()
    process = start(agent, "/bin/sleep", "60")
    counters = ops.CounterSource("expvar", ops.SocketAddress("tcp", "127.0.0.1", port), "/debug/vars")
    watch.start(0.1, service(process, counters=counters))
    for _ in range(2):  # the second request follows the first answer
        handler.asked.clear()
        assert handler.asked.wait(60)
    handler.hold.clear()
    began = time.monotonic_ns()
    watch.look()  # does not wait for what does not come
    assert time.monotonic_ns() - began < HELD_S / 2 * SECOND_NS
    for _ in range(3):  # each request but the first follows one that was given up
        handler.asked.clear()
        assert handler.asked.wait(60)
    found, unseen = watch.stop()
    stop(agent, process)
    seen = {
        metric: values(found, metric)[-1] for metric in ("requests_total", "goroutines", "gc_total", "gc_pause_s_total")
    }
    assert seen == {"requests_total": 41, "goroutines": 7, "gc_total": 3, "gc_pause_s_total": 0.25}
    assert found["app", "heap_bytes", None].numbers[-1] == 1 << 20
    assert values(found, "goroutine_waits_total")[-1] == 6
    assert values(found, "goroutine_wait_s_total")[-1] == 2 * 0.5 + 4 * 1.5
    late_ns = round(TIMEOUT_S * SECOND_NS)  # an answer that was on its way came by then
    assert max(found["app", "requests_total", None].t_ns) < began + late_ns
    own = found[None, "load1", None].t_ns
    assert len([t_ns for t_ns in own if t_ns > began + 100_000_000]) > 2, "the host is watched meanwhile"
    assert [what for what in unseen if what.startswith("app: its own counters")]
