"""Fields of scenario files: roles, telemetry, and fields of single load tools."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchkit.errors import InputError
from benchkit.models import Scale
from benchkit.models.load import Load
from benchkit.scenario.experiment import Experiment
from benchkit.scenario.read import read_experiment
from tests.support.builders import load, read_scenario, write_scenario


@pytest.mark.parametrize(
    ("roles", "message"),
    [
        (
            {"sut": {}, "load": {"quota": 0.5}},
            "small.yaml:7: roles.load.quota: a quota limits services, but no service has the role 'load'",
        ),
        ({"sut": {"quota": 0}, "load": {}}, "small.yaml:7: roles.sut.quota: found 0"),
        ({"sut": {"cpus": "3-1"}, "load": {}}, "small.yaml:7: roles.sut.cpus"),
        ({"sut": {}}, "small.yaml:7: roles: no role 'load' to generate the load"),
    ],
)
def test_a_wrong_role_is_reported_with_its_line(tmp_path: Path, roles: dict[str, object], message: str) -> None:
    with pytest.raises(InputError) as caught:
        read_scenario(tmp_path, roles=roles)
    assert message in str(caught.value)


@pytest.mark.parametrize("off", ["off", "false", "Off", '"off"'])
def test_telemetry_is_off_in_yaml_1_1_and_1_2(tmp_path: Path, off: str) -> None:
    path = write_scenario(tmp_path)
    path.write_text(f"{path.read_text()}telemetry: {off}\n")
    assert read_experiment(str(path)).scenario.telemetry is None


@pytest.mark.parametrize(
    ("telemetry", "field"),
    [
        ({"interval_s": 0.05}, "telemetry.interval_s"),
        ({"interval_s": 61}, "telemetry.interval_s"),
        ({"interval": 1}, "telemetry.interval"),
        ("on", "telemetry"),
    ],
)
def test_wrong_options_are_reported_with_their_line(tmp_path: Path, telemetry: object, field: str) -> None:
    with pytest.raises(InputError, match=rf"small\.yaml:7: {field}: "):
        read_scenario(tmp_path, telemetry=telemetry)


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
