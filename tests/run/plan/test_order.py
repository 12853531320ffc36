from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from benchkit.run.plan.model import PlannedCell
from benchkit.run.plan.order import control_cells, order_trials
from benchkit.scenario.experiment import Experiment
from benchkit.scenario.read import read_experiment

SCENARIO = """\
name: small
title: Small
question: Which?
factors: {stack: [go, nginx]}
stacks:
  go: {entry: app, services: {app: {backend: nethttp, listen: 8080}}}
  nginx: {entry: app, services: {app: {backend: nethttp, listen: 8081}}}
load: {tool: wrk, connections: 4, duration_s: 1}
blocks: 5
"""


@pytest.fixture
def experiment(tmp_path: Path, request: pytest.FixtureRequest) -> Experiment:
    """The scenario with the lines of the parameter."""
    path = tmp_path / "s.yaml"
    path.write_text(SCENARIO + request.param)
    return read_experiment(str(path))


def planned(experiment: Experiment, **unsupported: str) -> list[PlannedCell]:
    cells = [
        PlannedCell(cell, (), cell.load, (), "", unsupported.get(str(cell.levels["stack"])))
        for cell in experiment.cells
    ]
    return [*cells, *control_cells(experiment, cells)]


@pytest.mark.parametrize("experiment", ["control: [{stack: go}]"], indirect=True)
def test_a_control_is_its_cell_once_more_in_every_block(experiment: Experiment) -> None:
    cells = planned(experiment)
    assert [cell.cell_id for cell in cells] == ["stack=go", "stack=nginx", "stack=go~control"]
    assert (cells[2].cell.services, cells[2].cell.levels, cells[2].load) == (
        cells[0].cell.services,
        cells[0].cell.levels,
        cells[0].load,
    )
    planned_trials, notices = order_trials(experiment, cells, 1)
    assert Counter(planned_trial.cell_id for planned_trial in planned_trials) == dict.fromkeys(
        (cell.cell_id for cell in cells), 5
    )
    assert {planned_trial.kind for planned_trial in planned_trials if planned_trial.cell_id == "stack=go~control"} == {
        "control"
    }
    assert {planned_trial.kind for planned_trial in planned_trials if planned_trial.cell_id != "stack=go~control"} == {
        "measure"
    }
    assert notices == ()


@pytest.mark.parametrize("experiment", ["control: [{stack: go}]"], indirect=True)
def test_a_cell_that_the_hosts_cannot_carry_has_no_control(experiment: Experiment) -> None:
    planned_trials, _ = order_trials(experiment, planned(experiment, go="too many connections"), 1)
    assert {planned_trial.cell_id for planned_trial in planned_trials} == {"stack=nginx"}


@pytest.mark.parametrize("experiment", ["design: sequential"], indirect=True)
def test_a_sequential_design_is_said_to_be_one(experiment: Experiment) -> None:
    planned_trials, notices = order_trials(experiment, planned(experiment), 1)
    assert [planned_trial.cell_id for planned_trial in planned_trials] == ["stack=go"] * 5 + ["stack=nginx"] * 5
    assert len(notices) == 1
    assert notices[0].startswith("The design is sequential")


@pytest.mark.parametrize("experiment", ["design: abba"], indirect=True)
def test_abba_of_which_one_cell_is_left_runs_that_one(experiment: Experiment) -> None:
    both, nothing = order_trials(experiment, planned(experiment), 3)
    assert len(both) == 4 * 5
    assert nothing == ()
    one, notices = order_trials(experiment, planned(experiment, nginx="no nginx"), 3)
    assert [planned_trial.cell_id for planned_trial in one] == ["stack=go"] * 5
    assert notices == ("ABBA needs two cells, and these hosts do not support both: the other cell runs alone.",)
