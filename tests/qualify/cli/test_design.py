"""Design, claims, comparison and gate from the command line, on real runs on the lab."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import benchkit
from benchkit.store.store import Store

if TYPE_CHECKING:
    from tests.support.cli.fixtures import CommandResult

Cli = Callable[..., "CommandResult"]
Inventory = Callable[..., Path]

SCENARIO = """\
name: work
title: A handler with work and one without
question: What does the work cost?
factors: {stack: [bare, busy]}
stacks:
  bare: {entry: app, services: {app: {backend: nethttp, role: sut, listen: 8080}}}
  busy: {entry: app, services: {app: {backend: nethttp, role: sut, listen: 8080, work: "loop:1500000"}}}
baseline: {stack: bare}
control: [{stack: bare}]
load: {tool: ab, connections: 4, request_count: 2000}
# What is looked at here is the same on a busy machine.
telemetry: "off"
thresholds: {server_cpu: 0, generator_cpu: 1, cold: 1, spread: 100}
blocks: 25
until: {precision: 0.99}
claims:
  - text: Work costs most of the rate.
    ratio: {of: {stack: busy}, to: {stack: bare}}
    at_most: 0.9
    published: 0.5
  - text: Work needs a large host.
    ratio: {of: {stack: busy}, to: {stack: bare}}
    at_least: 1
    needs: {sut: {cpus: 1000}}
"""


@pytest.fixture(scope="module")
def scenario(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the scenario to a file."""
    path = tmp_path_factory.mktemp("design") / "work.yaml"
    path.write_text(SCENARIO)
    return path


def test_an_adaptive_run_ends_early_and_is_judged(
    cli: Cli, inventory: Inventory, tmp_path: Path, scenario: Path
) -> None:
    planned = cli("plan", scenario, "-i", inventory(sut={"sudo": True}), "--json").document()
    assert planned["sudo"] == [{"host": "sut", "when": "connecting", "argv": ["sudo", "-n", "--", "true"]}]
    hosts, store = inventory(), tmp_path / "store"
    kinds = {planned_trial["cell_id"]: planned_trial["kind"] for planned_trial in planned["order"]}
    assert kinds == {"stack=bare": "measure", "stack=busy": "measure", "stack=bare~control": "control"}
    assert planned["power"]["noise_from"] is None

    result = cli("run", scenario, "-i", hosts, "--json")
    assert result.code == 0, result.err
    summary = result.document()
    first = summary["run_id"]
    trials = benchkit.load("trials", store=store, run_id=first)
    run = Store(store).run(first)
    blocks = run.manifest().blocks
    assert 7 <= blocks < 25
    assert "every interval is within ± 99.0%" in run.manifest().notes[-1]
    assert trials.groupby("cell_id").size().to_dict() == dict.fromkeys(kinds, blocks)
    assert set(trials.loc[trials["kind"] == "control", "cell_id"]) == {"stack=bare~control"}
    events = [event.model_dump() for event in run.history()]
    assert [event["stop"] for event in events if event["event"] == "block-ended"] == [False] * (blocks - 1) + [True]
    assert [claim["state"] for claim in summary["claims"]] == ["holds", "not testable here"]
    assert "needs 1000 CPUs on" in summary["claims"][1]["reason"]

    second = cli("plan", scenario, "-i", hosts, "--json").document()
    assert second["power"]["noise_from"] == first
    (ratio, *_) = second["power"]["ratios"]
    assert ratio["resolution"]["detectable"] > 1

    one_block = ("--set", "blocks=1", "--set", "until=null", "--set", "control=[]")
    second = cli("run", scenario, "-i", hosts, *one_block, "--json").document()["run_id"]
    _compare(cli, first, second)
    _gate(cli, first, second)


def _compare(cli: Cli, first: str, second: str) -> None:
    """Check that ratios within a run have its noise, and between runs with the differences of their hosts first."""
    found = cli("compare", first, "--json").document()
    by_cell: dict[str, Any] = {ratio["cell_id"]: ratio for ratio in found["ratios"]}
    assert by_cell["stack=busy"]["outcome"] == "lower"
    assert by_cell["stack=busy"]["high"] < 0.9
    assert by_cell["stack=bare~control"]["control"]
    lines = cli("compare", first, second).out.splitlines()
    notice, ratios = (next(i for i, line in enumerate(lines) if line.startswith(start)) for start in ("! ", "RPS"))
    assert notice < ratios
    assert not any("drifted" in line for line in lines)


def _gate(cli: Cli, first: str, second: str) -> None:
    outcomes = {
        "passed": ("compare", first, "--threshold", "rps=99%"),
        "regressed": ("compare", first, "--gate"),
        "inconclusive": ("compare", first, second, "--gate"),
    }
    for code, (verdict, command) in zip((0, 3, 4), outcomes.items(), strict=True):
        result = cli(*command)
        assert (result.code, f"Gate: {verdict}" in result.out) == (code, True), result.out
    assert cli("compare", first, "--gate", "--json").document()["gate"]["verdict"] == "regressed"
    assert 'failures="1"' in cli("compare", first, "--gate", "--format", "junit").out
