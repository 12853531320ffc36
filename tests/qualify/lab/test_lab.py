"""Starting, finding, restarting and removing labs, also after a killed `up`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from typer.testing import CliRunner

from benchkit.cli.lab import app
from benchkit.errors import HostError
from benchkit.lab.lab import down, find_lab, up
from benchkit.lab.processes import find_init_processes
from benchkit.lab.spec import LabSpec
from benchkit.lab.state import LabFolder, base_folder

Traces = Callable[[str], dict[str, list[str]]]
NO_TRACES: dict[str, list[str]] = {"processes": [], "links": [], "mounts": [], "groups": [], "files": []}


def test_up_and_down_are_idempotent(lab_name: str, traces: Traces) -> None:
    assert find_lab(lab_name) is None
    first = up(LabSpec(name=lab_name))
    assert first.fresh
    second = up(LabSpec(name=lab_name))
    assert not second.fresh
    assert second.state == first.state
    found = find_lab(lab_name)
    assert found is not None
    assert found.state == first.state
    present = traces(lab_name)
    assert present["processes"]
    assert present["files"]
    assert present["mounts"] == []  # all mounts are in the hosts' namespaces

    assert down(lab_name)
    assert traces(lab_name) == NO_TRACES
    assert find_lab(lab_name) is None
    assert not down(lab_name)


@pytest.mark.parametrize(
    "stage", ["folder created", "state written", "keys created", "switch started", "link created", "groups"]
)
def test_down_works_after_a_kill_at_each_stage(lab_name: str, traces: Traces, stage: str) -> None:
    """Kill `up` at chosen moments, where it enters a function, and remove its remains."""
    module, function = {
        "folder created": ("benchkit.lab.namespaces", "plan"),
        "state written": ("benchkit.lab.namespaces", "start"),
        "keys created": ("benchkit.lab.openssh", "client_config"),
        "groups": ("benchkit.lab.openssh", "server_config"),
        "switch started": ("benchkit.lab.namespaces", "uplink_commands"),
        "link created": ("benchkit.lab.limits", "shared_cpus"),
    }[stage]
    if os.geteuid() != 0:
        pytest.skip("stages of a lab with namespaces")
    script = f"""
import importlib, os, signal, sys
sys.path.insert(0, {str(Path.cwd())!r})
def stop(*args, **more): os.kill(os.getpid(), signal.SIGKILL)
setattr(importlib.import_module({module!r}), {function!r}, stop)
from benchkit.lab.lab import up
from benchkit.lab.spec import LabSpec
up(LabSpec(name={lab_name!r}))
"""
    done = subprocess.run([sys.executable, "-c", script], check=False, timeout=120)
    assert done.returncode == -signal.SIGKILL
    assert find_lab(lab_name) is None
    assert down(lab_name)
    assert traces(lab_name) == NO_TRACES


def test_a_lab_with_a_dead_host_is_restarted(lab_name: str) -> None:
    lab = up(LabSpec(name=lab_name))
    for init in find_init_processes(lab.folder.key):
        if init.part in ("host/sut", "supervisor"):
            with suppress(psutil.NoSuchProcess):  # the supervisor ends with its host
                init.process.kill()
            init.process.wait(60)
    assert find_lab(lab_name) is None
    restarted = up(LabSpec(name=lab_name))
    assert restarted.fresh
    assert restarted.answering() == {"sut": True, "load": True}


def test_an_up_that_fails_gives_the_reason_and_removes_everything(
    lab_name: str, traces: Traces, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tempfile.TemporaryDirectory(dir=Path.home()) as folder:  # a host has its own /tmp
        broken = Path(folder, "sshd")
        broken.write_text("#!/bin/sh\necho 'sshd is broken' >&2\nexit 1\n")
        broken.chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
        with pytest.raises(HostError) as caught:
            up(LabSpec(name=lab_name))
    assert "sshd does not listen on" in str(caught.value)
    assert "sshd is broken" in str(caught.value)
    assert traces(lab_name) == NO_TRACES


def test_the_command_line_prints_one_document(lab_name: str) -> None:
    runner = CliRunner()
    started = runner.invoke(app, ["up", "--name", lab_name, "--json"])
    assert started.exit_code == 0, started.output
    status = runner.invoke(app, ["status", "--name", lab_name, "--json"])
    document = json.loads(status.stdout)
    assert json.loads(started.stdout) == {**document, "fresh": True}
    assert [host["name"] for host in document["hosts"]] == ["sut", "load"]
    assert all(host["answers"] for host in document["hosts"])
    assert document["folder"] == str(LabFolder(base_folder(), lab_name).path)
    text = runner.invoke(app, ["status", "--name", lab_name])
    assert "answers" in text.stdout
    assert "ssh -F" in text.stdout
    repeated = runner.invoke(app, ["up", "--name", lab_name])
    assert "is already up" in repeated.stdout
    assert json.loads(runner.invoke(app, ["down", "--name", lab_name, "--json"]).stdout) == {
        "name": lab_name,
        "up": False,
        "was_there": True,
    }
    removed = runner.invoke(app, ["status", "--name", lab_name, "--json"])
    assert removed.exit_code == 0
    assert json.loads(removed.stdout)["up"] is False
