from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchkit.errors import InputError
from benchkit.models import Scale
from benchkit.scenario.experiment import Experiment
from tests.support.builders import load, read_scenario, stacks

CLAIM = {"text": "x", "ratio": {"of": {"stack": "nginx"}, "to": {"stack": "go"}}, "at_least": 0.9}


def read(folder: Path, scale: Scale = "lab", **fields: Any) -> Experiment:  # noqa: ANN401 - fields of a scenario
    two_stacks: dict[str, Any] = {
        "stacks": stacks(go={"gomaxprocs": "$cores"}, nginx={"listen": 8081}),
        "blocks": 8,
        "factors": {"stack": ["go", "nginx"], "cores": [1]},
        "scales": {"lab": {}, "paper": {"factors": {"stack": ["go", "nginx"], "cores": [8]}}},
    }
    return read_scenario(folder, scale, **two_stacks, **fields)


def faults(folder: Path, **fields: Any) -> list[str]:  # noqa: ANN401 - fields of a scenario
    """Return the messages about a scenario with these fields, without the path of its file."""
    with pytest.raises(InputError) as caught:
        read(folder, **fields)
    return [fault.removeprefix(f"{folder}/") for fault in str(caught.value).splitlines()]


@pytest.mark.parametrize("scale", ["lab", "paper"])
def test_claims_may_name_levels_of_another_scale(tmp_path: Path, scale: Scale) -> None:
    ratio = {"of": {"stack": "nginx", "cores": 8}, "to": {"stack": "go"}}
    (claim,) = read(tmp_path, scale, claims=[{**CLAIM, "ratio": ratio}]).scenario.claims
    assert claim.ratio.of == {"stack": "nginx", "cores": 8}


def test_faults_of_claims_name_file_line_and_field(tmp_path: Path) -> None:
    wrong = {
        **CLAIM,
        "ratio": {"of": {"stak": "nginx"}, "to": {"stack": "gone"}},
        "metric": "rpss",
        "needs": {"sud": {"cpus": 6}},
    }
    *messages, metric = faults(tmp_path, claims=[CLAIM, wrong])
    assert messages == [
        "small.yaml:9: claims.1.ratio.of.stak: no factor 'stak'; did you mean 'stack'? allowed: stack, cores",
        "small.yaml:9: claims.1.ratio.to.stack: no level 'gone' at any scale; did you mean 'go'? allowed: go, nginx",
        "small.yaml:9: claims.1.needs.sud: no role 'sud'; did you mean 'sut'? allowed: sut, load",
    ]
    assert metric.startswith("small.yaml:9: claims.1.metric: no metric 'rpss'; did you mean 'rps'? allowed: ")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"claims": [{field: value for field, value in CLAIM.items() if field != "at_least"}]},
            "9: claims.0: expects one of at_least",
        ),
        (
            {"control": [{"stack": "go"}, {"cores": 2}]},
            "9: control.1: no cell has cores=2; allowed: stack=go,cores=1",
        ),
        (
            {"control": [{"stack": "go"}], "design": "abba"},
            "10: design: abba compares two cells; there are 3, controls included",
        ),
        ({"design": "latin"}, "9: design: found 'latin'; allowed: 'blocks', 'abba', 'sequential' or 'sliced'"),
        (
            {"until": {"precision": 0.05, "metrics": ["rps", "rsp"]}},
            "9: until.metrics.1: no metric 'rsp'; did you mean 'rps'?",
        ),
        ({"until": {"precision": 0.05, "min_blocks": 9}}, "9: until: needs at least 9 blocks, but blocks is 8"),
        (
            {"until": {"precision": 0.05}, "design": "sequential"},
            "9: until: not allowed in a sequential design",
        ),
        ({"until": {"precision": 5}}, "9: until.precision: found 5; allowed: a number below 1"),
    ],
)
def test_faults_name_the_field(tmp_path: Path, fields: dict[str, object], message: str) -> None:
    (fault,) = faults(tmp_path, **fields)
    assert fault.startswith(f"small.yaml:{message}")


def test_a_difference_may_name_levels_of_any_scale(tmp_path: Path) -> None:
    def differs(**cells: object) -> list[dict[str, object]]:
        return [{"what": ["body"], "why": "so", "cells": cells}]

    assert read(tmp_path, differs=differs(cores=8)).scenario.differs[0].cells == {"cores": 8}
    (fault,) = faults(tmp_path, differs=differs(stak="go"))
    assert fault.startswith("small.yaml:9: differs.0.cells.stak: no factor 'stak'")
    (fault,) = faults(tmp_path, differs=differs(cores=3))
    assert fault.startswith("small.yaml:9: differs.0.cells.cores: no level '3' at any scale; ")


def test_control_names_cells_by_some_of_their_levels(tmp_path: Path) -> None:
    one = read(tmp_path, control=[{"stack": "nginx"}, {"stack": "nginx", "cores": 1}])
    assert one.controlled == ("stack=nginx,cores=1",)
    assert read(tmp_path, control=[{"cores": 1}]).controlled == ("stack=go,cores=1", "stack=nginx,cores=1")
    assert read(tmp_path).controlled == ()


def test_a_cell_and_its_control_are_two_cells_for_abba(tmp_path: Path) -> None:
    cells = [{"stack": "go", "cores": 1}]
    assert read(tmp_path, design="abba", cells=cells, control=[{"stack": "go"}]).scenario.design == "abba"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"blocks": 10_001}, "blocks: found 10001; allowed: a number up to 10000"),
        ({"roles": {"load": {"hosts": 10**9}}}, "roles.load.hosts: found 1000000000; allowed: a number up to 1000"),
        ({"load": load(processes=10**9)}, "load.processes: found 1000000000; allowed: a number up to 1024"),
        (
            {"blocks": 10_000, "factors": {"stack": ["go", "nginx"], "cores": list(range(1, 12))}},
            "blocks: these are 220,000 trials of 22 cells; allowed: up to 200,000; use fewer blocks",
        ),
        (
            {
                "factors": {"stack": ["go", "nginx"], "cores": list(range(1, 72)), "open": list(range(1, 72))},
                "load": load(connections="$open"),
            },
            "factors: these are 10,082 cells; allowed: up to 10,000; list those to compare in `cells`",
        ),
    ],
)
def test_the_size_of_an_experiment_is_limited(tmp_path: Path, fields: dict[str, Any], message: str) -> None:
    defaults = {"stacks": stacks(go={"gomaxprocs": "$cores"}, nginx={"listen": 8081})}
    with pytest.raises(InputError) as caught:
        read_scenario(tmp_path, **{**defaults, "factors": {"stack": ["go", "nginx"], "cores": [1]}, **fields})
    assert message in str(caught.value)
