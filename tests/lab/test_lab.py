"""The lab's life: made, found, made again, taken away, and killed half-way."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from benchkit.cli.lab import app
from benchkit.errors import HostError, InputError
from benchkit.lab.lab import Lab, current, down, up
from benchkit.lab.processes import marked
from benchkit.lab.spec import LabHost, LabSpec
from benchkit.lab.state import LabFolder, base_folder, locked

pytestmark = pytest.mark.lab
Traces = Callable[[str], dict[str, list[str]]]
NOTHING: dict[str, list[str]] = {"processes": [], "links": [], "mounts": [], "groups": [], "files": []}


def test_up_twice_and_down_twice(lab_name: str, traces: Traces) -> None:
    assert current(lab_name) is None
    first = up(LabSpec(name=lab_name))
    assert first.fresh
    again = up(LabSpec(name=lab_name))
    assert not again.fresh
    assert again.state == first.state
    found = current(lab_name)
    assert found is not None
    assert found.state == first.state
    there = traces(lab_name)
    assert there["processes"]
    assert there["files"]
    assert there["mounts"] == []  # all mounts are the hosts' own

    assert down(lab_name)
    assert traces(lab_name) == NOTHING
    assert current(lab_name) is None
    assert not down(lab_name)


def test_another_shape_is_refused(lab_name: str) -> None:
    lab = up(LabSpec(name=lab_name))
    with pytest.raises(InputError) as caught:
        up(LabSpec(name=lab_name, shared=True))
    assert "up in another shape" in str(caught.value)
    assert "benchkit lab down" in str(caught.value)
    still = current(lab_name)
    assert still is not None
    assert still.state == lab.state


def test_labs_side_by_side_do_not_meet(lab_name: str) -> None:
    other_name = f"{lab_name}-b"
    one = up(LabSpec(name=lab_name))
    try:
        other = up(LabSpec(name=other_name, hosts=(LabHost(name="only", roles=("sut",)),)))
        assert not {host.address for host in one.hosts} & {host.address for host in other.hosts}
    finally:
        assert down(other_name)
    assert all(one.answering().values())


def test_the_inventory_says_how_to_reach_it(lab: Lab) -> None:
    inventory = lab.inventory()
    assert [(host.name, host.roles) for host in inventory.hosts] == [("sut", ("sut",)), ("load", ("load",))]
    for spec in inventory.hosts:
        assert spec.identity is not None
        assert spec.identity.stat().st_mode & 0o077 == 0
        assert spec.known_hosts is not None
        assert spec.address in spec.known_hosts.read_text()
        assert spec.workdir is not None
    assert inventory.limits


@pytest.mark.parametrize("delay_s", [0.15, 0.25, 0.3, 0.35, 0.4, 0.5])
def test_up_after_a_kill_and_down_after_a_kill(lab_name: str, traces: Traces, delay_s: float) -> None:
    script = "import sys; from benchkit.lab.lab import up; from benchkit.lab.spec import LabSpec; up(LabSpec(name=sys.argv[1]))"

    def kill_an_up() -> None:
        builder = subprocess.Popen([sys.executable, "-c", script, lab_name], start_new_session=True)
        time.sleep(delay_s)
        builder.kill()
        builder.wait()

    kill_an_up()
    down(lab_name)
    assert traces(lab_name) == NOTHING
    kill_an_up()
    lab = up(LabSpec(name=lab_name))
    assert lab.answering() == {"sut": True, "load": True}
    assert down(lab_name)
    assert traces(lab_name) == NOTHING


@pytest.mark.parametrize(
    "stage", ["folder made", "state written", "keys made", "switch started", "link laid", "groups"]
)
def test_a_kill_at_each_stage(lab_name: str, traces: Traces, stage: str) -> None:
    """The same, with the moments chosen: `up` is stopped where it enters a function, and killed there."""
    where = {
        "folder made": ("benchkit.lab.namespaces", "plan"),
        "state written": ("benchkit.lab.namespaces", "build"),
        "keys made": ("benchkit.lab.openssh", "client_config"),
        "groups": ("benchkit.lab.openssh", "server_config"),
        "switch started": ("benchkit.lab.network", "uplink_commands"),
        "link laid": ("benchkit.lab.limits", "uncapped"),
    }[stage]
    if os.geteuid() != 0:
        pytest.skip("stages of a lab with namespaces")
    script = f"""
