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
from pathlib import Path
from typing import Any, TypeVar

import pytest

from benchkit.agent import operations as ops
from benchkit.agent.common import poll_until
from benchkit.hosts.agent_link import AgentLink, RefusedError
from tests.support.agent.fixtures import PYTHONS

ResultT = TypeVar("ResultT")
FIN = "net.ipv4.tcp_fin_timeout"
CONTENT = b"some bytes"
SHA256 = hashlib.sha256(CONTENT).hexdigest()


class Asker:
    """Requests operations, and records which."""

    def __init__(self) -> None:
        self.asked: set[type[ops.Operation[Any]]] = set()

    def __call__(self, link: AgentLink, operation: ops.Operation[ResultT]) -> ResultT:
        self.asked.add(type(operation))
        return link.request(operation, timeout_s=10)


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
    assert ask(link, ops.MissingFiles([(SHA256, 0o644)])) == [(SHA256, 0o644)]
    assert ask(link, ops.UploadChunk("t1", SHA256, 0o644, len(CONTENT), 0, CONTENT))
    assert ask(link, ops.PlaceFiles([("a/file", SHA256, 0o644)])) == ["a/file"]
    assert ask(link, ops.ReadChunk("a/file", 5, 99)) == ops.FileChunk(10, b"bytes")
    assert ask(link, ops.ListFolder("a")) == {"file": 10}
    assert ask(link, ops.MakeFolder("b")) == str(workdir / "b")
    assert gzip.decompress(Path(ask(link, ops.CompressFile("a/file"))).read_bytes()) == CONTENT
    ask(link, ops.ArchiveFiles("a/all.tar", ["file"]))
    assert (workdir / "a" / "all.tar").exists()
    assert ask(link, ops.MakeTemporaryFolder("t")) == str(workdir / "t")
    assert ask(link, ops.WriteTemporaryFile("t/key", 0o600, body=b"s3cr3t"))
    assert (workdir / "t" / "key").read_bytes() == b"s3cr3t"
    assert ask(link, ops.RemovePath("t"))


def use_sockets(ask: Asker, link: AgentLink, workdir: Path) -> None:
    path = workdir / "server.sock"
    at = ops.SocketAddress(unix=str(path))
    with server_at(path):
        assert ask(link, ops.ProbePort(at, 5)).reached
        found = ask(link, ops.GetHttp(at, 5))
    assert (found.status, found.body) == (200, b"hi")
    assert ask(link, ops.FindPortOwners([1])) == {1: []}


def use_processes(ask: Asker, link: AgentLink) -> None:
    completed = ask(link, ops.RunCommand(ops.CommandSpec(["cat"]), 5, 99, b"in"))
    assert (completed.body, completed.timed_out) == (b"in", False)
    seconds = f"60.{os.getpid()}"  # no other process here has its command line
    sleeper = ask(link, ops.StartProcess(ops.CommandSpec(["sleep", seconds])))
    assert ask(link, ops.WaitForProcess(sleeper.id, 0)).ended is None
    (tree,) = ask(link, ops.ListTrees())
    assert (tree.process.id, tree.members[0].pid) == (sleeper.id, sleeper.pid)
    assert sleeper.pid in {each.pid for each in ask(link, ops.ListProcesses()).processes}
    assert ask(link, ops.ReadCpuTimes([sleeper.id]))[sleeper.id].processes == 1
    assert ask(link, ops.FindListeners(sleeper.id)) == []
    assert ask(link, ops.WatchProcesses(pattern=f"^sleep {seconds}")).pid == sleeper.pid
    ask(link, ops.CountByCgroup(ask(link, ops.StartProcess(ops.CommandSpec(["true"]))).id, "/nowhere"))
    use_telemetry(ask, link, sleeper)
    (stopped,) = ask(link, ops.StopProcesses([sleeper.id], signal.SIGTERM, 5)).processes
    assert stopped.ended is not None
    now_ns = ask(link, ops.ReadClocks()).monotonic_ns
    start = ops.StartProcess(ops.CommandSpec(["true"]), at_ns=now_ns)
    (scheduled,) = ask(link, ops.RunTimetable([ops.ScheduledStart("load", start, now_ns + 5_000_000_000, grace_s=1.0)]))
    assert scheduled.process.ended is not None
    assert (scheduled.process.ended.exit_code, scheduled.overran) == (0, False)
    ask(link, ops.StopTimetable())
    use_running_timetable(ask, link)


