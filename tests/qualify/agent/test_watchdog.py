"""The watchdog, which restores a host after its controller was lost, and the lock of the host."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from benchkit.agent import operations as ops
from benchkit.agent.files import FileStore
from benchkit.agent.operations import ProcessSpec, StopSignal, ToFile
from benchkit.agent.processes import ProcessTable
from benchkit.agent.records import Records
from benchkit.agent.settings import Sysctls
from benchkit.agent.undo import Undo
from benchkit.agent.watchdog_link import WatchdogLink
from benchkit.hosts.agent_link import AgentLink, RefusedError
from benchkit.hosts.host import HostChanges

pytestmark = [
    pytest.mark.skipif(
        os.geteuid() != 0 or shutil.which("nsenter") is None,
        reason="needs a network namespace of its own, which stands for a host",
    ),
]

Launch = Callable[..., AgentLink]
HasEnded = Callable[..., bool]
FIN = "net.ipv4.tcp_fin_timeout"
LEASE_S = 8.0
"""Lease of an agent that is to outlast a stall of this machine, and still to end within seconds."""

PROCESS_TREE = """
import os, time
if os.fork() == 0:
    os.setsid()  # a daemon that left, and threw its environment away
    if os.fork() == 0:
        os.execve("/bin/sh", ["sh", "-c", "echo $$ > daemon; exec sleep 301"], {})
    os._exit(0)
