"""Processes on a host, with a scripted agent."""

from __future__ import annotations

import time
from typing import Any

import pytest

from benchkit.errors import HostError
from benchkit.hosts.agent_link import RefusedError, Reply
from benchkit.hosts.clock import Clock
from benchkit.hosts.processes import Processes, ProcessSpec, ToFile
from tests.support.hosts.fake_link import HOST, Answer, FakeLink, Request, refusal

OFFSET_NS = 5_000_000_000
ENDED: dict[str, Any] = {
    "at_ns": 7,
    "exit_code": None,
    "signal": 9,
    "user_s": 0.1,
    "system_s": 0.2,
    "max_rss_bytes": 1,
    "voluntary_switches": 0,
    "involuntary_switches": 0,
    "memory_kills": 1,
}


def processes_of(link: FakeLink) -> Processes:
    return Processes(link, HOST, lambda: Clock(OFFSET_NS, 0.0, 0.001))


def start_unless_missing(request: Request) -> Answer:
    """Start every program except `missing`."""
    (program,) = request.args["command"]["argv"]
    if program == "missing":
        return refusal("not-found", "cannot start missing", "No such file or directory")
    return {"id": 4, "pid": 40, "start": 0, "started_ns": 1, "late_s": None}


def test_where_one_process_cannot_start_the_others_are_stopped() -> None:
    link = FakeLink({"start": start_unless_missing, "stop": {"survivors": [], "killed": [], "processes": []}})
    with pytest.raises(RefusedError, match="fake: cannot start missing: No such file or directory"):
        processes_of(link).start_all([ProcessSpec(["server"]), ProcessSpec(["missing"])])
    assert [args["ids"] for args in link.agent.args("stop")] == [[4]]


def test_an_agreed_start_is_an_instant_of_the_host() -> None:
    link = FakeLink({"start": start_unless_missing})
    at_s = time.monotonic() + 1
    spec = ProcessSpec(["wrk"], stdout=ToFile("rows", None), stderr=ToFile("err", 9))
    processes_of(link).start_all([spec], at_s)
    (args,) = link.agent.args("start")
    assert args["at_ns"] == round(at_s * 1e9) + OFFSET_NS
    assert args["stdout"] == {"path": "rows", "max_bytes": None}
    assert args["stderr"] == {"path": "err", "max_bytes": 9}


def test_processes_that_cannot_be_stopped_are_named() -> None:
    survivors = [{"pid": 1, "name": "nginx", "why": "Operation not permitted"}, {"pid": 2, "name": "go", "why": None}]
    link = FakeLink({"stop": {"survivors": survivors, "killed": [], "processes": []}})
    with pytest.raises(HostError) as caught:
        processes_of(link).stop([])
    assert caught.value.why == "nginx (1: Operation not permitted), go (2: it is still there)"


def test_the_end_of_a_process_is_described() -> None:
    report = {"ended": ENDED, "outputs": {}, "stdout_size": 2, "timed_out": True}
    link = FakeLink({"run": Reply(report, b"outerr")})
    completed = processes_of(link).run(["server"])
    assert (completed.stdout, completed.stderr, completed.ok) == (b"ou", b"terr", False)
    assert str(completed.ended) == "signal SIGKILL: its host ran out of memory, and the kernel killed"


def test_a_command_that_cannot_be_ended_is_an_error() -> None:
    link = FakeLink({"run": {"ended": None, "outputs": {}, "stdout_size": 0, "timed_out": True}})
    with pytest.raises(HostError, match="sleep could not be ended after 3 s"):
        processes_of(link).run(["sleep"], timeout_s=3)


def test_members_are_those_of_one_process_tree() -> None:
    trees = [{"id": 4, "members": [{"pid": 40}, {"pid": 41}]}, {"id": 5, "members": [{"pid": 50}]}]
    link = FakeLink({"start": start_unless_missing, "process_trees": {"processes": trees}})
    server = processes_of(link).start(ProcessSpec(["server"]))
    assert processes_of(link).members(server) == (40, 41)
    with pytest.raises(HostError, match="no process of server is running"):
        processes_of(FakeLink({"process_trees": {"processes": []}})).members(server)
