"""Fields of the load that a scenario overrides for one tool."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchkit.errors import InputError
from benchkit.models import Scale
from benchkit.models.load import Load
from benchkit.scenario.experiment import Experiment
from benchkit.scenario.read import read_experiment
from tests.support.builders import load, read_scenario

TOOLS = {"wrk": {"threads": 2}, "hey": {"processes": 4, "timeout_s": 9}}


def read(folder: Path, scale: Scale = "lab", **fields: object) -> Experiment:
    two_tools: dict[str, Any] = {
        "factors": {"tool": ["wrk", "hey"], "connections": [8, 64]},
        "load": load(tool="$tool", connections="$connections", duration_s=5),
        "tools": TOOLS,
        "scales": {"lab": {}, "smoke": {"tools": {"hey": {"processes": 2}}}},
    }
    return read_scenario(folder, scale, **{**two_tools, **fields})


def loads(experiment: Experiment) -> dict[str, Load]:
    return {cell.cell_id: cell.load for cell in experiment.cells}


def test_each_tool_gets_its_own_fields_and_the_common_ones(tmp_path: Path) -> None:
    cells = loads(read(tmp_path))
    assert cells["tool=wrk,connections=64"] == Load(tool="wrk", connections=64, duration_s=5, threads=2)
    assert cells["tool=hey,connections=8"] == Load(tool="hey", connections=8, duration_s=5, processes=4, timeout_s=9)


def test_a_scale_overrides_fields_of_a_tool(tmp_path: Path) -> None:
    cell = loads(read(tmp_path, "smoke"))["tool=hey,connections=8"]
    assert (cell.processes, cell.timeout_s) == (2, 9)


def test_fields_of_a_tool_may_refer_to_factors(tmp_path: Path) -> None:
    tools = {**TOOLS, "wrk": {"threads": "$connections"}}
    cells = loads(read(tmp_path, load=load(tool="$tool", connections=64), tools=tools))
    assert cells["tool=wrk,connections=8"].threads == 8


@pytest.mark.parametrize(
    ("tools", "message"),
    [
        ({"wkr": {"threads": 2}}, "small.yaml:8: tools.wkr: no load tool 'wkr'; did you mean 'wrk'?"),
        ({"wrk": {"tool": "ab"}}, "small.yaml:8: tools.wrk.tool: not allowed here; name the tool in load"),
        ({"hey": {"threads": 9}}, "small.yaml:8: load.threads: hey does not support it"),
        ({"hey": {"timeout": 9}}, "small.yaml:8: load.timeout: no such field"),
        ({"hey": {"processes": 9}}, "small.yaml:5: load.connections: 8 is too few for 9 generators"),
        ({"wrk": {"threads": "$thraeds"}}, "small.yaml:8: tools.wrk.threads: $thraeds refers to no factor"),
    ],
)
def test_faults_name_the_line_of_the_wrong_value(tmp_path: Path, tools: dict[str, object], message: str) -> None:
    with pytest.raises(InputError) as error:
        read(tmp_path, tools=tools)
    assert message in str(error.value)


def test_the_shipped_scenario_uses_all_tools_at_every_scale() -> None:
    scales: tuple[Scale, ...] = ("paper", "lab", "smoke")
    for scale in scales:
        tools = [cell.load.tool for cell in read_experiment("tool-agreement", scale).cells]
        assert tools == ["wrk", "ab", "hey", "siege", "vegeta", "h2load", "openloop"]