os.execv("/bin/sh", ["sh", "-c", "trap '' TERM; sleep 302; sleep 303"])
"""


def fin(inside: list[str]) -> str:
    path = "/proc/sys/" + FIN.replace(".", "/")
    return subprocess.run([*inside, "cat", path], capture_output=True, text=True, check=True).stdout.strip()


def change_host(agent: AgentLink) -> list[int]:
    """Have the agent change a setting, make a folder and start a process tree; return its pids."""
    assert agent.call(Sysctls.write, {FIN: "31"})[FIN].outcome == "applied"
    agent.call(FileStore.mkdir_temporary, path="trials/t1")
    started = agent.call(
        ProcessTable.start,
        ops.ProcessSpec([sys.executable, "-c", PROCESS_TREE], stdout=ops.ToFile(path="trials/t1/out")),
    )
    workdir = Path(agent.hello().workdir)
    deadline = time.monotonic() + 50
    while time.monotonic() < deadline:
        tree = agent.call(ProcessTable.members, started.id)
        names = sorted(member.name for member in tree)  # without the daemon, once its parent has ended
        daemon = (workdir / "daemon").read_text() if (workdir / "daemon").exists() else ""
        if names == ["sh", "sleep"] and daemon and Path(f"/proc/{int(daemon)}/comm").read_text() == "sleep\n":
            return [int(daemon), *(member.pid for member in tree)]
        time.sleep(0.01)
    pytest.fail("no process tree")


def pids(agent: AgentLink) -> tuple[int, int]:
    return agent.hello().pid, agent.hello().watchdog


def reports(launch: Launch, inside: list[str]) -> list[ops.WatchdogReport]:
    """Return the reports that the next connection reads, and check that no changes remain."""
    agent = launch(prefix=inside)
    state = agent.call(Undo.traces)
    assert state.records == []
    assert list(Path(agent.hello().workdir, "trials").glob("*")) == []
    return state.reports


def kill(agent: AgentLink) -> str:
    os.kill(pids(agent)[0], signal.SIGKILL)
    return "its agent was killed"


def stop(agent: AgentLink) -> str:
    os.kill(pids(agent)[0], signal.SIGSTOP)
    return f"no heartbeat from the controller for {LEASE_S:g} s"


def kill_watchdog(agent: AgentLink) -> str:
    os.kill(pids(agent)[1], signal.SIGKILL)
    return ""


def end_watchdog(agent: AgentLink) -> str:
    os.kill(pids(agent)[1], signal.SIGTERM)
    return "it received a signal to end"


@pytest.mark.parametrize(("harm", "lease_s"), [(kill, 60), (stop, LEASE_S), (end_watchdog, 60), (kill_watchdog, 60)])
def test_everything_is_restored_however_the_agent_ends(
    launch: Launch, inside: list[str], has_ended: HasEnded, harm: Callable[[AgentLink], str], lease_s: float
) -> None:
    agent = launch(prefix=inside, lease_s=lease_s)
    tree = change_host(agent)
    reason = harm(agent)
    assert all(has_ended(pid) for pid in [*pids(agent), *tree])
    assert fin(inside) == "60"
    written = reports(launch, inside)
    if not reason:  # the watchdog, which writes the report, was killed; the agent restored everything
        assert written == []
        return
    (report,) = written
    assert report.reason == reason
    assert report.failures == []
    assert f"{FIN} (was 60)" in report.undone
    assert any(text.startswith("process sleep (") for text in report.undone)
    assert any(text.startswith("folder ") for text in report.undone)


def test_a_disconnection_without_a_goodbye_is_reported(launch: Launch, inside: list[str], has_ended: HasEnded) -> None:
    polite, rude = launch(prefix=inside), launch(prefix=inside)
    polite.call(Sysctls.write, {FIN: "31"})
    assert polite.close(60) == []
    assert has_ended(pids(polite)[1])
    rude.call(Sysctls.write, {FIN: "32"})
    rude._stream.end_input()
    assert has_ended(pids(rude)[1])
    (report,) = reports(launch, inside)
    assert report.reason == "the controller disconnected without a goodbye"
    assert report.undone == [f"{FIN} (was 60)"]
    reader = launch(prefix=inside)
    reader.call(Records.delete_report, report.name)
    assert reader.call(Undo.traces).reports == []


def test_a_change_that_cannot_be_restored_is_reported_until_it_can(
    launch: Launch, inside: list[str], has_ended: HasEnded
) -> None:
    agent = launch(prefix=inside)
    agent.call(Sysctls.write, {FIN: "31"})
    (record,) = Path(agent.hello().workdir, "records").glob("[0-9]*")
    good = record.read_text()
    record.write_text(good.replace('": "60"', '": "sixty"'))
    os.kill(pids(agent)[0], signal.SIGKILL)
    assert has_ended(pids(agent)[1]), "it retries twice"
    following = launch(prefix=inside)
    next_one, state = HostChanges(following, "here"), following.call(Undo.traces)
    assert [(each.kind, each.state) for each in state.records] == [("sysctl", "abandoned")]
    assert "should be 'sixty'" in state.reports[0].failures[0]
    (undone,) = next_one.restore()
    assert undone.how == "failed"
    record.write_text(good)
    (undone,) = next_one.restore()
    assert (undone.how, undone.failures) == ("undone", [])
    assert fin(inside) == "60"


def lock(agent: AgentLink, run: str, host: str = "sut") -> str | None:
    return agent.call(WatchdogLink.lock, run, host, "me@laptop").shared_with


def test_a_host_in_use_is_refused_with_its_holder_and_lease(
    launch: Launch, inside: list[str], has_ended: HasEnded, tmp_path: Path
) -> None:
    first, second = launch(prefix=inside), launch(prefix=inside, workdir=tmp_path / "other")
    assert lock(first, "r1") is None
    assert lock(first, "r1") is None, "a second request has no effect"
    with pytest.raises(
        RefusedError,
        match=r"this host is in use: r1 of me@laptop since 20\d\d-.* UTC; last heartbeat \d s ago; .* automatically in",
    ) as no:
        lock(second, "r2")
    assert no.value.kind == "held"
    with pytest.raises(RefusedError, match="in use: r1"):
        second.call(WatchdogLink.release)
    holder = second.call(Undo.traces).holder
    assert holder is not None
    assert (holder.run, holder.state, holder.pid) == ("r1", "running", pids(first)[1])
    assert lock(second, "r1", "load") == "sut", "hosts of a run on one machine share the lock"
    assert first.close(60) == []
    assert has_ended(pids(first)[1])
    assert lock(second, "r2") is None


def test_an_interrupted_run_takes_over_its_own_host(launch: Launch, inside: list[str], has_ended: HasEnded) -> None:
    lost, resumed = launch(prefix=inside), launch(prefix=inside)
    tree = change_host(lost)
    assert lock(lost, "r1") is None
    assert lock(resumed, "r1") is None
    assert all(has_ended(pid) for pid in [*pids(lost), *tree])
    assert fin(inside) == "60"


def test_a_holder_that_does_not_answer_can_be_ended(launch: Launch, inside: list[str], has_ended: HasEnded) -> None:
    first, second = launch(prefix=inside), launch(prefix=inside)
    tree = change_host(first)
    lock(first, "r1")
    for pid in pids(first):
        os.kill(pid, signal.SIGSTOP)
    state = second.call(Undo.traces)
    assert state.holder is not None
    assert state.holder.state == "silent"
    assert second.call(WatchdogLink.release) is not None
    assert all(has_ended(pid) for pid in [*pids(first), *tree])
    assert fin(inside) == "60"
    assert second.call(Undo.traces).records == []
    assert lock(second, "r2") is None


def test_a_kept_stack_stays_without_a_controller_until_it_is_released(
    launch: Launch, inside: list[str], has_ended: HasEnded
) -> None:
    first = launch(prefix=inside, lease_s=LEASE_S)
    tree = change_host(first)
    lock(first, "service s")
    first.call(WatchdogLink.keep)
    assert first.close(60) == []
    assert has_ended(pids(first)[0])
    time.sleep(LEASE_S + 0.2)
    second = launch(prefix=inside)
    holder = second.call(Undo.traces).holder
    assert holder is not None
    assert (holder.state, holder.run) == ("kept", "service s")
    assert {each.state for each in second.call(Undo.traces).records} == {"other"}
    assert all(Path(f"/proc/{pid}").exists() for pid in tree)
    assert fin(inside) == "31"
    with pytest.raises(RefusedError, match="until it is released"):
        lock(second, "r2")
    assert second.call(WatchdogLink.release) is not None
    assert all(has_ended(pid) for pid in tree)
    assert fin(inside) == "60"
    assert lock(second, "r2") is None


OWN_WAY = """
import signal, sys, time
def note(number, _):
    with open("how", "a") as file:
        file.write(signal.Signals(number).name + " ")
    if number == signal.SIGINT:
        time.sleep(0.5)
        with open("how", "a") as file:
            file.write("saved")
        sys.exit()
