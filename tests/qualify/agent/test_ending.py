from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from benchkit.agent import operations as ops
from benchkit.agent.processes import ProcessTable
from benchkit.errors import HostError
from benchkit.hosts.agent_link import AgentLink

Launch = Callable[..., AgentLink]
HasEnded = Callable[[int], bool]

PROCESS_TREE = """
import os, time
if os.fork() == 0:
    os.setsid()  # a daemon that left, and threw its environment away
    if os.fork() == 0:
        os.execve("/bin/sh", ["sh", "-c", "echo $$ > daemon; exec sleep 301"], {})
    os._exit(0)
if os.fork() == 0:
    os.execv("/bin/sh", ["sh", "-c", "trap '' TERM; sleep 302; sleep 303"])
time.sleep(304)
"""


def family(agent: AgentLink) -> list[int]:
    """Start a process with descendants of all kinds; return all their pids."""
    started = agent.call(ProcessTable.start, ops.ProcessSpec([sys.executable, "-c", PROCESS_TREE]))
    daemon = Path(agent.hello().workdir, "daemon")
    deadline = time.monotonic() + 50
    while time.monotonic() < deadline:
        tree = agent.call(ProcessTable.members, started.id)
        if len(tree) == 3 and daemon.exists() and daemon.read_text():
            return [int(daemon.read_text()), *(member.pid for member in tree)]
        time.sleep(0.01)
    pytest.fail(f"no family: {tree}")


def us(agent: AgentLink) -> list[int]:
    """Return the pids of agent and watchdog."""
    return [agent.hello().pid, agent.hello().watchdog]


def records(agent: AgentLink, kind: str) -> list[Path]:
    return sorted(Path(agent.hello().workdir, "records").glob(kind))


def hang_up(agent: AgentLink) -> None:
    assert agent.close(60) == []


def signalled(signum: int) -> Callable[[AgentLink], None]:
    return lambda agent: os.kill(agent.hello().pid, signum)


@pytest.mark.parametrize(
    "end",
    [hang_up, signalled(signal.SIGTERM), signalled(signal.SIGHUP), signalled(signal.SIGINT)],
    ids=["hang up", "TERM", "HUP", "INT"],
)
def test_the_agent_leaves_no_process(launch: Launch, has_ended: HasEnded, end: Callable[[AgentLink], None]) -> None:
    agent = launch()
    pids = family(agent)
    assert len(pids) == 4
    end(agent)
    assert all(has_ended(pid) for pid in [*pids, *us(agent)])
    assert records(agent, "[0-9]*") == []
    assert len(records(agent, "report-*")) == (0 if end is hang_up else 1)


def test_a_signal_while_things_are_under_way(launch: Launch, has_ended: HasEnded) -> None:
    agent = launch()
    ran = agent.submit(ProcessTable.run, ops.ProcessSpec(["sleep", "60"]), timeout_s=60, max_bytes=9)
    would_have_started = agent.submit(
        ProcessTable.start, ops.ProcessSpec(["sleep", "60"]), at_ns=time.monotonic_ns() + 10**10
    )
    while not any(agent.call(ProcessTable.members, number) for number in (1, 2)):
        pass
    os.kill(agent.hello().pid, signal.SIGTERM)
    assert has_ended(agent.hello().pid)
    with pytest.raises(HostError, match="the agent ended"):
        agent.result(would_have_started, 10)
    with contextlib.suppress(HostError):  # unless it could say so before it ended
        assert agent.result(ran, 10).ended.signal == signal.SIGTERM
