from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from benchkit.errors import InputError
from benchkit.hosts.connections import connect_all
from benchkit.lab.lab import Lab
from benchkit.run.deployment import down, holder_name, select_cell, up
from benchkit.run.plan.model import PlannedCell, RunPlan
from benchkit.run.plan.planner import make_plan
from benchkit.scenario.read import read_experiment

SCENARIO = """\
name: small
title: Small
question: Which?
factors: {stack: [one, two]}
stacks:
  one: {entry: app, services: {app: {backend: nethttp, listen: 8080}}}
  two: {entry: app, services: {app: {backend: nethttp, listen: 8081}}}
load: {tool: wrk, connections: 4, duration_s: 1}
blocks: 1
"""


def plan(tmp_path: Path, more: str = "", unsupported: Sequence[str] = ()) -> RunPlan:
    """Return a plan without hosts, with the cells `unsupported` marked as unsupported."""
    path = tmp_path / "small.yaml"
    path.write_text(SCENARIO + more)
    experiment = read_experiment(str(path))
    cells = tuple(
        PlannedCell(cell, (), cell.load, (), "", "too small" if cell.cell_id in unsupported else None)
        for cell in experiment.cells
    )
    return RunPlan(experiment, 1, {}, cells, (), (), (), (), frozenset())


def test_select_cell_prefers_the_argument_then_the_scenario_then_the_baseline(tmp_path: Path) -> None:
    assert select_cell(plan(tmp_path)).cell_id == "stack=one"
    assert select_cell(plan(tmp_path, "baseline: {stack: two}\n")).cell_id == "stack=two"
    named = plan(tmp_path, "baseline: {stack: one}\nservice: {stack: two}\n")
    assert select_cell(named).cell_id == "stack=two"
    assert select_cell(named, "stack=one").cell_id == "stack=one"
    assert holder_name(named.experiment) == "service small"


def test_an_unknown_cell_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no cell 'stack=three': did you mean 'stack=two'"):
        select_cell(plan(tmp_path), "stack=three")
    with pytest.raises(InputError, match=r"service\.stack: found three; levels of stack: one, two"):
        plan(tmp_path, "service: {stack: three}\n")


def test_an_unsupported_cell_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="stack=two: too small"):
        select_cell(plan(tmp_path, unsupported=["stack=two"]), "stack=two")


TUNED = """\
tuning: [{profile: nginx-vs-go, roles: [sut]}]
"""


@pytest.mark.lab
def test_up_tunes_hosts_that_another_run_had_tuned_while_planning(lab: Lab, tmp_path: Path) -> None:
    path, key = tmp_path / "small.yaml", "net.core.somaxconn"
    path.write_text(SCENARIO + TUNED)
    experiment = read_experiment(str(path))
    with connect_all(lab.inventory()) as hosts:
        before = hosts["sut"].changes.read([key])[key].value
        with connect_all(lab.inventory()) as others:
            others.hold("r1")
            others["sut"].changes.write({key: "65535"})
            planned = make_plan(experiment, hosts)
        assert hosts["sut"].changes.read([key])[key].value == before != "65535"
        up(planned, select_cell(planned), hosts, lambda _: None)
    with connect_all(lab.inventory()) as hosts:
        while_up = hosts["sut"].changes.read([key])[key].value
        assert down(experiment, hosts) == ("sut",)
        assert (while_up, hosts["sut"].changes.read([key])[key].value) == ("65535", before)