signal.signal(signal.SIGINT, note)
signal.signal(signal.SIGTERM, note)
print("ready", flush=True)
while True:
    time.sleep(60)
"""
"""A server that ends at SIGINT once it has saved its data, and not at SIGTERM."""


def kill_both(agent: AgentLink) -> None:
    for signum in (signal.SIGSTOP, signal.SIGKILL):
        for pid in pids(agent)[::-1]:
            os.kill(pid, signum)


def keep_and_leave(agent: AgentLink) -> None:
    lock(agent, "service s")
    agent.call(WatchdogLink.keep, 0.5)
    agent.close(60)


@pytest.mark.parametrize(
    "end",
    [
        lambda agent: agent.close(60),
        lambda agent: os.kill(pids(agent)[0], signal.SIGKILL),
        kill_both,
        keep_and_leave,
    ],
    ids=["the agent", "the watchdog", "the next connection", "the watchdog of a kept stack"],
)
def test_a_process_is_ended_in_its_own_way_by(
    launch: Launch, inside: list[str], has_ended: HasEnded, end: Callable[[AgentLink], object]
) -> None:
    agent = launch(prefix=inside)
    workdir = Path(agent.hello().workdir)
    spec = ProcessSpec(
        [sys.executable, "-c", OWN_WAY],
        stdout=ToFile("trials/out"),
        stderr="stdout",
        stop=StopSignal(signal.SIGINT, 30),
    )
    pid = agent.call(ProcessTable.start, spec).pid
    while not (workdir / "trials" / "out").read_text().endswith("\n"):  # it may print the end of the line later
        time.sleep(0.01)
    end(agent)
    assert has_ended(pids(agent)[1])
    HostChanges(launch(prefix=inside), "here").restore()
    assert has_ended(pid)
    assert (workdir / "how").exists(), (workdir / "trials" / "out").read_text()
    assert (workdir / "how").read_text() == "SIGINT saved"
