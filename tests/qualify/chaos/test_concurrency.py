"""Conflicts: a host in use, a run in progress, a scenario that has changed."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.qualify.chaos.interference import HeldLoadTool
from tests.qualify.chaos.kit import CELLS, SCENARIO, Bench


def test_a_host_in_use_and_a_run_in_progress_are_refused(new_bench: Callable[[], Bench], held: HeldLoadTool) -> None:
    first, second = new_bench(), new_bench()
    running = first.start(str(SCENARIO))
    held.wait(running)
    name = first.folder().name
    refused = second.run(str(SCENARIO))
    assert refused.code == 1
    assert f"this host is in use: {name} of " in refused.err
    assert "released automatically in " in refused.err
    assert not second.runs()
    for command in (["results", "reparse", "latest"], ["results", "rm", "latest", "--yes"]):
        result = first.cli(*command)
        assert (result.code, result.err) == (
            2,
            f"benchkit: {name}: another benchkit process writes to this run\n  → wait until it ends, then try again\n",
        )
    untouched = first.cli("hosts", "restore", "-i", str(first.inventory), "--take-over")
    assert untouched.code == 1
    assert "this host is in use" in untouched.err
    running.kill()
    running.wait()
    (listed,) = json.loads(first.cli("results", "list", "--json").out)
    assert listed["status"] == "stopped"


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    path = tmp_path / "chaos.yaml"
    text = SCENARIO.read_text().replace("blocks: 3", "blocks: 1")
    path.write_text(text.replace("  warmup_s: 0\n", "  warmup_s: 0\n  path: /other\n"))
    return path


def test_a_changed_scenario_or_host_is_refused_with_the_difference_unless_accepted(
    bench: Bench, scenario: Path
) -> None:
    killed = bench.run(str(scenario), crash="ended")
    assert killed.code == -signal.SIGKILL
    over = set(bench.progress().ended)
    manifest = bench.folder() / "manifest.json"
    text = manifest.read_text()
    manifest.write_text(text.replace('"kernel": "', '"kernel": "5'))
    scenario.write_text(scenario.read_text().replace("path: /other", "path: /another"))
    refused = bench.run(str(scenario), "--resume", "latest")
    assert refused.code == 2
    assert "host sut: kernel was 5" in refused.err
    assert "scenario: load.path was /other, is /another" in refused.err
    assert "--accept-changes" in refused.err
    manifest.write_text(text)
    scenario.write_text(scenario.read_text().replace("blocks: 1", "blocks: 2"))
    other = bench.run(str(scenario), "--resume", "latest", "--accept-changes")
    assert other.code == 2
    assert "another order of trials" in other.err
    for own in (("--seed", "3"), ("--scale", "lab"), ("--set", "blocks=3")):
        assert "cannot change a resumed run" in bench.run("--resume", "latest", *own).err
    scenario.write_text(scenario.read_text().replace("blocks: 2", "blocks: 1"))
    done = bench.run(str(scenario), "--resume", "latest", "--accept-changes", "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["trials"] == CELLS
    assert over <= bench.progress().ended.keys()
    notices = json.loads(manifest.read_text())["notes"]
    assert any("despite a change: scenario: load.path was /other, is /another" in notice for notice in notices)
