"""A pilot: a few short trials of two cells, by which a plan knows the noise of its hosts before it runs."""

from __future__ import annotations

import tempfile
from pathlib import Path

from benchkit.analysis.power import planned_ratios
from benchkit.analysis.run_data import RunData, read_run_data
from benchkit.errors import InputError
from benchkit.hosts.connections import Hosts
from benchkit.models.design import design_of
from benchkit.models.run import Manifest
from benchkit.results.store import Store
from benchkit.run.events import RunObserver
from benchkit.run.loop import execute
from benchkit.run.plan.model import RunPlan
from benchkit.run.plan.planner import make_plan
from benchkit.scenario.experiment import Experiment
from benchkit.scenario.read import varied

BLOCKS = 5
"""From which the noise is known to a factor of 1.6, with a confidence of 80 % (chi-squared on four degrees of freedom)."""

LONGEST_S = 5
"""Of a window. Noise falls with longer ones, so that a pilot promises less than a run of longer windows keeps."""


def plan_pilot(experiment: Experiment, planned: Manifest, hosts: Hosts) -> RunPlan:
    """The pilot of a planned run: the first ratio that it asks for.

    Raises InputError where it asks for none, and for a sequential design, of which no noise tells what it will show.
    """
    if design_of(planned.scenario) == "sequential":
        raise InputError(
            "a pilot tells nothing of a sequential design",
            where=experiment.scenario.name,
            why="drift is not in what it shows of its noise",
            hint="use design: blocks",
        )
    pair = next((pair for _, pair, _ in planned_ratios(planned)), None)
    if pair is None:
        raise InputError("a pilot needs two cells to compare", where=experiment.scenario.name)
    levels = {cell.cell_id: dict(cell.levels) for cell in planned.cells}
    window_s = experiment.scenario.load.get("duration_s")
    changes: dict[str, object] = {
        "cells": [levels[pair.baseline], levels[pair.cell_id]],
        "exclude": [],
        "baseline": levels[pair.baseline],
        "design": "blocks",
        "control": [],
        "blocks": BLOCKS,
        "until": None,
        "profile": None,
        "claims": [],
    }
    if isinstance(window_s, int | float) and window_s > LONGEST_S:
        changes["load"] = {"duration_s": LONGEST_S}
    return make_plan(varied(experiment, changes, "--pilot"), hosts)


def run_pilot(plan: RunPlan, hosts: Hosts, observer: RunObserver) -> RunData:
    """Carry out a pilot, which leaves nothing in any store. Raises HostError."""
    with tempfile.TemporaryDirectory(prefix="benchkit-pilot-") as folder:
        store = Store(Path(folder))
        return read_run_data(store, execute(plan, hosts, store, observer).run)
