from __future__ import annotations

from collections import Counter

from benchkit.plan.design import control_cells, plan_design
from benchkit.plan.model import PlannedCell
from benchkit.scenario.experiment import Experiment
from benchkit.scenario.trial_order import planned_trials
from tests.support.builders import experiment, planned_cells, stacks


def two_stacks(**fields: object) -> Experiment:
    return experiment(
        stacks=stacks(go={}, nginx={"listen": 8081}), factors={"stack": ["go", "nginx"]}, blocks=5, **fields
    )


def with_controls(experiment: Experiment, **unsupported: str) -> tuple[PlannedCell, ...]:
    cells = planned_cells(experiment, **unsupported)
    return *cells, *control_cells(experiment, cells)


def test_a_control_repeats_its_cell_in_every_block() -> None:
    scenario = two_stacks(control=[{"stack": "go"}])
    cells = with_controls(scenario)
    assert [cell.cell_id for cell in cells] == ["stack=go", "stack=nginx", "stack=go~control"]
    assert (cells[2].spec.services, cells[2].spec.levels) == (cells[0].spec.services, cells[0].spec.levels)
    assert cells[2].load == cells[0].load
    design = plan_design(scenario, cells, {}, {})
    trials = planned_trials(design.design, [cell.cell_id for cell in design.cells if not cell.unsupported], 5, 1)
    assert Counter((trial.cell_id, trial.kind) for trial in trials) == {
        ("stack=go", "measure"): 5,
        ("stack=nginx", "measure"): 5,
        ("stack=go~control", "control"): 5,
    }
    assert design.notes == ()


def test_an_unsupported_cell_has_no_control() -> None:
    scenario = two_stacks(control=[{"stack": "go"}])
    design = plan_design(scenario, with_controls(scenario, go="too many connections"), {}, {})
    trials = planned_trials(design.design, [cell.cell_id for cell in design.cells if not cell.unsupported], 5, 1)
    assert {trial.cell_id for trial in trials} == {"stack=nginx"}
