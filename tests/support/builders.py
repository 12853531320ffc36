"""Builders of valid scenarios, experiments and plans, whose fields tests replace by keyword.

    scenario(blocks=3, load=load(rate=100))    a scenario as data
    write_scenario(tmp_path, blocks=3)         its YAML file, one top-level field per line in the order of `scenario`
    read_scenario(tmp_path, blocks=3)          the experiment read from that file: messages name its lines
    experiment(blocks=3)                       an experiment without a file
    planned_cells(experiment(), one="full")    its cells on hosts that support all of them but those of stack `one`
    run_plan(experiment(), seed=7)             a plan of it on no hosts
    manifest(cells=cells({"stack": "one"}))    the manifest of an unfinished run of these cells

The default scenario has one stack, `one`, with a single `nethttp` server called `app` on port 8080, and 2 blocks of wrk
for 1 s. `stacks(one={}, two={"listen": 8081})` gives several stacks of such a server; a scenario of several stacks also
needs `factors={"stack": ["one", "two"]}`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchkit.models import Scale
from benchkit.models.base import Levels, cell_id
from benchkit.models.run import CellRecord, Manifest
from benchkit.plan.model import PlannedCell, RunPlan
from benchkit.scenario.experiment import Experiment
from benchkit.scenario.read import read_experiment, stored_experiment

Fields = dict[str, Any]
"""Fields of a scenario, as YAML has them."""


def stack(**options: object) -> Fields:
    """Return a stack of one server, `app`, with these options."""
    return {"entry": "app", "services": {"app": {"backend": "nethttp", "listen": 8080, **options}}}


def stacks(**options: Fields) -> Fields:
    """Return stacks of one server each, by name, each with its options."""
    return {name: stack(**fields) for name, fields in options.items()}


def load(**fields: object) -> Fields:
    """Return a load of 4 connections for 1 s by wrk, with these fields replaced."""
    return {"tool": "wrk", "connections": 4, "duration_s": 1, **fields}


def scenario(**fields: object) -> Fields:
    """Return the default scenario with these fields replaced; new ones follow in the order given."""
    defaults = {"name": "small", "title": "Small", "question": "Which?", "stacks": stacks(one={}), "load": load()}
    return {**defaults, "blocks": 2, **fields}


def write_scenario(folder: Path, **fields: object) -> Path:
    """Write a scenario to the file named after it."""
    data = scenario(**fields)
    path = folder / f"{data['name']}.yaml"
    path.write_text("".join(f"{field}: {json.dumps(value)}\n" for field, value in data.items()))
    return path


def read_scenario(folder: Path, scale: Scale = "lab", settings: Sequence[str] = (), **fields: object) -> Experiment:
    """Write a scenario and read it as an experiment."""
    return read_experiment(str(write_scenario(folder, **fields)), scale, settings)


def experiment(**fields: object) -> Experiment:
    """Return the experiment of a scenario at the scale `lab`."""
    return stored_experiment(scenario(**fields), "small.yaml", "lab")


def planned_cells(experiment: Experiment, **unsupported: str) -> tuple[PlannedCell, ...]:
    """Return the cells without services or generators; `unsupported` has the reason for a stack's cells."""
    return tuple(
        PlannedCell(
            spec=cell,
            services=(),
            load=cell.load,
            generators=(),
            target="",
            unsupported=unsupported.get(str(cell.levels.get("stack"))),
        )
        for cell in experiment.cells
    )


def run_plan(experiment: Experiment, **fields: Any) -> RunPlan:  # noqa: ANN401 - fields of RunPlan
    """Return a plan of the experiment without trials and hosts, with these fields replaced."""
    plan = RunPlan(
        experiment=experiment,
        seed=1,
        roles={},
        cells=planned_cells(experiment),
        planned_trials=(),
        notes=(),
        tuning=(),
        tuning_required=frozenset(),
    )
    return replace(plan, **fields)


def cells(*levels: Levels) -> tuple[CellRecord, ...]:
    """Return the cells of these levels as a manifest has them."""
    return tuple(CellRecord(cell_id=cell_id(each), levels=each) for each in levels)


def manifest(**fields: Any) -> Manifest:  # noqa: ANN401 - fields of Manifest
    """Return the manifest of a run of one block without cells and hosts, with these fields replaced."""
    defaults = {
        "run_id": "r1",
        "scenario": {"name": "small", "title": "Small"},
        "scale": "lab",
        "seed": 1,
        "blocks": 1,
        "cells": (),
        "hosts": (),
        "versions": {},
        "started_at": datetime(2026, 1, 1, tzinfo=UTC),
    }
    return Manifest(**{**defaults, **fields})
