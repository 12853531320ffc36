"""`benchkit validate` and `benchkit plan`: what a scenario says, and what it comes to on hosts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from benchkit.cli.options import WITH_PROFILES, InventoryFile, Json, Profile, Scale, ScenarioName, Seed, Set

if TYPE_CHECKING:
    from benchkit.planning.plan import PlannedCell, RunPlan


def validate(
    scenarios: Annotated[list[str], typer.Argument(metavar="SCENARIO…", help="Names of shipped scenarios, or files.")],
    json: Json = False,
) -> None:
    """Check scenario files at every scale they have; errors name file, line and field."""
    from benchkit.cli.console import print_json, say
    from benchkit.errors import InputError
    from benchkit.planning.check import check_experiment
    from benchkit.scenario.read import read_experiment, scales_of

    checked, faults = [], []
    for name in scenarios:
        try:
            for scale in scales_of(name):
                experiment = read_experiment(name, scale)
                check_experiment(experiment)
                checked.append({"scenario": experiment.scenario.name, "scale": scale, "cells": len(experiment.cells)})
        except InputError as error:
            faults.append(error)
    if json:
        print_json({"checked": checked, "errors": [str(error) for error in faults]})
    for fault in faults:
        say(str(fault))
    if faults:
        raise typer.Exit(InputError.exit_code)
    if not json:
        for line in checked:
            print(f"{line['scenario']} at {line['scale']} scale: {line['cells']} cells, no fault found")


def plan(
    scenario: ScenarioName,
    *,
    inventory: InventoryFile = None,
    scale: Scale = "lab",
    settings: Set = None,
    seed: Seed = None,
    profile: Profile = False,
    json: Json = False,
) -> None:
    """Show cells, order and time of a run, and what the hosts cannot carry; changes nothing on them."""
    from benchkit.cli.console import print_json, scale_named
    from benchkit.cli.hosts_of import inventory_of
    from benchkit.hosts.connect import connect_all
    from benchkit.planning.make import make_plan
    from benchkit.scenario.read import read_experiment

    asked = [*(settings or ()), *([WITH_PROFILES] if profile else [])]
    experiment = read_experiment(scenario, scale_named(scale), asked)
    with connect_all(inventory_of(inventory)) as hosts:
        made = make_plan(experiment, hosts, seed)
    if json:
        print_json(_document(made))
    else:
        _show(made)
    for obstacle in made.obstacles:
        raise obstacle


def _document(plan: RunPlan) -> dict[str, object]:
    return {
        "scenario": plan.experiment.scenario.name,
        "scale": plan.experiment.scale,
        "seed": plan.seed,
        "blocks": plan.blocks,
        "seconds": plan.seconds,
        "roles": plan.roles,
        "cells": [
            {
                "cell_id": cell.cell_id,
                "levels": cell.cell.levels,
                "target": cell.target or None,
                "services": [{"name": s.name, "host": s.host, "argv": s.process.argv} for s in cell.services],
                "generators": [
                    {"number": g.number, "host": g.host, "argv": g.argv, "reducer": g.reducer} for g in cell.generators
                ],
                "unsupported": cell.unsupported,
            }
            for cell in plan.cells
        ],
        "order": [
            {"block": slot.block, "position": slot.position, "cell_id": slot.cell_id, "kind": slot.kind}
            for slot in plan.slots
        ],
        "builds": [
            {"program": b.program, "target": b.target, "go_version": b.go_version, "hosts": b.hosts}
            for b in plan.builds
        ],
        "sudo": [list(command) for planned in plan.tuning for command in planned.commands],
        "notices": plan.notices,
        "obstacles": [str(obstacle) for obstacle in plan.obstacles],
    }


def _load(cell: PlannedCell) -> str:
    """`wrk, 64 connections`, and by how many processes where there are several."""
    from benchkit import units

    said = f"{cell.load.tool}, {units.counted(cell.load.connections, 'connection')}"
    hosts = units.counted(len({generator.host for generator in cell.generators}), "host")
    several = len(cell.generators) > 1
    return f"{said} of {units.counted(len(cell.generators), 'process', 'processes')} on {hosts}" if several else said


def _show(plan: RunPlan) -> None:
    from benchkit import units
    from benchkit.cli.console import print_table

    scenario = plan.experiment.scenario
    print(f"{scenario.name}: {scenario.title}\n{scenario.question.strip()}\n")
    print_table(
        ("cell", "services", "load", "here"),
        (
            (
                cell.cell_id,
                ", ".join(f"{service.name} ({service.backend} on {service.host})" for service in cell.services),
                _load(cell),
                f"unsupported: {cell.unsupported}" if cell.unsupported else "yes",
            )
            for cell in plan.cells
        ),
    )
    trials = units.counted(len(plan.slots), "trial")
    time = "of unknown length" if plan.seconds is None else f"about {units.seconds(plan.seconds)}"
    print(f"\n{units.counted(plan.blocks, 'block')}, {trials}, {time}; seed {plan.seed}")
    for block in dict.fromkeys(slot.block for slot in plan.slots):
        slots = [slot for slot in plan.slots if slot.block == block]
        in_pass = ", for profiles" if any(slot.kind == "profile" for slot in slots) else ""
        named = (f"{slot.cell_id} (profiled)" if slot.kind == "profile" else slot.cell_id for slot in slots)
        print(f"  block {block}{in_pass}: " + " → ".join(named))
    for title, lines in (
        ("To be built, unless that was done before", [str(build) for build in plan.builds]),
        ("With sudo", [" ".join(command) for planned in plan.tuning for command in planned.commands]),
        ("To know", plan.notices),
    ):
        if lines:
            print(f"\n{title}:")
            for line in lines:
                print(f"- {line}")
