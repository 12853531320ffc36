"""Commands and the lab that they use: its name, owner, signals, closed outputs, and removal of benchkit from hosts."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from benchkit.hosts.connections import connect
from benchkit.lab.lab import Lab, lab_names, owner_of
from tests.support.cli.fixtures import Cli


def test_commands_name_the_lab_that_they_use(cli: Cli, lab: Lab) -> None:
    line = f"lab: {lab.name}, of this checkout, temporary, for process "
    planned = cli("plan", "quickstart", "--scale", "smoke", "--lab", lab.name, "--json")
    assert planned.document()["lab"] == lab.name
    assert line in planned.err
    checked = cli("hosts", "check", "--lab", lab.name, "--json")
    assert checked.document()["lab"] == lab.name
    assert line in checked.err
    status = cli("service", "status", "quickstart", "--lab", lab.name, "--json")
    assert status.document()["lab"] == lab.name
    assert line in status.err
    assert line not in cli("plan", "quickstart", "--scale", "smoke", "--lab", lab.name, "-q").err


def test_a_lab_that_is_not_up_is_refused_with_those_that_are(cli: Cli, lab: Lab) -> None:
    for command in (
        ("plan", "quickstart"),
        ("run", "quickstart"),
        ("hosts", "check"),
        ("hosts", "restore"),
        ("hosts", "prepare", "quickstart"),
        ("service", "up", "quickstart"),
        ("service", "status", "quickstart"),
        ("service", "down", "quickstart"),
    ):
        refused = cli(*command, "--lab", "zzz")
        assert refused.code == 2
        assert refused.err.startswith("benchkit: --lab: no lab 'zzz' is up: labs that are up: ")
        assert f"{lab.name} (of this checkout" in refused.err
        assert cli(*command, "--lab", "zzz", "-i", "hosts.yaml").code == 2


@pytest.mark.parametrize("delay_s", [0.0, 0.6])
def test_demo_removes_its_lab_after_a_signal_at_any_moment(
    program: list[str], environment: dict[str, str], delay_s: float
) -> None:
    command = [*program, "demo", "--scale", "smoke"]
    running = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    name = f"demo-{running.pid}"
    deadline = time.monotonic() + 60
    while name not in lab_names() and running.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.005)
    owner = owner_of(name)
    assert owner is None or owner.temporary_pid == running.pid  # None: the file is not written yet
    time.sleep(delay_s)
    running.send_signal(signal.SIGTERM)
    _, err = running.communicate(timeout=120)
    assert running.returncode == 130, err
    assert "Traceback" not in err
    assert name not in lab_names()


def test_restore_removes_the_folder_from_the_hosts_unless_one_is_held(
    cli: Cli, lab: Lab, inventory: Callable[..., Path]
) -> None:
    folders = {host.name: f"{host.workdir}-to-remove" for host in lab.hosts}
    path = inventory(**{host: {"workdir": folder} for host, folder in folders.items()})

    def has_folder(host: str) -> bool:
        return subprocess.run([*lab.ssh_command(host), "test", "-e", folders[host]], check=False).returncode == 0

    short = ("--set", "blocks=1", "--set", "load.rate=null")
    run = cli("run", "quickstart", "-i", path, "--scale", "smoke", *short, "-q")
    assert run.code == 0, run.err
    assert has_folder("sut")
    assert has_folder("load")
    with connect(lab.inventory().named("sut")) as sut:
        sut.lock_for("r-in-use", "somebody@somewhere")
        refused = cli("hosts", "restore", "--all", "-i", path)
        assert refused.code == 1
        assert "r-in-use of somebody@somewhere" in refused.err
        assert has_folder("sut")
    removed = cli("hosts", "restore", "--all", "-i", path, "--json")
    assert removed.code == 0, removed.err
    assert {each["host"]: each["what"] for each in removed.document()["done"] if each["how"] == "removed"} == folders
    assert not has_folder("sut")
    assert not has_folder("load")
    assert cli("hosts", "check", "-i", path).code == 0, "a later command creates it"
    assert cli("hosts", "restore", "--all", "-i", path).code == 0
