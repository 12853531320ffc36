"""`benchkit service`: a scenario's stack kept up on its hosts, without load."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from benchkit.cli.choices import inventory_of
from benchkit.cli.console import print_json, print_table, say, signals_interrupt
from benchkit.cli.options import InventoryFile, Json, LabName, Quiet, ScaleName, ScenarioName, Set
from benchkit.errors import ExitCode, raise_first

if TYPE_CHECKING:
    from benchkit.hosts.connections import Hosts
    from benchkit.hosts.inventory import Inventory
    from benchkit.plan.model import PlannedCell, RunPlan
    from benchkit.run.deployment import ServiceStatus
    from benchkit.scenario.experiment import Experiment

app = typer.Typer(help="Keep a scenario's stack up on its hosts, without load.", no_args_is_help=True)

Cell = Annotated[
    str | None,
    typer.Option(
        "--cell", help="Cell whose stack to deploy.", show_default="the one that the scenario names, else its baseline"
    ),
]


@app.command()
def up(
    scenario: ScenarioName,
    *,
    inventory: InventoryFile = None,
    lab: LabName = None,
    scale: ScaleName = "lab",
    settings: Set = None,
    cell: Cell = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Deploy the stack, verify it with its clients, and leave it up until `service down`."""
    from benchkit.run import deployment
    from benchkit.scenario.read import read_experiment

    experiment = read_experiment(scenario, scale, settings or ())
    chosen = inventory_of(inventory, lab, quiet=quiet)
    with _connected(experiment, chosen, cell, is_to_run=True) as (plan, planned, hosts):
        others = [cell.cell_id for cell in plan.cells if cell.unsupported is None and cell is not planned]
        if not quiet:
            choice = f"; --cell chooses another, such as {others[0]}" if others else ""
            say(f"the stack of cell {planned.cell_id}{choice}")
        deployment.up(plan, planned, hosts, (lambda _: None) if quiet else say)
        instructions = [instruction for service in planned.services for instruction in service.instructions]
        statuses = deployment.status(plan.experiment, planned, hosts)
    if json:
        shown = [{"what": instruction.what, "value": instruction.value} for instruction in instructions]
        print_json({**_document(plan.experiment, planned, statuses, hosts), "guidance": shown})
        return
    if not quiet:
        _print_statuses(statuses)
    for instruction in instructions:
        print(f"\n{instruction.what}:\n  {instruction.value}")


@app.command()
def status(
    scenario: ScenarioName,
    *,
    inventory: InventoryFile = None,
    lab: LabName = None,
    scale: ScaleName = "lab",
    settings: Set = None,
    cell: Cell = None,
    json: Json = False,
) -> None:
    """Show which services of the stack are up; exit code 1 if one of them is not."""
    from benchkit.run import deployment
    from benchkit.scenario.read import read_experiment

    experiment = read_experiment(scenario, scale, settings or ())
    with _connected(experiment, inventory_of(inventory, lab), cell, is_to_run=False) as (plan, planned, hosts):
        statuses = deployment.status(plan.experiment, planned, hosts)
    if json:
        print_json(_document(plan.experiment, planned, statuses, hosts))
    else:
        _print_statuses(statuses)
    if not all(service.is_up for service in statuses):
        raise typer.Exit(ExitCode.FAILED)


@app.command()
def down(
    scenario: ScenarioName,
    *,
    inventory: InventoryFile = None,
    lab: LabName = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Take the stack down and restore its hosts; does nothing if it is not up.

    Needs no more of the scenario than its name: the file may have changed since `up`.
    """
    from benchkit.hosts.connections import connect_all
    from benchkit.run import deployment
    from benchkit.scenario.read import scenario_name

    name = scenario_name(scenario)
    chosen = inventory_of(inventory, lab, quiet=quiet)
    with signals_interrupt(), connect_all(chosen) as hosts:
        released = deployment.take_down(deployment.holder_name(name), hosts)
    if json:
        print_json({"scenario": name, "lab": chosen.lab, "up": False, "hosts": released})
    elif not quiet:
        down_on = f"{deployment.holder_name(name)} is down on {', '.join(released)}"
        say(down_on if released else f"{deployment.holder_name(name)} is not up")


@contextmanager
def _connected(
    experiment: Experiment, inventory: Inventory, cell: str | None, *, is_to_run: bool
) -> Iterator[tuple[RunPlan, PlannedCell, Hosts]]:
    """Connect to the hosts; yield the plan, the selected cell and the hosts.

    With `is_to_run`, raises the first error that prevents a run.
    """
    from benchkit.hosts.connections import connect_all
    from benchkit.plan.planner import draft_plan
    from benchkit.run import deployment

    with signals_interrupt(), connect_all(inventory) as hosts:
        plan, errors = draft_plan(experiment, hosts)
        if is_to_run:
            raise_first(errors)
        yield plan, deployment.select_cell(plan, cell), hosts


def _document(
    experiment: Experiment, cell: PlannedCell, statuses: Sequence[ServiceStatus], hosts: Hosts
) -> dict[str, Any]:
    return {
        "scenario": experiment.scenario.name,
        "lab": hosts.inventory.lab,
        "cell_id": cell.cell_id,
        "up": all(each.is_up for each in statuses),
        "services": [
            {
                "name": each.service.name,
                "backend": each.service.backend,
                "host": each.service.host,
                "listens_on": each.service.endpoint.authority,
                "kept": each.is_held,
                "listens": each.is_listening,
            }
            for each in statuses
        ],
    }


def _print_statuses(statuses: Sequence[ServiceStatus]) -> None:
    rows = []
    for each in statuses:
        service = each.service
        text = "listening, but its host is not held for this stack" if each.is_listening else "not up"
        shown = "up" if each.is_up else text
        rows.append((service.name, service.backend, service.host, service.endpoint.authority, shown))
    print_table(("service", "kind", "host", "address", ""), rows)
