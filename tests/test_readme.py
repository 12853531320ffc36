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
from benchkit.lab.lab import current, down, up
from benchkit.lab.spec import LabSpec
from tests.commands import command as benchkit

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
    assert {name: (host.jump, host.roles) for name, host in hosts.items()} == {
        "server": ("bench@gate.example", ("sut",)),
        "client": ("bench@gate.example", ("load",)),
    }


def test_every_link_is_there() -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", TEXT)
    assert len(links) >= 3
    for link in links:
        assert (ROOT / link).exists(), link


TRIED_BY = {
    "benchkit --help": "bench/bench_startup.py",
    "benchkit compare --gate": "cli/test_compare.py",
    "benchkit hosts check": "test_readme.py",
    "benchkit lab up": "test_readme.py",
    "benchkit notebook": "cli/test_notebook.py",
    "benchkit profile top": "cli/test_profile.py",
    "benchkit results reparse": "cli/test_run.py",
    "benchkit results trials": "test_readme.py",
    "benchkit run --resume RUN": "chaos/test_one_at_a_time.py",
    "benchkit service up": "test_readme.py",
}
"""Commands that the text names, and the tests that run them."""


def test_commands_in_the_text_are_run_by_a_test_too() -> None:
    text = re.sub(r"^```.*?^```$", "", TEXT, flags=re.DOTALL | re.MULTILINE)
    named = re.findall(r"`(?:benchkit ([^`]+)|((?:compare|profile|results) [^`]+))`", text)
    assert {f"benchkit {with_name or without}" for with_name, without in named} == TRIED_BY.keys()
    for command, file in TRIED_BY.items():
        test = (ROOT / "tests" / file).read_text()
        if file == "test_readme.py":
            assert any(each.startswith(command) for each in commands())
        else:
            for word in command.split()[1:]:
                assert word == "RUN" or word in test, f"{command}: not in {file}"


SHORT = ("--set", "blocks=1", "--set", "load.duration_s=1", "--set", "load.warmup_s=0")
"""What a run here adds to the README's words: whether it works takes no statistics."""


@pytest.mark.lab
def test_every_command_runs_and_the_python_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scenario, _ = blocks("yaml")
    (tmp_path / "mine.yaml").write_text(scenario)
    name = f"readme-{os.getpid()}"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("BENCHKIT_")}
    environment |= {"BENCHKIT_LAB": name, "XDG_STATE_HOME": str(tmp_path / "state")}
    monkeypatch.chdir(tmp_path)
    try:
        for command in commands():
            if command in LEFT_TO_OTHERS:
                continue
            if "inventory.yaml" in command:
                _write_inventory(tmp_path / "inventory.yaml", name)
            elif (tmp_path / "inventory.yaml").exists():  # the user's own hosts were the test's lab
                (tmp_path / "inventory.yaml").unlink()
                down(name)
            words = shlex.split(command)[1:]
            done = benchkit(*words, *(SHORT if words[0] == "run" else ()), environment=environment)
            assert done.code == 0, f"{command}\n{done.err}"
        (python,) = blocks("python")
        shown = subprocess.run([sys.executable, "-c", python], capture_output=True, text=True, check=False)
        assert shown.returncode == 0, shown.stderr
        assert "nginx-go" in shown.stdout
    finally:
        down(name)


def _write_inventory(path: Path, name: str) -> None:
    """The lab as the user's own hosts, under the name that the README gives their file."""
    lab = current(name) or up(LabSpec(name=name))
    hosts = {
        host.name: host.model_dump(mode="json", exclude={"name"}, exclude_none=True) for host in lab.inventory().hosts
    }
    path.write_text(json.dumps({"hosts": hosts}))
