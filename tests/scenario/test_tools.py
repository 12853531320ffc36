"""What a scenario lays over its load for one tool."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchkit.errors import InputError
from benchkit.models.load import Load
from benchkit.scenario.experiment import Experiment
from benchkit.scenario.read import read_experiment

SCENARIO = """\
name: tools
title: Tools
question: Which?
factors: {tool: [wrk, hey], connections: [8, 64]}
stacks:
  one: {entry: app, services: {app: {backend: nethttp, listen: 8080}}}
load: {tool: $tool, connections: $connections, duration_s: 5}
tools:
  wrk: {threads: 2}
  hey:
    processes: 4
    timeout_s: 9
blocks: 1
scales:
  lab: {}
  smoke: {tools: {hey: {processes: 2}}}
"""


def _read(tmp_path: Path, *changes: tuple[str, str], scale: Any = "lab") -> Experiment:  # noqa: ANN401 - a literal
    text = SCENARIO
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path = tmp_path / "tools.yaml"
    path.write_text(text)
    return read_experiment(str(path), scale)


def _loads(experiment: Experiment) -> dict[str, Load]:
    return {cell.cell_id: cell.load for cell in experiment.cells}


def test_each_tool_gets_its_own_fields_over_the_common_ones(tmp_path: Path) -> None:
    experiment = _read(tmp_path)
    loads = _loads(experiment)
    assert loads["tool=wrk,connections=64"] == Load(tool="wrk", connections=64, duration_s=5, threads=2)
    assert loads["tool=hey,connections=8"] == Load(tool="hey", connections=8, duration_s=5, processes=4, timeout_s=9)


def test_a_scale_changes_a_tools_fields(tmp_path: Path) -> None:
    load = _loads(_read(tmp_path, scale="smoke"))["tool=hey,connections=8"]
    assert (load.processes, load.timeout_s) == (2, 9)


def test_a_level_may_stand_in_it(tmp_path: Path) -> None:
    experiment = _read(
        tmp_path, ("connections: $connections", "connections: 64"), ("threads: 2", "threads: $connections")
    )
    assert _loads(experiment)["tool=wrk,connections=8"].threads == 8


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "  wrk: {threads: 2}",
            "  wkr: {threads: 2}",
            "tools.yaml:9: tools.wkr: no load tool 'wkr'; did you mean 'wrk'?",
        ),
        (
            "  wrk: {threads: 2}",
            "  wrk: {tool: ab}",
            "tools.yaml:9: tools.wrk.tool: not allowed here; name the tool in load",
        ),
        ("timeout_s: 9", "threads: 9", "tools.yaml:12: load.threads: hey does not support it"),
        ("timeout_s: 9", "timeout: 9", "tools.yaml:12: load.timeout: no such field"),
        ("processes: 4", "processes: 9", "tools.yaml:7: load.connections: 8 is too few for 9 generators"),
        ("threads: 2", "threads: $thraeds", "tools.yaml:9: tools.wrk.threads: $thraeds refers to no factor"),
    ],
)
def test_what_is_wrong_is_blamed_on_the_line_that_wrote_it(tmp_path: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(InputError) as error:
        _read(tmp_path, (old, new))
    assert message in str(error.value)


def test_the_shipped_scenario_has_all_tools_at_every_scale() -> None:
    for scale in ("paper", "lab", "smoke"):
        experiment = read_experiment("tool-agreement", scale)
        tools = [load.tool for load in _loads(experiment).values()]
        assert tools == ["wrk", "ab", "hey", "siege", "vegeta", "h2load"]
