"""Processes that are counted by a control group of their own: nothing escapes, and nothing of it is left."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from benchkit.agent import operations as ops
from benchkit.agent.cgroup_accounting import Cgroup, own_mounts
from benchkit.agent.cgroups import Cgroups
from benchkit.agent.facts import FactsReader
from benchkit.agent.proc import proc_stat
from benchkit.agent.processes import ProcessTable
from benchkit.agent.telemetry import Telemetry
from benchkit.agent.undo import Undo
from benchkit.hosts.agent_link import AgentLink
from benchkit.store.telemetry_table import read_telemetry

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not own_mounts(), reason="this user can create no control groups here"
)

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

DAEMON = """
import os, signal, time
if os.fork() == 0:
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if os.fork() == 0:
        os.environ.clear()
        time.sleep(60)
    os._exit(0)
time.sleep(60)
"""


def start_counted(agent: AgentLink, program: str, **command: object) -> ops.ProcessReport:
    spec = ops.ProcessSpec([sys.executable, "-c", program], own_group=True, **command)  # type: ignore[arg-type]
    return agent.call(ProcessTable.start, spec)


def group_of(process: ops.ProcessReport) -> Cgroup:
    """Return the control group that a process was started in, by what the kernel says of it once it is there."""

    def paths() -> list[str]:
        lines = Path(f"/proc/{process.pid}/cgroup").read_text().splitlines()
        return [path for line in lines if "/benchkit-" in (path := line.split(":", 2)[2])]

    wait_for(lambda: bool(paths()), "it enters its group")
    return Cgroup.at(paths()[0])


def cpu_time(agent: AgentLink, process: ops.ProcessReport) -> ops.CpuTime:
    return agent.call(ProcessTable.cpu_times, [process.id])[process.id]


def stop(agent: AgentLink, process: ops.ProcessReport, grace_s: float = 0.3) -> ops.StoppedProcesses:
    return agent.call_within(10, ProcessTable.stop, [process.id], signal.SIGTERM, grace_s)


def wait_for(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 50
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


def test_the_cpu_time_of_children_that_nobody_waits_for_is_counted(agent: AgentLink) -> None:
    process = start_counted(agent, WORKERS)
    wait_for(lambda: cpu_time(agent, process).total_s > 0.16, "eight workers use 0.16 s together")
    wait_for(lambda: cpu_time(agent, process).processes == 1, "all workers have ended")
    before = cpu_time(agent, process)
    assert before.user_s > before.system_s
    group = group_of(process)
    assert stop(agent, process).survivors == []
    assert not group.folder.exists()
    assert cpu_time(agent, process).total_s >= before.total_s, "what it used stays known"


def test_the_quota_of_a_role_applies_and_its_throttling_is_seen(agent: AgentLink, workdir: Path) -> None:
    if not agent.call(FactsReader.gather, {"sh": ["sh"]}, []).facts["cpu_groups"]:
        pytest.skip("this machine has no control groups with the CPU controller to spare")
    agent.call(Cgroups.create, "half", 0.2)
    process = start_counted(agent, "while True: pass", group="half")
    group_of(process)
    agent.call(Telemetry.start, "quota.jsonl", 60, [ops.SampledService("app", process.id)])
    used = cpu_time(agent, process).total_s
    wait_for(lambda: cpu_time(agent, process).total_s > used + 0.05, "it uses 50 ms")
    agent.call(Telemetry.snapshot)
    agent.call(Telemetry.stop)
    samples = read_telemetry((workdir / "quota.jsonl").read_bytes())
    periods, throttled = (samples["app", f"quota_{name}_total", None].numbers[-1] for name in ("periods", "throttled"))
    assert periods >= throttled > 0
    assert samples["app", "quota_throttled_s_total", None].numbers[-1] > 0
    stop(agent, process)
    assert {each.how for each in agent.call(Undo.restore, own=True)} == {"undone"}


def has_daemon(group: Cgroup, process: ops.ProcessReport) -> bool:
    """Return True once the process between the first one and the daemon has ended."""
    parents = {pid: each.parent for pid in group.pids() if (each := proc_stat(pid)) is not None}
    return len(parents) == 2 and process.pid not in parents.values()


def test_the_group_goes_with_an_agent_that_is_killed(
    launch: Callable[..., AgentLink], has_ended: Callable[[int], bool]
) -> None:
    agent = launch()
    process = start_counted(agent, DAEMON)
    group = group_of(process)
    wait_for(lambda: has_daemon(group, process), "a daemon beside it")
    pids = group.pids()
    os.kill(agent.hello().pid, signal.SIGKILL)
    wait_for(lambda: not group.folder.exists(), "the watchdog removes the group")
    assert all(has_ended(pid) for pid in pids)


def test_an_existing_group_counts_instead(agent: AgentLink, has_ended: Callable[[int], bool]) -> None:
    spec = ops.ProcessSpec([sys.executable, "-c", WORKERS], own_group=True)
    container = agent.call(ProcessTable.start, spec)
    client = start_counted(agent, "import time; time.sleep(60)")
    group = group_of(container)
    agent.call(ProcessTable.count_by_cgroup, client.id, group.path)
    wait_for(lambda: cpu_time(agent, client).total_s > 0.16, "the time of the group is that of the client")
    agent.call(Telemetry.start, "watch1.jsonl", 60, [ops.SampledService("app", client.id)])
    assert container.pid in [pid for pid, _ in agent.call(Telemetry.snapshot).processes["app"]]
    agent.call(Telemetry.stop)
    assert stop(agent, client).survivors == []
    assert has_ended(container.pid)
    stop(agent, container)
