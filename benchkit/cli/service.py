"""`benchkit service`: a scenario's stack kept up on its hosts, without load."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from benchkit.cli.options import InventoryFile, Json, Quiet, Scale, ScenarioName, Set

if TYPE_CHECKING:
    from benchkit.hosts.connections import Hosts
    from benchkit.run.deployment import ServiceStatus
    from benchkit.run.plan.model import PlannedCell, RunPlan
    from benchkit.scenario.experiment import Experiment

app = typer.Typer(help="A scenario's stack kept up on its hosts, without load.", no_args_is_help=True)

Cell = Annotated[
    str | None, typer.Option("--cell", help="Whose stack; left out: the one that the scenario names, or its baseline.")
]


@app.command()
def up(
    scenario: ScenarioName,
    *,
    inventory: InventoryFile = None,
    scale: Scale = "lab",
    settings: Set = None,
    cell: Cell = None,
    apply: Annotated[
        bool, typer.Option("--apply", help="Have the clients' go command keep its settings, until the service goes.")
    ] = False,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Deploy the stack, have its clients prove it, and leave it up until it is told to go."""
    from benchkit.cli.console import print_json, say
    from benchkit.run import deployment

    with _planned(scenario, inventory, scale, settings, cell) as (plan, chosen, hosts):
        deployment.up(plan, chosen, hosts, (lambda _: None) if quiet else say, apply=apply)
        guidance = [each for made in chosen.services for each in made.guidance]
        standing = deployment.status(plan.experiment, chosen, hosts)
    if json:
        told = [{"what": each.what, "value": each.value} for each in guidance]
        print_json({**_document(plan.experiment, chosen, standing), "guidance": told})
        return
    if not quiet:
        _show(standing)
    for each in guidance:
        print(f"\n{each.what}:\n  {each.value}")


@app.command()
def status(
    scenario: ScenarioName,
    *,
    inventory: InventoryFile = None,
    scale: Scale = "lab",
    settings: Set = None,
    cell: Cell = None,
    json: Json = False,
) -> None:
    """Show which services of the stack are up; exit code 1 where one of them is not."""
    from benchkit.cli.console import print_json
    from benchkit.run import deployment

    with _planned(scenario, inventory, scale, settings, cell) as (plan, chosen, hosts):
        standing = deployment.status(plan.experiment, chosen, hosts)
    if json:
        print_json(_document(plan.experiment, chosen, standing))
    else:
        _show(standing)
    if not all(each.is_held and each.is_listening for each in standing):
        raise typer.Exit(1)


@app.command()
def down(
    scenario: ScenarioName,
    *,
    inventory: InventoryFile = None,
    scale: Scale = "lab",
    settings: Set = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Take the stack down and put its hosts back; fine where it is not up."""
    from benchkit.cli.console import print_json, say, scale_named
    from benchkit.cli.inventory_choice import inventory_of
    from benchkit.cli.signals import signals_interrupt
    from benchkit.hosts.connections import connect_all
    from benchkit.run import deployment
    from benchkit.scenario.read import read_experiment

    experiment = read_experiment(scenario, scale_named(scale), settings or ())
    with signals_interrupt(), connect_all(inventory_of(inventory)) as hosts:
        were = deployment.down(experiment, hosts)
    if json:
        print_json({"scenario": experiment.scenario.name, "up": False, "hosts": were})
    elif not quiet:
        say(f"taken down on {', '.join(were)}" if were else f"{deployment.holder_name(experiment)} is not up")


@contextmanager
def _planned(
    scenario: str, inventory: Path | None, scale: str, settings: list[str] | None, cell: str | None
) -> Iterator[tuple[RunPlan, PlannedCell, Hosts]]:
    """The plan, the cell whose stack is meant, and its hosts connected."""
    from benchkit.cli.console import scale_named
    from benchkit.cli.inventory_choice import inventory_of
    from benchkit.cli.signals import signals_interrupt
    from benchkit.hosts.connections import connect_all
    from benchkit.run import deployment
    from benchkit.run.plan.planner import make_plan
    from benchkit.scenario.read import read_experiment

    experiment = read_experiment(scenario, scale_named(scale), settings or ())
    with signals_interrupt(), connect_all(inventory_of(inventory)) as hosts:
        plan = make_plan(experiment, hosts)
        yield plan, deployment.select_cell(plan, cell), hosts


def _document(experiment: Experiment, cell: PlannedCell, standing: Sequence[ServiceStatus]) -> dict[str, Any]:
    return {
        "scenario": experiment.scenario.name,
        "cell_id": cell.cell_id,
        "up": all(each.is_held and each.is_listening for each in standing),
        "services": [
            {
                "name": each.service.name,
                "backend": each.service.backend,
                "host": each.service.host,
                "listens_on": each.service.endpoint.authority,
                "kept": each.is_held,
                "listens": each.is_listening,
            }
            for each in standing
        ],
    }


def _show(standing: Sequence[ServiceStatus]) -> None:
    from benchkit.cli.console import print_table

    print_table(
        ("service", "kind", "host", "address", ""),
        (
            (
                each.service.name,
                each.service.backend,
                each.service.host,
                each.service.endpoint.authority,
                "up"
                if each.is_held and each.is_listening
                else "listens, but is not kept"
                if each.is_listening
                else "not up",
            )
            for each in standing
        ),
    )
