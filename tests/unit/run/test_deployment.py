from __future__ import annotations

import pytest

from benchkit.errors import InputError
from benchkit.plan.model import RunPlan
from benchkit.run.deployment import holder_name, select_cell
from benchkit.scenario.experiment import Experiment
from tests.support.builders import experiment, planned_cells, run_plan, stacks


def two_stacks(**fields: object) -> Experiment:
    """Return an experiment with the cells `stack=one` and `stack=two`."""
    return experiment(stacks=stacks(one={}, two={"listen": 8081}), factors={"stack": ["one", "two"]}, **fields)


def plan(**fields: object) -> RunPlan:
    return run_plan(two_stacks(**fields))


def test_select_cell_prefers_the_argument_then_the_scenario_then_the_baseline() -> None:
    assert select_cell(plan()).cell_id == "stack=one"
    assert select_cell(plan(baseline={"stack": "two"})).cell_id == "stack=two"
    named = plan(baseline={"stack": "one"}, service={"stack": "two"})
    assert select_cell(named).cell_id == "stack=two"
    assert select_cell(named, "stack=one").cell_id == "stack=one"
    assert holder_name(named.experiment.scenario.name) == "service small"


def test_an_unknown_cell_is_rejected() -> None:
    with pytest.raises(InputError, match="no cell 'stack=three': did you mean 'stack=two'"):
        select_cell(plan(), "stack=three")
    with pytest.raises(InputError, match=r"service\.stack: no level 'three'; allowed: one, two"):
        plan(service={"stack": "three"})


def test_an_unsupported_cell_is_rejected() -> None:
    of_two = two_stacks()
    with pytest.raises(InputError, match="stack=two: too small"):
        select_cell(run_plan(of_two, cells=planned_cells(of_two, two="too small")), "stack=two")
