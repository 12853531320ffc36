from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from benchkit.agent import operations as ops
from benchkit.agent.processes import ProcessTable
from benchkit.agent.settings import Sysctls
from benchkit.agent.undo import Undo
from benchkit.hosts.agent_link import AgentLink, RefusedError
from tests.support.waiting import wait_until

pytestmark = [
    pytest.mark.skipif(
        os.geteuid() != 0 or shutil.which("nsenter") is None,
        reason="needs a network namespace of its own, for its sysctls",
    ),
]

Launch = Callable[..., AgentLink]
PORTS, FIN, BACKLOG = "net.ipv4.ip_local_port_range", "net.ipv4.tcp_fin_timeout", "net.core.somaxconn"


def value(inside: list[str], key: str) -> str:
    path = "/proc/sys/" + key.replace(".", "/")
    return " ".join(subprocess.run([*inside, "cat", path], capture_output=True, text=True, check=True).stdout.split())


def write(agent: AgentLink, values: dict[str, str], sudo: list[str] | None = None) -> dict[str, ops.SysctlOutcome]:
    return agent.call(Sysctls.write, values, sudo)


def records(agent: AgentLink) -> list[ops.ChangeRecord]:
    return agent.call(Undo.traces).records


@pytest.mark.parametrize("key", ["net/../../../etc/passwd", ""])
def test_only_sysctls_are_read(launch: Launch, key: str) -> None:
    with pytest.raises(RefusedError, match="is not a sysctl"):
        launch().call(Sysctls.read, [key])


def test_each_setting_has_an_outcome(launch: Launch, inside: list[str]) -> None:
    agent = launch(prefix=inside)
    outcomes = write(
        agent,
        {
            FIN: "30",
            PORTS: "1025 65535",
            BACKLOG: "007",
            "net.ipv4.tcp_tw_recycle": "1",
            "kernel.ostype": "Minix",
            "net.ipv4.route.flush": "1",
            "net.ipv4.tcp_tw_reuse": "99",
            "net.ipv4.tcp_syncookies": "1",
        },
    )
    assert {key: each.outcome for key, each in outcomes.items()} == {
        FIN: "applied",
        PORTS: "applied",
        BACKLOG: "differs",
        "net.ipv4.tcp_tw_recycle": "absent",
        "kernel.ostype": "read-only",
        "net.ipv4.route.flush": "unreadable",
        "net.ipv4.tcp_tw_reuse": "refused",
        "net.ipv4.tcp_syncookies": "already",
    }
    assert outcomes[FIN] == ops.SysctlOutcome("applied", "60", "30")
    assert outcomes["net.ipv4.tcp_tw_reuse"].why == "Invalid argument"
    assert (value(inside, FIN), value(inside, PORTS), value(inside, BACKLOG)) == ("30", "1025 65535", "7")
    (record,) = records(agent)
    assert (record.kind, record.state) == ("sysctl", "mine")


def test_restoring_puts_back_layer_by_layer(launch: Launch, inside: list[str]) -> None:
    agent = launch(prefix=inside)
    before = {key: value(inside, key) for key in (FIN, PORTS, BACKLOG)}
    write(agent, {FIN: "30", PORTS: "1025 65535"})
    write(agent, {FIN: "20", BACKLOG: "1"})
    undone = agent.call(Undo.restore)
    assert [each.failures for each in undone] == [[], []]
    assert {key: value(inside, key) for key in before} == before
    assert records(agent) == []


def test_changes_of_a_killed_agent_and_watchdog_are_restored_by_the_next_connection(
    launch: Launch, inside: list[str], has_ended: Callable[[int], bool]
) -> None:
    first = launch(prefix=inside)
    write(first, {FIN: "30"})
    process = first.call(ProcessTable.start, ops.ProcessSpec(argv=["/bin/sh", "-c", "sleep 300 & wait"]))
    wait_until(lambda: {each.name for each in first.call(ProcessTable.members, process.id)} == {"sh", "sleep"})
    other = launch(prefix=inside)
    assert {each.state for each in records(other)} == {"other"}
    assert all("another run" in each.failures[0] for each in other.call(Undo.restore))
    assert value(inside, FIN) == "30", "a live agent keeps its settings"

    for pid in (first.hello().watchdog, first.hello().pid):
        os.kill(pid, signal.SIGSTOP)  # so that neither has time to notice that the other is gone
    for pid in (first.hello().watchdog, first.hello().pid):
        os.kill(pid, signal.SIGKILL)
    assert has_ended(first.hello().watchdog)
    left = other.call(Undo.traces)
    assert {(each.kind, each.state) for each in left.records} == {
        ("sysctl", "abandoned"),
        ("process", "abandoned"),
    }
    assert {"(sh)", "(sleep)"} <= {each.text.split()[-1] for each in left.records}
    assert [failure for each in other.call(Undo.restore) for failure in each.failures] == []
    assert value(inside, FIN) == "60"
    assert has_ended(process.pid)
    assert records(other) == []


def test_sudo_is_used_where_it_must_be_and_only_if_it_may(launch: Launch, tmp_path: Path) -> None:
    """Run as an unprivileged user, with a command in place of sudo that logs its calls."""
    called = tmp_path / "called"
    sudo = tmp_path / "sudo"
    sudo.write_text(f'#!/bin/sh\nprintf "%s\\n" "$*" >> {called}\necho "no, you may not" >&2\nexit 1\n')
    sudo.chmod(0o755)
    tmp_path.chmod(0o711)
    for folder in tmp_path.parents[:3]:
        folder.chmod(folder.stat().st_mode | 0o011)
    workdir = tmp_path / "theirs"
    workdir.mkdir(mode=0o700)
    os.chown(workdir, 65534, 65534)
    called.touch()
    called.chmod(0o666)
    user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    agent = launch(prefix=user, workdir=workdir, python="/usr/bin/python3")
    key = "net.ipv4.tcp_fin_timeout"
    assert write(agent, {key: "31"})[key].outcome == "read-only"
    assert called.read_text() == ""
    outcome = write(agent, {key: "31"}, [str(sudo), "-n", "--", "sysctl", "-q", "-w"])[key]
    assert (outcome.outcome, outcome.why) == ("refused", "no, you may not")
    assert called.read_text() == f"-n -- sysctl -q -w {key}=31\n"
