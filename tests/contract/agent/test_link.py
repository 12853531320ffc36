from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from benchkit.agent import operations as ops
from benchkit.agent.files import FileStore
from benchkit.agent.processes import ProcessTable
from benchkit.agent.server import Agent
from benchkit.agent.sockets import SocketProbes
from benchkit.errors import LostError
from benchkit.hosts import agent_link as links
from benchkit.hosts.agent_link import AgentLink, RefusedError

Launch = Callable[..., AgentLink]


class Stranger:
    """A class of which no agent has an object."""

    def unheard(self) -> None:
        """Do nothing."""


def test_each_answer_reaches_its_request(agent: AgentLink) -> None:
    futures = [
        agent.submit(ProcessTable.run, ops.ProcessSpec(argv=["/bin/sh", "-c", f"sleep 0.{9 - n}; echo {n}"]), timeout_s=9, max_bytes=9)
        for n in range(10)
    ]  # fmt: skip
    assert [agent.result(future, 10).body for future in futures] == [f"{n}\n".encode() for n in range(10)]


def test_refusals_carry_their_kind_and_the_host(agent: AgentLink) -> None:
    with pytest.raises(RefusedError, match=r"here: there is no .*/x") as caught:
        agent.call(FileStore.read, "x", 0, 1)
    assert caught.value.kind == "not-found"


def test_failures_of_the_system_and_of_the_agent_itself(agent: AgentLink, workdir: Path) -> None:
    (workdir / "file").touch()
    with pytest.raises(RefusedError, match="Not a directory") as caught:
        agent.call(FileStore.mkdir, path="file/below")
    assert caught.value.kind == "os"
    with pytest.raises(RefusedError, match="the agent failed") as caught:
        agent.call_within(1, Stranger.unheard)
    assert caught.value.kind == "bug"
    assert agent.call(Agent.read_clocks).monotonic_ns


def test_too_many_requests_at_once_are_refused(agent: AgentLink) -> None:
    process = agent.call(ProcessTable.start, ops.ProcessSpec(argv=["sleep", "60"]))
    waiting = [agent.submit(ProcessTable.wait, process.id, timeout_s=30) for _ in range(Agent.MAX_REQUESTS)]
    with pytest.raises(RefusedError, match="too many requests at once"):
        agent.call(SocketProbes.probe_port, ops.SocketAddress(tcp=("127.0.0.1", 1)), 30)
    assert agent.call(Agent.read_clocks).monotonic_ns, "the clock request is always answered"
    os.kill(process.pid, signal.SIGKILL)
    statuses = [agent.result(each, 10).ended for each in waiting]
    assert all(status is not None and status.signal == signal.SIGKILL for status in statuses)


def test_a_missing_answer_is_waited_for_once(launch: Launch, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = launch()
    pid = agent.hello().pid
    monkeypatch.setattr(links, "ANSWER_TIMEOUT_S", 0.3)
    os.kill(pid, signal.SIGSTOP)
    began = time.monotonic()
    with pytest.raises(LostError, match="here: no answer from the agent: waited"):
        agent.call(FileStore.mkdir, "x")
    monkeypatch.setattr(links, "ANSWER_TIMEOUT_S", 30)
    with pytest.raises(LostError, match="here: no answer from the agent"):
        agent.call(Agent.read_clocks)
    assert time.monotonic() - began < 30
    os.kill(pid, signal.SIGCONT)
