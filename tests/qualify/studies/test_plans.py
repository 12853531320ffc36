"""Plans of the shipped scenarios: at lab scale, at the scale of their studies, and by the commands on their pages."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

import pytest

from benchkit.files import shipped
from benchkit.hosts.connections import Hosts, connect_all
from benchkit.lab.lab import Lab
from benchkit.models.design import is_original
from benchkit.plan.planner import make_plan
from benchkit.scenario.read import read_experiment
from tests.support.cli.fixtures import Cli
from tests.support.studies.pages import commands
from tests.support.studies.study import RecordedStudy, read_studies

ELSEWHERE = ("go-module-proxy", "go-module-requests", "go-releases", "node-releases", "nginx-upstream-default")
"""Scenarios that need a lab of four hosts, or build releases of other software for minutes."""
NAMES = sorted({path.stem for path in shipped("scenarios").glob("*.yaml")} - set(ELSEWHERE))
STUDIES = read_studies()


@pytest.fixture(scope="module")
def hosts(lab: Lab) -> Iterator[Hosts]:
    with connect_all(lab.inventory()) as connected:
        yield connected


@pytest.mark.parametrize("name", NAMES)
def test_a_shipped_scenario_can_be_planned(name: str, hosts: Hosts) -> None:
    plan = make_plan(read_experiment(name), hosts)
    assert plan.experiment.scale == "lab"
    assert plan.blocks >= 6  # fewer cannot show a difference
    measured = [trial.cell_id for trial in plan.planned_trials if trial.kind == "measure"]
    supported = {cell.cell_id for cell in plan.cells if cell.unsupported is None}
    assert supported
    assert sorted(set(measured)) == sorted(filter(is_original, supported))
    assert len(measured) == plan.blocks * len(set(measured))


def test_published_scales_can_be_planned(hosts: Hosts) -> None:
    """Plan each study at the scale `paper`, of which a lab supports few cells."""
    for name in NAMES:
        experiment = read_experiment(name, "paper")
        planned = {cell.cell_id: cell for cell in make_plan(experiment, hosts).cells}
        assert planned.keys() >= {cell.cell_id for cell in experiment.cells}
        assert all(cell.unsupported or (cell.services and cell.generators) for cell in planned.values())


@pytest.mark.parametrize("recorded", STUDIES.values(), ids=STUDIES)
def test_the_commands_of_a_page_can_be_planned_as_they_are_printed(recorded: RecordedStudy, cli: Cli) -> None:
    lab_up, *runs = (shlex.split(command)[1:] for command in commands(recorded.study))
    assert [words[:2] for words in runs] == [["run", name] for name in recorded.study.scenarios]
    try:
        assert lab_up[:2] == ["lab", "up"]
        assert cli(*lab_up).code == 0
        for _, *words in runs:
            # To plan it, npm fetches three releases of Node, which can take minutes.
            planned = cli("validate" if words == ["node-releases"] else "plan", *words)
            assert planned.code == 0, planned.err
    finally:
        assert cli("lab", "down").code == 0
