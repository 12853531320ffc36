"""Processes on a host, with a scripted agent."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from benchkit.agent import operations as ops
from benchkit.agent.operations import ProcessSpec
from benchkit.agent.processes import ProcessTable
from benchkit.errors import HostError
from benchkit.hosts.agent_link import RefusedError
from benchkit.hosts.clock import Clock
from benchkit.hosts.processes import Processes
from tests.support.hosts.fake_link import HOST, FakeLink, refusal

ENDED = ops.ExitStatus(at_ns=7, exit_code=None, signal=9, user_s=0.1, system_s=0.2, memory_kills=1)
NOTHING_STOPPED = ops.StoppedProcesses([], [], [])


def processes_of(link: FakeLink) -> Processes:
    return Processes(link, HOST, lambda: Clock(5_000_000_000, 0.0, 0.001))


def start_unless_missing(wanted: SimpleNamespace) -> ops.ProcessReport | RefusedError:
    """Start every program except `missing`."""
    (program,) = wanted.spec["argv"]
    if program == "missing":
        return refusal("not-found", "cannot start missing", "No such file or directory")
    return ops.ProcessReport(4, 40, start=0, started_ns=1)


def test_where_one_process_cannot_start_the_others_are_stopped() -> None:
    link = FakeLink({ProcessTable.start: start_unless_missing, ProcessTable.stop: NOTHING_STOPPED})
    with pytest.raises(RefusedError, match="fake: cannot start missing: No such file or directory"):
        processes_of(link).start_all([ProcessSpec(["server"]), ProcessSpec(["missing"])])
    assert [wanted.numbers for wanted in link.agent.requested(ProcessTable.stop)] == [[4]]


def test_processes_that_cannot_be_stopped_are_named() -> None:
    survivors = [ops.NamedProcess(1, "nginx", "Operation not permitted"), ops.NamedProcess(2, "go")]
    link = FakeLink({ProcessTable.stop: ops.StoppedProcesses([], [], survivors)})
    with pytest.raises(HostError) as caught:
        processes_of(link).stop([])
    assert caught.value.why == "nginx (1: Operation not permitted), go (2: it is still there)"


def test_the_end_of_a_process_is_described() -> None:
    link = FakeLink({ProcessTable.run: ops.Completed(ENDED, timed_out=True, stdout_size=2, body=b"outerr")})
    completed = processes_of(link).run(["server"])
    assert (completed.stdout, completed.stderr, completed.ok) == (b"ou", b"terr", False)
    assert str(completed.ended) == "signal SIGKILL: its host ran out of memory, and the kernel killed processes"


def test_a_process_without_running_members_is_an_error() -> None:
    link = FakeLink({ProcessTable.start: start_unless_missing, ProcessTable.members: []})
    with pytest.raises(HostError, match="no process of server is running"):
        processes_of(link).members(processes_of(link).start(ProcessSpec(["server"])))
