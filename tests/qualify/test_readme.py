"""The README is true: its commands run, its files are valid, its Python works."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from benchkit.hosts.inventory import load_inventory
from benchkit.lab.lab import down, find_lab, up
from benchkit.lab.spec import LabSpec
from tests.support.commands import command as benchkit
from tests.support.needs import separate_hosts
from tests.support.paths import ROOT

TEXT = (ROOT / "README.md").read_text()
RUN_ELSEWHERE = {"make demo", "make test", "benchkit capacity 'node one.js {port}' --p99 10ms"}
"""Commands not run here: `make test` runs this test, test_wheel.py the demo, cli/test_capacity.py a short search."""


def blocks(language: str) -> list[str]:
    """Return the README's code blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE)


def commands() -> list[str]:
    """Return the README's commands in order, without comments."""
    lines = "".join(blocks("sh")).splitlines()
    return [shlex.join(words) for line in lines if (words := shlex.split(line, comments=True))]


def test_every_command_is_run_here_or_by_another_test() -> None:
    assert len(commands()) > 10
    for command in commands():
        assert command.startswith("benchkit ") or command in RUN_ELSEWHERE


def test_the_inventory_is_valid(tmp_path: Path) -> None:
    _, text = blocks("yaml")
    (tmp_path / "inventory.yaml").write_text(text)
    hosts = {host.name: host for host in load_inventory(tmp_path / "inventory.yaml").hosts}
    assert {name: (host.jump, host.roles) for name, host in hosts.items()} == {
        "gate": (None, ()),
        "server": ("gate", ("sut",)),
        "client": ("gate", ("load",)),
    }


RUN_BY = {
    "benchkit compare --gate": "cli/test_compare.py",
    "benchkit fields": "cli/test_fields.py",
    "benchkit notebook": "cli/test_notebook.py",
    "benchkit run --resume RUN": "chaos/test_concurrency.py",
}
"""Commands that the prose names, and the tests that run them."""


def test_commands_in_the_prose_are_run_by_a_test_too() -> None:
    prose = re.sub(r"^```.*?^```$", "", TEXT, flags=re.DOTALL | re.MULTILINE)
    prose = prose.replace("\n", " ")
    named = re.findall(r"`(?:benchkit ([^`]+)|((?:compare|profile|results) [^`]+))`", prose)
    assert {f"benchkit {full or short}" for full, short in named} == RUN_BY.keys()
    for command, file in RUN_BY.items():
        test = (ROOT / "tests" / "qualify" / file).read_text()
        for word in command.split()[1:]:
            assert word == "RUN" or word in test, f"{command}: not in {file}"


def test_the_python_prints_the_median_rate_of_each_stack(tmp_path: Path) -> None:
    """Run it on a recorded run, and compare with what pandas alone reads of the trials that are not invalid."""
    recorded = ROOT / "notebooks" / "recorded"
    (run,) = (recorded / "tables" / "trials" / "scenario=quickstart").glob("run_id=*")
    run_id = run.name.removeprefix("run_id=")
    shutil.copytree(recorded / "runs" / run_id, tmp_path / "runs" / run_id)
    for part in recorded.glob(f"tables/*/scenario=quickstart/{run.name}"):
        shutil.copytree(part, tmp_path / part.relative_to(recorded))
    (python,) = blocks("python")
    environment = {**os.environ, "BENCHKIT_STORE": str(tmp_path)}
    command = [sys.executable, "-c", python]
    process = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)
    assert process.returncode == 0, process.stderr
    trials, factors = (pd.read_parquet(tmp_path / "tables" / table) for table in ("trials", "factors"))
    trials = trials[trials["verdict"] != "invalid"]
    stacks = factors[factors["factor"] == "stack"].drop_duplicates("cell_id").set_index("cell_id")["level"]
    medians = trials.groupby(trials["cell_id"].map(stacks))["rps"].median()
    printed = [line.split() for line in process.stdout.splitlines()]
    assert printed[0] == ["factor_stack"]
    assert printed[-1][:2] == ["Name:", "rps,"]
    assert len(printed) == 2 + len(medians)
    assert len(medians) > 1
    for stack, rate in printed[1:-1]:
        assert float(rate) == pytest.approx(medians[stack], rel=1e-5)


SHORT = ("--set", "blocks=1", "--set", "load.duration_s=1", "--set", "load.warmup_s=0", "--set", "load.rate=null")
"""Options added to each run: to see that it works needs no statistics, and no load curve."""
SERVERS = ("one.js", "other.js")
"""Servers that the README's first comparison names."""
SHORT_VERSUS = ("--connections", "8", "--at", "off", "--blocks", "2", "--duration", "7")
"""Options added to it."""
ENDS = {"versus": {0, 1}, "why": {0, 1}}
"""Exit codes of commands, other than 0 alone: in so short a time, beside other tests, no trial may be usable."""


@separate_hosts
def test_every_command_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scenario, _ = blocks("yaml")
    (tmp_path / "mine.yaml").write_text(scenario)
    for server in SERVERS:
        shutil.copyfile(ROOT / "tests" / "support" / "servers" / "plain.js", tmp_path / server)
    name = f"readme-{os.getpid()}"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("BENCHKIT_")}
    environment |= {"BENCHKIT_LAB": name, "XDG_STATE_HOME": str(tmp_path / "state")}
    monkeypatch.chdir(tmp_path)
    try:
        for command in commands():
            if command in RUN_ELSEWHERE:
                continue
            if "inventory.yaml" in command:
                _write_inventory(tmp_path / "inventory.yaml", name)
            words = shlex.split(command)[1:]
            added = {"run": SHORT, "versus": SHORT_VERSUS}.get(words[0], ())
            result = benchkit(*words, *added, environment=environment)
            assert result.code in ENDS.get(words[0], {0}), f"{command}\n{result.err}"
    finally:
        down(name)


def _write_inventory(path: Path, name: str) -> None:
    """Write the hosts of the test's lab as the inventory that the README shows."""
    lab = find_lab(name) or up(LabSpec(name=name))
    hosts = {
        host.name: host.model_dump(mode="json", exclude={"name"}, exclude_none=True) for host in lab.inventory().hosts
    }
    path.write_text(json.dumps({"hosts": hosts}))
