"""Comparisons of load tools on hosts that lack the program of one."""

from __future__ import annotations

from benchkit.hosts.connections import connect_all
from benchkit.hosts.inventory import Inventory
from benchkit.lab.lab import Lab
from benchkit.loadtools.registry import TOOLS
from benchkit.plan.planner import draft_plan
from benchkit.scenario.read import read_experiment

NOWHERE = "/opt/none/program"


def without(inventory: Inventory, program: str) -> Inventory:
    """Return the inventory with a load host that lacks the program: no file is at the path that it names."""
    hosts = tuple(
        host.model_copy(update={"programs": {program: NOWHERE}}) if "load" in host.roles else host
        for host in inventory.hosts
    )
    return inventory.model_copy(update={"hosts": hosts})


def test_a_comparison_runs_without_the_tools_that_a_load_host_lacks(lab: Lab) -> None:
    with connect_all(without(lab.inventory(), "oha")) as hosts:
        plan, errors = draft_plan(read_experiment("tool-agreement", "smoke"), hosts)
    assert errors == []
    unsupported = {cell.load.tool: cell.unsupported for cell in plan.cells if cell.unsupported is not None}
    assert unsupported.keys() == {"oha"}
    assert unsupported["oha"].startswith("oha is missing on load: ")
    assert len(plan.cells) == len(TOOLS)


def test_a_comparison_needs_the_tool_of_its_baseline(lab: Lab) -> None:
    with connect_all(without(lab.inventory(), "wrk")) as hosts:
        _, errors = draft_plan(read_experiment("tool-agreement", "smoke"), hosts)
    assert "wrk is missing" in [error.what for error in errors]
