"""Processes in control groups: the quota of a role, and the group of another program that counts for a process."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from benchkit.agent import operations as ops
from benchkit.agent.cgroups import UNIFIED, Cgroups, cgroup_mounts
from benchkit.agent.facts import FactsReader
from benchkit.agent.processes import ProcessTable
from benchkit.agent.telemetry import Telemetry
from benchkit.agent.undo import Undo
from benchkit.hosts.agent_link import AgentLink
from benchkit.store.telemetry_table import read_telemetry
from tests.support.waiting import wait_until

WORKERS = """
import os, signal, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
for _ in range(8):
    if os.fork() == 0:
        until = time.process_time() + 0.02
        while time.process_time() < until:
            sum(range(20_000))
        os._exit(0)
time.sleep(60)
"""
"""Eight workers that nobody waits for, each of which uses 20 ms of a CPU."""


@pytest.fixture
def half(agent: AgentLink) -> str:
    """Return the folder of a group with a quota, `half`."""
    if not agent.call(FactsReader.gather, {"sh": ["sh"]}, [])["cpu_groups"]:
        pytest.skip("this machine has no control groups with the CPU controller to spare")
    return agent.call(Cgroups.create, "half", 0.2)


def start(agent: AgentLink, program: str, group: str | None = None) -> ops.ProcessReport:
    return agent.call(ProcessTable.start, ops.ProcessSpec([sys.executable, "-c", program], group=group))


def used_s(agent: AgentLink, process: ops.ProcessReport) -> float:
    return agent.call(ProcessTable.cpu_times, [process.id])[process.id].total_s


def stop(agent: AgentLink, process: ops.ProcessReport) -> None:
    assert agent.call_within(60, ProcessTable.stop, [process.id], signal.SIGTERM, 30.0).survivors == []


def test_the_quota_of_a_role_applies_and_its_throttling_is_seen(agent: AgentLink, workdir: Path, half: str) -> None:
    process = start(agent, "while True: pass", group="half")
    agent.call(Telemetry.start, "quota.jsonl", 60, [ops.SampledService("app", process.id)])
    wait_until(lambda: used_s(agent, process) > 0.1)
    agent.call(Telemetry.snapshot)
    agent.call(Telemetry.stop)
    samples = read_telemetry((workdir / "quota.jsonl").read_bytes())
    periods, throttled = (samples["app", f"quota_{name}_total", None].numbers[-1] for name in ("periods", "throttled"))
    assert periods >= throttled > 0
    stop(agent, process)
    assert {each.how for each in agent.call(Undo.restore, own=True)} == {"undone"}
    assert not Path(half).exists()


@pytest.fixture
def container_group() -> Iterator[Path]:
    """Return the folder of a group in which CPU time is counted, as an engine makes it for a container."""
    mounts = cgroup_mounts(Path("/proc/self/mountinfo").read_text())
    mount = mounts.get("cpuacct") or mounts.get(UNIFIED)
    if os.geteuid() != 0 or mount is None:
        pytest.skip("this user can create no control groups here")
    folder = mount.point / f"container-{os.getpid()}"
    folder.mkdir()
    yield folder
    folder.rmdir()


def test_an_existing_group_counts_instead(
    agent: AgentLink, container_group: Path, has_ended: Callable[[int], bool]
) -> None:
    """Of the workers' time only the group knows, as nobody waits for them."""
    go = f"import os; open('{container_group}/cgroup.procs', 'w').write(str(os.getpid()))"
    container, client = start(agent, f"{go}\n{WORKERS}"), start(agent, "import time; time.sleep(60)")
    agent.call(ProcessTable.count_by_cgroup, client.id, f"/{container_group.name}")
    wait_until(lambda: used_s(agent, client) > 0.16)
    agent.call(Telemetry.start, "watch1.jsonl", 60, [ops.SampledService("app", client.id)])
    assert container.pid in [pid for pid, _ in agent.call(Telemetry.snapshot).processes["app"]]
    agent.call(Telemetry.stop)
    stop(agent, client)
    assert has_ended(container.pid)
    stop(agent, container)
