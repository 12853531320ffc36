"""Every shipped scenario can be planned: by the command that its reader types, and for the hosts of its study."""

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

OF_OTHER_LABS = ("go-module-proxy", "go-module-requests")
"""They take four hosts."""
NAMES = sorted({path.stem for path in shipped("scenarios").glob("*.yaml")} - set(OF_OTHER_LABS))

pytestmark = pytest.mark.lab


@pytest.mark.parametrize("name", NAMES)
def test_a_shipped_scenario_can_be_planned(name: str, lab: Lab) -> None:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("BENCHKIT_")}
    done = command("plan", name, "--json", environment=environment | {"BENCHKIT_LAB": lab.name})
    assert done.code == 0, done.err
    plan = json.loads(done.out)
    assert plan["scale"] == "lab"
    assert plan["blocks"] >= 6  # fewer could show no difference
    assert plan["obstacles"] == []
    measured = [trial["cell_id"] for trial in plan["order"] if trial["kind"] == "measure"]
    carried = {cell["cell_id"] for cell in plan["cells"] if cell["unsupported"] is None}
    assert carried
    assert sorted(set(measured)) == sorted(cell_id for cell_id in carried if not cell_id.endswith("~control"))
    assert len(measured) == plan["blocks"] * len(set(measured))


def test_what_was_published_can_be_planned(lab: Lab) -> None:
    """As published, a lab may carry few of the cells, and it is told why for each of the others."""
    with connect_all(lab.inventory()) as hosts:
        for name in NAMES:
            experiment = read_experiment(name, "paper")
            planned = {cell.cell_id: cell for cell in make_plan(experiment, hosts).cells}
            assert planned.keys() >= {cell.cell_id for cell in experiment.cells}
            assert all(cell.unsupported or (cell.services and cell.generators) for cell in planned.values())
