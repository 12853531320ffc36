"""Processes on a host, with a scripted agent."""

from __future__ import annotations

import pytest

from benchkit.agent import operations as ops
from benchkit.errors import HostError
from benchkit.hosts.agent_link import RefusedError
from benchkit.hosts.clock import Clock
from benchkit.hosts.processes import Processes, ProcessSpec, ToFile
from tests.support.hosts.fake_link import HOST, FakeLink, refusal

OFFSET_NS = 5_000_000_000
ENDED = ops.ExitStatus(
    at_ns=7,
    exit_code=None,
    signal=9,
    user_s=0.1,
    system_s=0.2,
    memory_kills=1,
)
NOTHING_STOPPED = ops.StoppedProcesses([], [], [])


def processes_of(link: FakeLink) -> Processes:
    return Processes(link, HOST, lambda: Clock(OFFSET_NS, 0.0, 0.001))


def start_unless_missing(wanted: ops.StartProcess) -> ops.ProcessReport | RefusedError:
    """Start every program except `missing`."""
    (program,) = wanted.command.argv
    if program == "missing":
        return refusal("not-found", "cannot start missing", "No such file or directory")
    return report_of(4, 40)


def report_of(number: int, pid: int, ended: ops.ExitStatus | None = None) -> ops.ProcessReport:
    return ops.ProcessReport(number, pid, start=0, started_ns=1, ended=ended)


def test_where_one_process_cannot_start_the_others_are_stopped() -> None:
    link = FakeLink({ops.StartProcess: start_unless_missing, ops.StopProcesses: NOTHING_STOPPED})
    with pytest.raises(RefusedError, match="fake: cannot start missing: No such file or directory"):
        processes_of(link).start_all([ProcessSpec(["server"]), ProcessSpec(["missing"])])
    assert [wanted.ids for wanted in link.agent.requested(ops.StopProcesses)] == [[4]]


def test_a_start_has_the_streams_of_its_process() -> None:
    link = FakeLink({ops.StartProcess: start_unless_missing})
    processes_of(link).start(ProcessSpec(["wrk"], stdout=ToFile("rows", None), stderr=ToFile("err", 9)))
    (wanted,) = link.agent.requested(ops.StartProcess)
    assert wanted.at_ns is None
    assert (wanted.stdout, wanted.stderr) == (ops.StreamFile("rows", None), ops.StreamFile("err", 9))


def test_processes_that_cannot_be_stopped_are_named() -> None:
    survivors = [ops.NamedProcess(1, "nginx", "Operation not permitted"), ops.NamedProcess(2, "go")]
    link = FakeLink({ops.StopProcesses: ops.StoppedProcesses([], [], survivors)})
    with pytest.raises(HostError) as caught:
        processes_of(link).stop([])
    assert caught.value.why == "nginx (1: Operation not permitted), go (2: it is still there)"


def test_the_end_of_a_process_is_described() -> None:
    link = FakeLink(
        {ops.RunCommand: ops.CompletedCommand(report_of(4, 40, ENDED), timed_out=True, stdout_size=2, body=b"outerr")}
    )
    completed = processes_of(link).run(["server"])
    assert (completed.stdout, completed.stderr, completed.ok) == (b"ou", b"terr", False)
    assert str(completed.ended) == "signal SIGKILL: its host ran out of memory, and the kernel killed processes"


def test_a_command_that_cannot_be_ended_is_an_error() -> None:
    link = FakeLink({ops.RunCommand: ops.CompletedCommand(report_of(4, 40), timed_out=True, stdout_size=0)})
    with pytest.raises(HostError, match="sleep could not be ended after 3 s"):
        processes_of(link).run(["sleep"], timeout_s=3)


def test_members_are_those_of_one_process_tree() -> None:
    trees = [
        ops.StartedTree(report_of(4, 40), ["server"], [ops.NamedProcess(40, "server"), ops.NamedProcess(41, "server")]),
        ops.StartedTree(report_of(5, 50), ["other"], [ops.NamedProcess(50, "other")]),
    ]
    link = FakeLink({ops.StartProcess: start_unless_missing, ops.ListTrees: trees})
    server = processes_of(link).start(ProcessSpec(["server"]))
    assert processes_of(link).members(server) == (40, 41)
    with pytest.raises(HostError, match="no process of server is running"):
        processes_of(FakeLink({ops.ListTrees: []})).members(server)
