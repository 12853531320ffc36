"""Heartbeats and interrupted transfers of a link, with their times."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

import pytest

from benchkit.agent import operations as ops
from benchkit.agent.processes import ProcessTable
from benchkit.agent.server import Agent
from benchkit.errors import HostError
from benchkit.hosts import agent_link as links
from benchkit.hosts.agent_link import AgentLink

Launch = Callable[..., AgentLink]
STALL_S = 8.0
"""Silence that is longer than a busy machine stands still."""


def test_a_host_without_heartbeat_is_lost(launch: Launch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "HEARTBEAT_S", 0.1)
    monkeypatch.setattr(links, "HEARTBEAT_TIMEOUT_S", STALL_S)
    agent = launch(receive_timeout_s=0.2)
    process = agent.call(ProcessTable.start, ops.ProcessSpec(argv=["sleep", "60"])).id
    assert agent.call_within(1, ProcessTable.wait, number=process, timeout_s=1).ended is None, "heartbeats are answered"
    os.kill(agent.hello().pid, signal.SIGSTOP)
    began = time.monotonic()
    with pytest.raises(HostError, match="no heartbeat from the host"):
        agent.call_within(60, ProcessTable.wait, number=process, timeout_s=60)
    assert time.monotonic() - began < 30
    with pytest.raises(HostError, match="no heartbeat"):
        agent.call(Agent.read_clocks)
    os.kill(agent.hello().pid, signal.SIGCONT)
