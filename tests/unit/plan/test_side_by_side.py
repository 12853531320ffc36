from __future__ import annotations

from typing import Any

import pytest

from benchkit.models.design import held_of
from benchkit.plan.cells import plan_cell
from benchkit.plan.design import PlannedDesign, held_cells, next_shift, plan_design
from benchkit.scenario.experiment import Experiment
from tests.support.builders import experiment, load, stack, stacks
from tests.unit.plan.test_host_capabilities import capabilities

ROLES = {"sut": ("box",), "load": ("box",)}


def sliced(**fields: Any) -> PlannedDesign:  # noqa: ANN401 - fields of a scenario
    """Plan a sliced scenario of two stacks on one host."""
    defaults: dict[str, Any] = {
        "stacks": stacks(one={}, two={"backend": "fasthttp"}),
        "factors": {"stack": ["one", "two"]},
        "load": load(tool="h2load"),
        "design": "sliced",
    }
    scenario: Experiment = experiment(**(defaults | fields))
    hosts = {"box": capabilities()}
    cells = [plan_cell(scenario, cell, ROLES, hosts) for cell in scenario.cells]
    return plan_design(scenario, [*cells, *held_cells(scenario, cells, ROLES, hosts)], ROLES, hosts)


def test_each_stack_has_ports_and_folders_of_its_own() -> None:
    planned = sliced()
    assert planned.design == "sliced"
    services = [cell.services[0] for cell in planned.cells]
    assert [service.endpoint.port for service in services] == [8080, 8081]
    assert planned.cells[1].target == "http://10.0.0.5:8081/"
    assert len({service.folder for service in services}) == 2
    assert "8081" in " ".join(services[1].process.argv)
    assert planned.notes == ()


def test_the_phase_at_a_held_rate_has_the_servers_of_its_cell() -> None:
    planned = sliced(load=load(tool="h2load", rate="half"))
    assert planned.why.startswith("the stacks of 2 cells side by side")
    placed = {cell.cell_id: (cell.target, cell.services) for cell in planned.cells}
    for cell_id in ("stack=one", "stack=two"):
        assert placed[held_of(cell_id)] == placed[cell_id]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"load": load(tool="wrk")}, "wrk takes whole seconds, not 0.25"),
        ({"load": load(tool="h2load", duration_s=None, request_count=100)}, "ends after a number of requests"),
        ({"load": load(tool="h2load", duration_s=0.2)}, "the window of stack=one is 0.2 s, and a slice is 0.25 s"),
        ({"factors": {"stack": ["one"]}, "stacks": stacks(one={})}, "there is only one cell"),
        (
            {"stacks": {"one": stack(), "two": stack(backend="command", run=["nginx", "8080"])}},
            "app of stack=two always listens on port 8080",
        ),
        ({"stacks": stacks(one={}, two={"outage": True})}, "app of stack=two has an outage in its window"),
    ],
)
def test_cells_that_cannot_be_side_by_side_run_in_blocks(fields: dict[str, Any], reason: str) -> None:
    planned = sliced(**fields)
    assert planned.design == "blocks"
    assert reason in planned.why
    (note,) = planned.notes
    assert note.startswith("The design is blocks, not sliced, because ")
    assert all(":8080/" in cell.target for cell in planned.cells)


def test_the_next_ports_are_free_for_all_services_of_a_stack() -> None:
    used = {("a", 80), ("a", 81), ("b", 90)}
    assert next_shift({("a", 80)}, used) == 2
    assert next_shift({("a", 80), ("b", 88)}, used) == 3
    assert next_shift({("b", 80)}, used) == 0
    assert next_shift(set(), used) == 0
