"""Each operation of the agent once, by the real agent over a pipe, on each Python that hosts may have."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import os
import shutil
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import ParamSpec, TypeVar

import pytest

from benchkit.agent import operations as ops
from benchkit.agent.cgroups import Cgroups
from benchkit.agent.common import poll_until
from benchkit.agent.containers import Containers
from benchkit.agent.facts import FactsReader
from benchkit.agent.files import FileStore
from benchkit.agent.processes import ProcessTable
from benchkit.agent.records import Records
from benchkit.agent.server import Agent
from benchkit.agent.settings import Sysctls
from benchkit.agent.sockets import SocketProbes
from benchkit.agent.telemetry import Telemetry
from benchkit.agent.timetable import Timetable
from benchkit.agent.undo import Undo
from benchkit.agent.watchdog_link import WatchdogLink
from benchkit.hosts.agent_link import AgentLink, Method, RefusedError
from benchkit.store.telemetry_table import read_telemetry
from tests.support.agent.fixtures import PYTHONS

P = ParamSpec("P")
ResultT = TypeVar("ResultT")
FIN = "net.ipv4.tcp_fin_timeout"
CONTENT = b"some bytes"
SHA256 = hashlib.sha256(CONTENT).hexdigest()


class Asker:
    """Calls operations, and records which."""

    def __init__(self) -> None:
        self.asked: set[str] = set()

    def __call__(self, link: AgentLink, operation: Method[P, ResultT], /, *args: P.args, **kwargs: P.kwargs) -> ResultT:
        self.asked.add(operation.__qualname__)
        return link.call_within(10, operation, *args, **kwargs)


@contextlib.contextmanager
def server_at(path: Path) -> Iterator[None]:
    """Answer each request at a unix socket with a short response."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()

        def serve() -> None:
            with contextlib.suppress(OSError):  # it is closed at the end
                while True:
                    connection, _ = listener.accept()
                    with connection:
                        if connection.recv(4096):
                            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")

        threading.Thread(target=serve, daemon=True).start()
        yield
        listener.shutdown(socket.SHUT_RDWR)


def use_files(ask: Asker, link: AgentLink, workdir: Path) -> None:
    assert ask(link, FileStore.missing, [(SHA256, 0o644)]) == [(SHA256, 0o644)]
    assert ask(link, FileStore.upload, "t1", SHA256, 0o644, len(CONTENT), offset=0, body=CONTENT)
    assert ask(link, FileStore.place, [("a/file", SHA256, 0o644)]) == ["a/file"]
    assert ask(link, FileStore.read, "a/file", 5, 99) == ops.FileChunk(10, b"bytes")
    assert ask(link, FileStore.list_folder, "a") == {"file": 10}
    assert ask(link, FileStore.mkdir, "b") == PurePosixPath(workdir / "b")
    assert gzip.decompress(Path(ask(link, FileStore.compress, "a/file")).read_bytes()) == CONTENT
    ask(link, FileStore.archive, "a/all.tar", ["file"])
    assert (workdir / "a" / "all.tar").exists()
    assert ask(link, FileStore.mkdir_temporary, "t") == PurePosixPath(workdir / "t")
    assert ask(link, FileStore.write_temporary, "t/key", 0o600, body=b"s3cr3t")
    assert (workdir / "t" / "key").read_bytes() == b"s3cr3t"
    assert ask(link, FileStore.remove, "t")


def use_sockets(ask: Asker, link: AgentLink, workdir: Path) -> None:
    path = workdir / "server.sock"
    at = ops.SocketAddress("unix", str(path))
    with server_at(path):
        assert ask(link, SocketProbes.probe_port, at, 60).reached
        found = ask(link, SocketProbes.get_http, at, 60)
    assert (found.status, found.body) == (200, b"hi")
    assert ask(link, SocketProbes.port_owners, [1]) == {1: []}


def use_processes(ask: Asker, link: AgentLink, workdir: Path) -> None:
    completed = ask(link, ProcessTable.run, ops.ProcessSpec(["cat"]), 60, 99, b"in")
    assert (completed.body, completed.timed_out) == (b"in", False)
    seconds = f"60.{os.getpid()}"  # no other process here has its command line
    sleeper = ask(link, ProcessTable.start, ops.ProcessSpec(["sleep", seconds]))
    assert ask(link, ProcessTable.wait, sleeper.id, 0).ended is None
    assert [each.pid for each in ask(link, ProcessTable.members, sleeper.id)] == [sleeper.pid]
    assert sleeper.pid in {each.pid for each in ask(link, ProcessTable.list_all).processes}
    assert ask(link, ProcessTable.cpu_times, [sleeper.id])[sleeper.id].total_s < 1
    assert ask(link, SocketProbes.listeners, sleeper.id) == []
    ask(link, ProcessTable.count_by_cgroup, ask(link, ProcessTable.start, ops.ProcessSpec(["true"])).id, "/nowhere")
    use_telemetry(ask, link, sleeper, workdir)
    (stopped,) = ask(link, ProcessTable.stop, [sleeper.id], signal.SIGTERM, 5).processes
    assert stopped.ended is not None
    now_ns = ask(link, Agent.read_clocks).monotonic_ns
    start = ops.ScheduledStart("load", ops.ProcessSpec(["true"]), now_ns, now_ns + 60_000_000_000, grace_s=1.0)
    (scheduled,) = ask(link, Timetable.run, [start])
    assert scheduled.process.ended is not None
    assert (scheduled.process.ended.exit_code, scheduled.overran) == (0, False)
    ask(link, Timetable.stop)
    use_running_timetable(ask, link)


