from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from benchkit.agent import operations as ops
from benchkit.agent.files import FileStore
from benchkit.agent.processes import ProcessTable
from benchkit.agent.server import Agent
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
        agent.submit(ProcessTable.run, ops.ProcessSpec(argv=["/bin/sh", "-c", f"sleep 0.{2 - n}; echo {n}"]), timeout_s=9, max_bytes=9)
        for n in range(3)
    ]  # fmt: skip
    assert [agent.result(future, 10).body for future in futures] == [f"{n}\n".encode() for n in range(3)]


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


def test_a_missing_answer_is_waited_for_once(launch: Launch, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = launch()
    pid = agent.hello().pid
    monkeypatch.setattr(links, "ANSWER_TIMEOUT_S", 0.3)
    os.kill(pid, signal.SIGSTOP)
    with pytest.raises(LostError, match="here: no answer from the agent: waited"):
        agent.call(FileStore.mkdir, "x")
    monkeypatch.setattr(links, "ANSWER_TIMEOUT_S", 30)
    with pytest.raises(LostError, match="here: no answer from the agent"):
        agent.call(Agent.read_clocks)
    os.kill(pid, signal.SIGCONT)
