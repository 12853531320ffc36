"""Heartbeats and interrupted transfers of a link, with their times."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from benchkit.agent import operations as ops
from benchkit.agent.processes import ProcessTable
from benchkit.agent.server import Agent
from benchkit.cli.console import signals_interrupt
from benchkit.errors import HostError
from benchkit.hosts import agent_link as links
from benchkit.hosts.agent_link import AgentLink
from benchkit.hosts.files import Files, PlacedFile

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


def test_heartbeats_renew_the_lease(launch: Launch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "HEARTBEAT_S", 0.1)
    agent = launch(lease_s=STALL_S, receive_timeout_s=0.5)
    time.sleep(STALL_S + 1)
    assert agent.call(Agent.read_clocks).monotonic_ns


def test_an_interrupted_upload_leaves_whole_frames(launch: Launch) -> None:
    """Interrupt uploads at random moments, as Ctrl-C does: the agent reads the goodbye and confirms its end."""
    content = os.urandom(30_000_000)
    for _ in range(6):
        agent = launch()
        agent.hello()
        files = Files(agent, "here")
        delay_s = random.uniform(0.0, 0.15)  # noqa: S311 - no secret
        timer = threading.Timer(delay_s, os.kill, [os.getpid(), signal.SIGINT])
        with signals_interrupt(), pytest.raises(KeyboardInterrupt):
            _interrupted(timer, files, content)
        began = time.monotonic()
        assert agent.close(60) == []
        assert agent.shutdown_confirmed
        assert time.monotonic() - began < 60, "it does not wait for a time limit"
        store = Path(agent.hello().workdir, "store")
        assert list(store.glob(".part-*")) == []


def _interrupted(timer: threading.Timer, files: Files, content: bytes) -> None:
    timer.start()
    for attempt in range(100):  # one of them is interrupted
        files.place([PlacedFile("large", attempt.to_bytes(8, "big") + content)])