def use_running_timetable(ask: Asker, link: AgentLink) -> None:
    """Stop a timetable whose process runs, which is sampled with its threads from its start."""
    ask(link, Telemetry.start, "scheduled.jsonl", 60)
    ask(link, Telemetry.add, [ops.SampledService("load", process=None, threads=True)])
    now_ns = ask(link, Agent.read_clocks).monotonic_ns
    start = ops.ScheduledStart("load", ops.ProcessSpec(["sleep", "60"]), now_ns, now_ns + 60_000_000_000, grace_s=1.0)
    running = link.submit(Timetable.run, [start])
    for _ in poll_until(time.monotonic() + 60):
        if "load" in ask(link, Telemetry.snapshot).cpu_s:  # once it has been started
            break
    assert "load" in ask(link, Telemetry.snapshot).cpu_s
    assert len(ask(link, Telemetry.snapshot).processes["load"]) == 1
    ask(link, Timetable.stop)
    with pytest.raises(RefusedError, match="the timetable was stopped"):
        link.result(running, 10)
    assert ask(link, Telemetry.snapshot).processes["load"] == ()
    ask(link, Telemetry.stop)


def use_telemetry(ask: Asker, link: AgentLink, process: ops.ProcessReport, workdir: Path) -> None:
    ask(link, Telemetry.start, "watch.jsonl", 60)
    ask(link, Telemetry.add, [ops.SampledService("app", process.id)])
    assert ask(link, Telemetry.snapshot).processes == {"app": ((process.pid, process.start),)}
    ask(link, Telemetry.schedule_samples, [0])
    ask(link, Telemetry.schedule_snapshots, [0])
    assert "app" in ask(link, Telemetry.snapshot).cpu_s
    assert ask(link, Telemetry.stop) is not None
    assert ("app", "cpu_s_total", None) in read_telemetry((workdir / "watch.jsonl").read_bytes())


def use_changes(ask: Asker, link: AgentLink) -> None:
    assert ask(link, Sysctls.write, {FIN: "31"})[FIN] == ops.SysctlOutcome("applied", "60", "31")
    assert ask(link, Sysctls.read, [FIN])[FIN].value == "31"
    ask(link, Undo.expect_perf_maps, "maps")
    assert [each.how for each in ask(link, Undo.restore, own=True)] == ["undone", "undone"]
    assert ask(link, Sysctls.read, [FIN])[FIN].value == "60"
    if ask(link, FactsReader.gather, {"sh": ["sh"]}, [])["cpu_groups"]:
        assert Path(ask(link, Cgroups.create, "half", 0.5)).is_dir()
    else:
        with pytest.raises(RefusedError, match="no control group"):
            ask(link, Cgroups.create, "half", 0.5)
    assert ask(link, ProcessTable.cgroup_of, os.getpid()) is not None
    label, parent = ask(link, Containers.track, "true", ["localhost/benchkit:none"])  # an engine that lists nothing
    assert label.startswith("benchkit.owner=")
    assert parent.startswith("benchkit-")
    assert "containers" in [record.kind for record in ask(link, Undo.traces).records]
    ask(link, Records.delete_report, "report-of-nobody")


@pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("nsenter") is None,
    reason="needs a network namespace of its own, which stands for a host",
)
@pytest.mark.parametrize("python", PYTHONS, ids=lambda path: Path(path).name)
def test_each_operation_is_executed(launch: Callable[..., AgentLink], inside: list[str], python: str) -> None:
    ask = Asker()
    first = launch(prefix=inside, python=python)
    workdir = Path(first.hello().workdir)
    assert ask(first, WatchdogLink.lock, "r1", "sut", "me@laptop") == ops.LockResult(shared_with=None, waited=False)
    use_files(ask, first, workdir)
    use_sockets(ask, first, workdir)
    use_processes(ask, first, workdir)
    use_changes(ask, first)
    ask(first, WatchdogLink.keep)
    assert first.close(60) == []
    second = launch(prefix=inside, python=python)
    holder = ask(second, Undo.traces).holder
    assert holder is not None
    assert (holder.run, holder.state) == ("r1", "kept")
    assert ask(second, WatchdogLink.release) is not None
    assert ask(second, Agent.remove_workdir) == PurePosixPath(workdir)
    assert {*ask.asked, Agent.goodbye.__qualname__} == set(ops.OPERATIONS)  # `close` says goodbye


@pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("nsenter") is None,
    reason="needs a network namespace of its own, which stands for a host",
)
def test_the_watchdog_restores_what_a_killed_agent_changed(
    launch: Callable[..., AgentLink], inside: list[str], has_ended: Callable[[int], bool]
) -> None:
    agent = launch(prefix=inside)
    assert agent.call(Sysctls.write, {FIN: "31"})[FIN].outcome == "applied"
    folder = Path(agent.call(FileStore.mkdir_temporary, "trials/t1"))
    sleeper = agent.call(ProcessTable.start, ops.ProcessSpec(["sleep", "60"]))
    os.kill(agent.hello().pid, signal.SIGKILL)
    assert all(has_ended(pid) for pid in (agent.hello().watchdog, sleeper.pid))
    following = launch(prefix=inside)
    assert following.call(Sysctls.read, [FIN])[FIN].value == "60"
    assert not folder.exists()
    traces = following.call(Undo.traces)
    assert (traces.records, [each.reason for each in traces.reports]) == ([], ["its agent was killed"])
