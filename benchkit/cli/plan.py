"""`benchkit plan`: what a scenario comes to on hosts, and what its design will show."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from benchkit.cli.options import (
    WITH_PROFILES,
    InventoryFile,
    Json,
    Profile,
    Quiet,
    Scale,
    ScenarioName,
    Seed,
    Set,
    StoreFolder,
)

if TYPE_CHECKING:
    from pathlib import Path

    from benchkit.analysis.power import PowerAnalysis
    from benchkit.hosts.connections import Hosts
    from benchkit.run.plan.model import PlannedCell, RunPlan

_LISTED = 12
"""So many ratios are shown one by one; of more the one that is known best and the one that is known least."""


def plan(
    scenario: ScenarioName,
    *,
    inventory: InventoryFile = None,
    scale: Scale = "lab",
    settings: Set = None,
    seed: Seed = None,
    profile: Profile = False,
    pilot: Annotated[
        bool, typer.Option("--pilot", help="Run a few short trials of two cells, to learn the noise of these hosts.")
    ] = False,
    store: StoreFolder = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Show cells, order and time of a run, what its design will show, and what the hosts cannot carry.

    Changes nothing on them. Which difference will be shown follows from the noise of earlier runs in the store, or of a
    pilot, which puts a little load on the hosts.
    """
    from benchkit.cli.console import print_json, scale_named
    from benchkit.cli.inventory_choice import inventory_of
    from benchkit.cli.signals import signals_interrupt
    from benchkit.hosts.connections import connect_all
    from benchkit.results.store import store_path
    from benchkit.run.plan.planner import make_plan
    from benchkit.scenario.read import read_experiment

    asked = [*(settings or ()), *([WITH_PROFILES] if profile else [])]
    experiment = read_experiment(scenario, scale_named(scale), asked)
    where = store_path(store)
    with signals_interrupt(), connect_all(inventory_of(inventory)) as hosts:
        made = make_plan(experiment, hosts, seed)
        foreseen = _foreseen(made, hosts, where, pilot=pilot and not made.obstacles, quiet=quiet)
    if json:
        print_json({**_document(made), "foresight": foreseen.model_dump(mode="json")})
    else:
        _show(made)
        _show_foresight(foreseen, made, where, pilot=pilot)
    for obstacle in made.obstacles:
        raise obstacle


def _foreseen(made: RunPlan, hosts: Hosts, store: Path, *, pilot: bool, quiet: bool) -> PowerAnalysis:
    """What the design will show: by a pilot where one is asked for, else by earlier runs."""
    from benchkit.analysis.power import analyse_power, earlier_runs
    from benchkit.results.store import Store
    from benchkit.run.manifest import make_manifest

    planned = make_manifest(made, hosts)
    block_s = None if made.seconds is None else made.seconds / made.blocks
    if not pilot:
        runs = earlier_runs(Store(store), planned)
        return analyse_power(planned, runs, [run.manifest.run_id for run in runs], block_s=block_s)
    from benchkit.cli.progress import display
    from benchkit.run.pilot import plan_pilot, run_pilot

    piloted = plan_pilot(made.experiment, planned, hosts)
    with display(piloted, hosts, quiet=quiet) as watcher:
        return analyse_power(planned, [run_pilot(piloted, hosts, watcher)], ["the pilot"], block_s=block_s)


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
            {
                "block": planned_trial.block,
                "position": planned_trial.position,
                "cell_id": planned_trial.cell_id,
                "kind": planned_trial.kind,
            }
            for planned_trial in plan.planned_trials
        ],
        "builds": [
            {"program": b.program, "target": b.target, "go_version": b.go_version, "hosts": b.hosts}
            for b in plan.builds
        ],
        "sudo": [{"host": each.host, "when": each.when, "argv": each.argv} for each in plan.sudo],
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
    print(f"\n{_length(plan)}; seed {plan.seed}")
    _show_order(plan)
    for title, lines in (
        ("To be built, unless that was done before", [str(build) for build in plan.builds]),
        ("With sudo", plan.sudo),
        ("To know", plan.notices),
    ):
        if lines:
            print(f"\n{title}:")
            for line in lines:
                print(f"- {line}")


