"""Plans of the shipped scenarios: by the command line, and at the scale of their studies."""

from __future__ import annotations

import json
import os

import pytest

from benchkit.hosts.connections import connect_all
from benchkit.lab.lab import Lab
from benchkit.resources import shipped
from benchkit.run.plan.planner import make_plan
from benchkit.scenario.read import read_experiment
from tests.commands import command

FOUR_HOSTS = ("go-module-proxy", "go-module-requests")
"""Scenarios that need a lab of four hosts."""
NAMES = sorted({path.stem for path in shipped("scenarios").glob("*.yaml")} - set(FOUR_HOSTS))

pytestmark = pytest.mark.lab


@pytest.mark.parametrize("name", NAMES)
def test_a_shipped_scenario_can_be_planned(name: str, lab: Lab) -> None:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("BENCHKIT_")}
    done = command("plan", name, "--json", environment=environment | {"BENCHKIT_LAB": lab.name})
    assert done.code == 0, done.err
    plan = json.loads(done.out)
    assert plan["scale"] == "lab"
    assert plan["blocks"] >= 6  # fewer cannot show a difference
    assert plan["obstacles"] == []
    measured = [trial["cell_id"] for trial in plan["order"] if trial["kind"] == "measure"]
    supported = {cell["cell_id"] for cell in plan["cells"] if cell["unsupported"] is None}
    assert supported
    assert sorted(set(measured)) == sorted(cell_id for cell_id in supported if not cell_id.endswith("~control"))
    assert len(measured) == plan["blocks"] * len(set(measured))


def test_published_scales_can_be_planned(lab: Lab) -> None:
    """Plan each study at the scale `paper`, of which a lab supports few cells."""
    with connect_all(lab.inventory()) as hosts:
        for name in NAMES:
            experiment = read_experiment(name, "paper")
            planned = {cell.cell_id: cell for cell in make_plan(experiment, hosts).cells}
            assert planned.keys() >= {cell.cell_id for cell in experiment.cells}
            assert all(cell.unsupported or (cell.services and cell.generators) for cell in planned.values())