import importlib, os, signal, sys
sys.path.insert(0, {str(Path.cwd())!r})
def stop(*args, **more): os.kill(os.getpid(), signal.SIGKILL)
setattr(importlib.import_module({where[0]!r}), {where[1]!r}, stop)
from benchkit.lab.lab import up
from benchkit.lab.spec import LabSpec
up(LabSpec(name={lab_name!r}))
"""
    done = subprocess.run([sys.executable, "-c", script], check=False, timeout=30)
    assert done.returncode == -signal.SIGKILL
    assert current(lab_name) is None
    assert down(lab_name)
    assert traces(lab_name) == NOTHING


def test_a_host_that_died_is_made_anew(lab_name: str) -> None:
    lab = up(LabSpec(name=lab_name))
    for one in marked(lab.folder.key):
        if one.part in ("host/sut", "keeper"):
            one.process.kill()
            one.process.wait(10)
    assert current(lab_name) is None
    again = up(LabSpec(name=lab_name))
    assert again.fresh
    assert again.answering() == {"sut": True, "load": True}


def test_an_up_that_fails_says_why_and_leaves_nothing(
    lab_name: str, traces: Traces, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tempfile.TemporaryDirectory(dir=Path.home()) as folder:  # a host has a /tmp of its own
        broken = Path(folder, "sshd")
        broken.write_text("#!/bin/sh\necho 'no luck today' >&2\nexit 1\n")
        broken.chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
        with pytest.raises(HostError) as caught:
            up(LabSpec(name=lab_name))
    assert "sshd does not listen on" in str(caught.value)
    assert "no luck today" in str(caught.value)
    assert traces(lab_name) == NOTHING


def test_two_at_once_make_one_lab(lab_name: str) -> None:
    command = [sys.executable, "-c", "from benchkit.cli.lab import app; app()", "up", "--json", "--name", lab_name]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    said = [json.loads(one.communicate(timeout=30)[0]) for one in both]
    assert sorted(one["fresh"] for one in said) == [False, True]
    assert said[0]["hosts"] == said[1]["hosts"]


def test_a_state_of_another_boot_is_no_lab(lab_name: str, traces: Traces) -> None:
    lab = up(LabSpec(name=lab_name))
    lab.folder.write(lab.state.model_copy(update={"boot_id": "another"}))
    assert current(lab_name) is None
    assert down(lab_name)
    assert traces(lab_name) == NOTHING


def test_a_damaged_state_is_taken_away_like_any_other(lab_name: str, traces: Traces) -> None:
    lab = up(LabSpec(name=lab_name))
    (lab.folder.path / "state.json").write_text("{")
    assert current(lab_name) is None
    assert down(lab_name)
    assert traces(lab_name) == NOTHING


def test_the_lock_is_one_and_leaves_nothing(tmp_path: Path) -> None:
    base = tmp_path / "base"
    with locked(base):
        assert base.is_dir()
    assert not base.exists()


def test_the_command_line_prints_one_document(lab_name: str) -> None:
    runner = CliRunner()
    made = runner.invoke(app, ["up", "--name", lab_name, "--json"])
    assert made.exit_code == 0, made.output
    shown = runner.invoke(app, ["status", "--name", lab_name, "--json"])
    document = json.loads(shown.stdout)
    assert json.loads(made.stdout) == {**document, "fresh": True}
    assert [host["name"] for host in document["hosts"]] == ["sut", "load"]
    assert all(host["answers"] for host in document["hosts"])
    assert document["folder"] == str(LabFolder(base_folder(), lab_name).path)
    for_people = runner.invoke(app, ["status", "--name", lab_name])
    assert "answers" in for_people.stdout
    assert "ssh -F" in for_people.stdout
    again = runner.invoke(app, ["up", "--name", lab_name])
    assert "is already up" in again.stdout
    assert json.loads(runner.invoke(app, ["down", "--name", lab_name, "--json"]).stdout) == {
        "name": lab_name,
        "up": False,
        "was_there": True,
    }
    gone = runner.invoke(app, ["status", "--name", lab_name, "--json"])
    assert gone.exit_code == 0
    assert json.loads(gone.stdout)["up"] is False
    assert runner.invoke(app, ["down", "--name", lab_name, "-q"]).output == ""