def use_running_timetable(ask: Asker, link: AgentLink) -> None:
    """Stop a timetable whose process runs, which is sampled with its threads from its start."""
    ask(link, ops.StartTelemetry("scheduled.jsonl", 60))
    ask(link, ops.AddServices([ops.SampledService("load", process=None, threads=True)]))
    now_ns = ask(link, ops.ReadClocks()).monotonic_ns
    start = ops.StartProcess(ops.CommandSpec(["sleep", "60"]), at_ns=now_ns)
    running = link.submit(ops.RunTimetable([ops.ScheduledStart("load", start, now_ns + 60_000_000_000, grace_s=1.0)]))
    for _ in poll_until(time.monotonic() + 60):
        ask(link, ops.TakeSnapshot())  # takes a sample of it, once it has been started
        if "load" in ask(link, ops.ReadLatest()):
            break
    assert "cpu_s_total" in ask(link, ops.ReadLatest())["load"]
    assert len(ask(link, ops.TakeSnapshot()).processes["load"]) == 1
    ask(link, ops.StopTimetable())
    with pytest.raises(RefusedError, match="the timetable was stopped"):
        link.result(running, 10)
    assert ask(link, ops.TakeSnapshot()).processes["load"] == ()
    ask(link, ops.StopTelemetry())


def use_telemetry(ask: Asker, link: AgentLink, process: ops.ProcessReport) -> None:
    ask(link, ops.StartTelemetry("watch.jsonl", 60))
    ask(link, ops.AddServices([ops.SampledService("app", process.id)]))
    assert ask(link, ops.TakeSnapshot()).processes == {"app": ((process.pid, process.start),)}
    ask(link, ops.ScheduleSamples([0]))
    ask(link, ops.ScheduleSnapshots([0]))
    assert "cpu_s_total" in ask(link, ops.ReadLatest())["app"]
    ask(link, ops.TakeSnapshot())  # after the scheduled one
    ask(link, ops.TakeSnapshot())
    assert ask(link, ops.StopTelemetry()) is not None


def use_changes(ask: Asker, link: AgentLink) -> None:
    assert ask(link, ops.WriteSysctls({FIN: "31"}))[FIN] == ops.SysctlOutcome("applied", "60", "31")
    assert ask(link, ops.ReadSysctls([FIN]))[FIN].value == "31"
    ask(link, ops.ExpectCleanup(["true"], {"A": "b"}, 5, "cleanup"))
    assert [each.how for each in ask(link, ops.Restore(own=True))] == ["undone", "undone"]
    assert ask(link, ops.ReadSysctls([FIN]))[FIN].value == "60"
    if ask(link, ops.GatherFacts({"sh": ["sh"]}, [])).facts["cpu_groups"]:
        assert Path(ask(link, ops.CreateCgroup("half", 0.5))).is_dir()
    else:
        with pytest.raises(RefusedError, match="no control group"):
            ask(link, ops.CreateCgroup("half", 0.5))
    assert ask(link, ops.FindCgroup(os.getpid())) is not None
    marks = ask(link, ops.TrackContainers("true", ["localhost/benchkit:none"]))  # an engine that lists nothing
    assert marks.label.startswith("benchkit.owner=")
    assert marks.parent.startswith("benchkit-")
    assert "containers" in [record["kind"] for record in ask(link, ops.ListRecords()).records]
    ask(link, ops.DeleteReport("report-of-nobody"))


@pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("nsenter") is None,
    reason="needs a network namespace of its own, which stands for a host",
)
@pytest.mark.parametrize("python", PYTHONS, ids=lambda path: Path(path).name)
def test_each_operation_is_executed(launch: Callable[..., AgentLink], inside: list[str], python: str) -> None:
    ask = Asker()
    first = launch(prefix=inside, python=python)
    workdir = Path(first.hello().workdir)
    assert ask(first, ops.LockHost("r1", "sut", "me@laptop")) == ops.LockResult(shared_with=None, waited=False)
    use_files(ask, first, workdir)
    use_sockets(ask, first, workdir)
    use_processes(ask, first)
    use_changes(ask, first)
    ask(first, ops.KeepStack())
    assert first.close(60) == []
    second = launch(prefix=inside, python=python)
    holder = ask(second, ops.ListRecords()).holder
    assert holder is not None
    assert (holder.run, holder.state) == ("r1", "kept")
    assert ask(second, ops.ReleaseHost()) is not None
    assert ask(second, ops.RemoveWorkdir()) == str(workdir)
    assert {*ask.asked, ops.Goodbye} == set(ops.OPERATIONS.values())  # `close` says goodbye


@pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("nsenter") is None,
    reason="needs a network namespace of its own, which stands for a host",
)
def test_the_watchdog_restores_what_a_killed_agent_changed(
    launch: Callable[..., AgentLink], inside: list[str], has_ended: Callable[[int], bool]
) -> None:
    agent = launch(prefix=inside)
    assert agent.request(ops.WriteSysctls({FIN: "31"}))[FIN].outcome == "applied"
    folder = Path(agent.request(ops.MakeTemporaryFolder("trials/t1")))
    sleeper = agent.request(ops.StartProcess(ops.CommandSpec(["sleep", "60"])))
    os.kill(agent.hello().pid, signal.SIGKILL)
    assert all(has_ended(pid) for pid in (agent.hello().watchdog, sleeper.pid))
    following = launch(prefix=inside)
    assert following.request(ops.ReadSysctls([FIN]))[FIN].value == "60"
    assert not folder.exists()
    traces = following.request(ops.ListRecords())
    assert (traces.records, [each["reason"] for each in traces.reports]) == ([], ["its agent was killed"])