def _length(plan: RunPlan) -> str:
    """Design, blocks, trials and time: `design blocks, 5 blocks, 10 trials, about 65.0 s`."""
    from benchkit import units

    until = plan.experiment.scenario.until
    blocks = units.counted(plan.blocks, "block")
    trials = units.counted(len(plan.planned_trials), "trial")
    time = "of unknown length" if plan.seconds is None else f"about {units.seconds(plan.seconds)}"
    if until is not None:
        blocks = f"{until.min_blocks} to {blocks} (until every interval reaches at most {until.precision:.1%})"
        trials, time = f"at most {trials}", f"at most {time.removeprefix('about ')}"
    return f"design {plan.experiment.scenario.design}, {blocks}, {trials}, {time}"


def _show_order(plan: RunPlan) -> None:
    from itertools import groupby

    from benchkit import units

    if plan.experiment.scenario.design == "sequential":
        runs = [
            (cell, len(list(same)))
            for cell, same in groupby(planned_trial.cell_id for planned_trial in plan.planned_trials)
        ]
        print("  " + " → ".join(f"{cell}, {units.counted(times, 'trial')}" for cell, times in runs))
        return
    for block in dict.fromkeys(planned_trial.block for planned_trial in plan.planned_trials):
        planned_trials = [planned_trial for planned_trial in plan.planned_trials if planned_trial.block == block]
        in_pass = ", for profiles" if any(planned_trial.kind == "profile" for planned_trial in planned_trials) else ""
        named = (planned_trial.title for planned_trial in planned_trials)
        print(f"  block {block}{in_pass}: " + " → ".join(named))


def _show_foresight(found: PowerAnalysis, plan: RunPlan, store: Path, *, pilot: bool) -> None:
    """Which differences the design will show, or why that is not known."""
    from benchkit.cli.console import print_table

    if not found.ratios:
        return
    print("\nWhat it will show:")
    for limit in dict.fromkeys(ratio.resolution.limits for ratio in found.ratios if ratio.resolution.limits):
        print(f"- {limit}")
    if not found.noise_from:
        if pilot:
            print("- Of what size is not known: too few trials of the pilot count, and verdicts void the others.")
        else:
            print(
                f"- Of what size is not known: no run like this one in {store} tells. `plan --pilot` learns the noise."
            )
        return
    once = {(ratio.metric, ratio.cell_id, ratio.baseline): ratio for ratio in reversed(found.ratios)}
    ratios = [ratio for ratio in found.ratios if ratio in once.values()]  # a claim may be about one of the others
    known = sorted(ratios, key=lambda ratio: ratio.resolution.noise_sd or 0)
    listed = ratios if len(known) <= _LISTED else (known[0], known[-1])
    blocks = {(ratio.with_more or ratio.resolution).blocks for ratio in listed} - {plan.blocks}
    after = f", with {min(blocks)} blocks" if blocks else ""
    print(f"- By the noise of {', '.join(found.noise_from)}{after}, in 80 % of runs:")
    print_table(
        ("ratio", "metric", "difference shown from", "interval reaches"),
        (
            (
                f"{ratio.cell_id} over {ratio.baseline}",
                ratio.metric,
                _reach((ratio.with_more or ratio.resolution).detectable),
                _reach((ratio.with_more or ratio.resolution).half_width),
            )
            for ratio in listed
        ),
        right=(2, 3),
    )
    if len(listed) < len(known):
        print(f"  (of {len(known)} ratios the one known best and the one known least)")
    if found.blocks_expected is not None:
        early = found.blocks_expected < plan.blocks
        print(f"- It will take {f'about {found.blocks_expected}' if early else 'all'} of its {plan.blocks} blocks.")


def _reach(ratio: float | None) -> str:
    """How far a ratio is from one."""
    from benchkit import units

    return units.ABSENT if ratio is None else f"{ratio - 1:.1%}"
