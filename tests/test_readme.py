"""The README is true: its commands run, its files are valid, its Python works."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from benchkit.hosts.inventory import load_inventory
from benchkit.lab.lab import current, down

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "README.md").read_text()
LEFT_TO_OTHERS = {"make demo", "make test", "make bench"}
"""`make test` is what runs this; the demo has a test of its own (cli/test_run.py); figures are measured, not tested."""


def blocks(language: str) -> list[str]:
    """The README's code blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE)


def commands() -> list[str]:
    """The README's commands in their order, without comments."""
    lines = "".join(blocks("sh")).splitlines()
    return [shlex.join(words) for line in lines if (words := shlex.split(line, comments=True))]


def test_every_command_is_benchkit_or_left_to_another_test() -> None:
    assert len(commands()) > 10
    for command in commands():
        assert command.startswith("benchkit ") or command in LEFT_TO_OTHERS


def test_the_inventory_is_one(tmp_path: Path) -> None:
    _, text = blocks("yaml")
    (tmp_path / "inventory.yaml").write_text(text)
    hosts = {host.name: host for host in load_inventory(tmp_path / "inventory.yaml").hosts}
    assert hosts["client"].jump == "bench@gate.example"
    assert hosts["server"].roles == ("sut",)


def test_every_link_is_there() -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", TEXT)
    assert len(links) >= 3
    for link in links:
        assert (ROOT / link).exists(), link


@pytest.mark.lab
def test_every_command_runs_and_the_python_too(tmp_path: Path) -> None:
    scenario, _ = blocks("yaml")
    (tmp_path / "mine.yaml").write_text(scenario)
    name = f"readme-{os.getpid()}"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("BENCHKIT_")}
    environment |= {"BENCHKIT_LAB": name, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    try:
        for command in commands():
            if command in LEFT_TO_OTHERS:
                continue
            if "inventory.yaml" in command:
                _write_inventory(tmp_path / "inventory.yaml", name, environment)
            done = subprocess.run(
                shlex.split(command), cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, f"{command}\n{done.stderr}"
        (python,) = blocks("python")
        done = subprocess.run(
            [sys.executable, "-c", python], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert "nginx-go" in done.stdout
    finally:
        down(name)


def _write_inventory(path: Path, name: str, environment: dict[str, str]) -> None:
    """The lab as the user's own hosts, under the name that the README gives their file."""
    if current(name) is None:
        subprocess.run(["benchkit", "lab", "up", "-q"], env=environment, check=True)
    lab = current(name)
    assert lab is not None
    hosts = {
        host.name: host.model_dump(mode="json", exclude={"name"}, exclude_none=True) for host in lab.inventory().hosts
    }
    path.write_text(json.dumps({"hosts": hosts}))
