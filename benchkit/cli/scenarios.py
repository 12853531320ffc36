"""`benchkit validate`, `fields` and `plan`: scenario files, their fields, and plans of their runs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Any

import typer

from benchkit import units
from benchkit.cli import options
from benchkit.cli.console import print_json, print_table, say, signals_interrupt
from benchkit.errors import BenchkitError, ExitCode, InputError, raise_first

if TYPE_CHECKING:
    from benchkit.plan.model import PlannedCell, RunPlan
    from benchkit.scenario.schema import FilePart

WIDTH = 100
"""Columns that descriptions fill."""
MAX_BLOCKS_SHOWN = 50
"""Blocks whose order is shown."""


def validate(
    scenarios: Annotated[list[str], typer.Argument(metavar="SCENARIO…", help="Names of shipped scenarios, or files.")],
    json: options.Json = False,
) -> None:
    """Validate scenario files at every scale they have; errors name file, line and field."""
    from benchkit.scenario.read import read_experiment, scales_of

    checked: list[tuple[str, str, int]] = []
    faults = []
    for name in scenarios:
        try:
            for scale in scales_of(name):
                experiment = read_experiment(name, scale)
                checked.append((experiment.scenario.name, scale, len(experiment.cells)))
        except InputError as error:
            faults.append(error)
    if json:
        shown = [dict(zip(("scenario", "scale", "cells"), line, strict=True)) for line in checked]
        print_json({"checked": shown, "errors": [str(error) for error in faults]})
    for fault in faults:
        say(str(fault))
    if faults:
        raise typer.Exit(ExitCode.BAD_INPUT)
    if not json:
        for scenario, shown_scale, cells in checked:
            print(f"{scenario} at {shown_scale} scale: {units.counted(cells, 'cell')}, no fault found")


def fields(
    part: Annotated[
        str | None,
        typer.Argument(
            metavar="PART",
            help="load, services, a backend such as nginx, claims, inventory, … [default: the scenario, and the names of all parts]",
            show_default=False,
        ),
    ] = None,
    *,
    schema: Annotated[
        bool, typer.Option("--schema", help="Print the JSON Schema of scenario files, for editors.")
    ] = False,
    json: options.Json = False,
) -> None:
    """Show the fields of a scenario or inventory with type, default, allowed values and an example."""
    from dataclasses import asdict

    from benchkit.scenario.schema import find_part, parts, scenario_schema

    if schema:
        print_json(scenario_schema())
        return
    shown = find_part(part or "scenario")
    if json:
        every = [shown] if part else parts().values()
        print_json([{"part": p.name, "summary": p.summary, "fields": [asdict(f) for f in p.fields]} for p in every])
        return
    _show_part(shown)
    if part is None:
        print("The fields of a part: `benchkit fields PART`. Parts:")
        for each in parts().values():
            print(f"  {each.name:<16} {each.summary.splitlines()[0]}")


def _show_part(part: FilePart) -> None:
    from textwrap import fill

    from benchkit.scenario.schema import as_text

    print(f"{part.name}: {part.summary}\n")
    for field in part.fields:
        default = "required" if field.required else f"default: {as_text(field.default)}"
        print(f"{field.name}: {as_text(field.example)}")
        for text in (field.description, f"{field.type}; {default}"):
            print(fill(text, WIDTH, initial_indent="    ", subsequent_indent="    ", break_long_words=False))
        print()


def plan(
    scenario: options.ScenarioName,
    *,
    inventory: options.InventoryFile = None,
    lab: options.LabName = None,
    scale: options.ScaleName = "lab",
    settings: options.Set = None,
    seed: options.Seed = None,
    profile: options.Profile = False,
    trace: options.Trace = False,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> None:
    """Show cells, order, time and statistical power of a run, and which cells the hosts do not support.

    Changes nothing on the hosts. After a run, `compare` states the difference that its noise allows to detect.
    """
    from benchkit.cli.choices import inventory_of
    from benchkit.comparison.power import design_limits
    from benchkit.hosts.connections import connect_all
    from benchkit.plan.planner import draft_plan
    from benchkit.run.manifest import make_manifest
    from benchkit.scenario.read import read_experiment

    experiment = read_experiment(scenario, scale, options.passes(settings, profile=profile, trace=trace))
    chosen = inventory_of(inventory, lab, quiet=quiet)
    with signals_interrupt(), connect_all(chosen) as hosts:
        size = f"{units.counted(len(experiment.cells), 'cell')}, {units.counted(experiment.scenario.blocks, 'block')}"
        if not quiet:
            say(f"planning {size}")
        run_plan, errors = draft_plan(experiment, hosts, seed)
        limits = design_limits(make_manifest(run_plan, hosts))
    if json:
        print_json({"lab": chosen.lab, **_document(run_plan, errors), "power": limits})
    else:
        _show(run_plan)
        if limits:
            print("\nStatistical power:", *(f"- {limit}" for limit in limits), sep="\n")
    raise_first(errors)


def _document(plan: RunPlan, errors: Sequence[BenchkitError]) -> dict[str, object]:
    def fields(of: object, *names: str) -> dict[str, Any]:
        return {name: getattr(of, name) for name in names}

    return {
        "scenario": plan.experiment.scenario.name,
        "scale": plan.experiment.scale,
        **fields(plan, "seed", "design", "design_reason", "blocks", "seconds", "roles"),
        "cells": [
            {
                **fields(cell, "cell_id", "sysctls", "unsupported"),
                "levels": cell.spec.levels,
                "target": cell.target or None,
                "services": [{**fields(each, "name", "host"), "argv": each.process.argv} for each in cell.services],
                "generators": [fields(each, "number", "host", "argv", "reducer") for each in cell.generators],
                "external": [fields(each, "name", "url") for each in cell.spec.external],
            }
            for cell in plan.cells
        ],
        "order": [fields(trial, "block", "position", "cell_id", "kind") for trial in plan.planned_trials],
        "builds": [fields(build, "program", "target", "hosts") for build in plan.builds],
        "sudo": [fields(each, "host", "when", "argv") for each in plan.sudo],
        "notices": plan.notes,
        "obstacles": [str(error) for error in errors],
    }


def _load(cell: PlannedCell) -> str:
    """Return the load as text: `wrk, 64 connections`, with processes and hosts where there are several."""
    text = f"{cell.load.tool}, {units.counted(cell.load.connections, 'connection')}"
    if cell.load.streams > 1:
        text += f" of {cell.load.streams} streams"
    if len(cell.generators) > 1:
        hosts = units.counted(len({generator.host for generator in cell.generators}), "host")
        text += f" of {units.counted(len(cell.generators), 'process', 'processes')} on {hosts}"
    return text


def _show(plan: RunPlan) -> None:
    from benchkit.cli.display import describe_connections
    from benchkit.models.design import explain

    scenario = plan.experiment.scenario
    print(f"{scenario.name}: {scenario.title}\n{scenario.question.strip()}\n")
    rows = []
    for cell in plan.cells:
        services = [f"{service.name} ({service.backend} on {service.host})" for service in cell.services]
        services += [f"{server.name} (external: {server.url})" for server in cell.spec.external]
        rows.append(
            (
                cell.cell_id,
                ", ".join(services),
                _load(cell),
                f"unsupported: {cell.unsupported}" if cell.unsupported else "yes",
            )
        )
    print_table(("cell", "services", "load", "runnable"), rows)
    print(f"\n{_length(plan)}; seed {plan.seed}")
    print(explain("cell", "block", "stack", *(["slice"] if scenario.design == "sliced" else [])))
    _show_order(plan)
    for title, lines in (
        ("To be built, unless cached", [str(build) for build in plan.builds]),
        ("With sudo", plan.sudo),
        ("External servers", list(describe_connections(plan))),
        ("Notes", plan.notes),
    ):
        if lines:
            print(f"\n{title}:")
            for line in lines:
                print(f"- {line}")


def _length(plan: RunPlan) -> str:
    """Return design, blocks, trials and time: `design blocks, 5 blocks, 10 trials, about 1 min 05 s`."""
    until = plan.experiment.scenario.until
    blocks = units.counted(plan.blocks, "block")
    trials = units.counted(len(plan.planned_trials), "trial")
    time = "of unknown length" if plan.seconds is None else f"about {units.duration(plan.seconds)}"
    if until is not None:
        blocks = f"{until.min_blocks} to {blocks} (until every interval reaches at most {until.precision:.1%})"
        trials, time = f"at most {trials}", f"at most {time.removeprefix('about ')}"
    reason = f" ({plan.design_reason})" if plan.experiment.scenario.design == "sliced" else ""
    return f"design {plan.design}{reason}, {blocks}, {trials}, {time}"


def _show_order(plan: RunPlan) -> None:
    if plan.experiment.scenario.design == "sequential":
        runs = groupby(trial.cell_id for trial in plan.planned_trials)
        print("  " + " → ".join(f"{cell}, {units.counted(len(list(same)), 'trial')}" for cell, same in runs))
        return
    blocks = [(block, list(trials)) for block, trials in groupby(plan.planned_trials, key=lambda trial: trial.block)]
    for block, trials in blocks[:MAX_BLOCKS_SHOWN]:
        kinds = {trial.kind for trial in trials}
        purpose = ", for profiles" if "profile" in kinds else ", for traces" if "trace" in kinds else ""
        print(f"  block {block}{purpose}: " + " → ".join(trial.title for trial in trials))
    if (more := len(blocks) - MAX_BLOCKS_SHOWN) > 0:
        print(f"  … ({more} more blocks; --json lists all trials)")
