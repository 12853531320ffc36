"""Pilots: a few short trials of two cells, from which a plan learns the noise of its hosts before the run."""

from __future__ import annotations

import tempfile
from pathlib import Path

from benchkit.comparison.power import planned_ratios
from benchkit.comparison.runs.run_data import RunData, read_run_data
from benchkit.errors import InputError
from benchkit.hosts.connections import Hosts
from benchkit.models.design import design_of
from benchkit.models.run import Manifest
from benchkit.run.events import Show
from benchkit.run.run import RunOptions, execute, open_run
from benchkit.scenario.experiment import Experiment
from benchkit.scenario.read import vary_experiment
from benchkit.store.store import Store

BLOCKS = 5
"""Number of blocks. They estimate the noise within a factor of 1.6 at 80 % confidence (chi-squared, four degrees of
freedom)."""

MAX_WINDOW_S = 5
"""Longest measured window. Longer windows have less noise, so a pilot does not underestimate the noise of the run."""


def pilot_experiment(experiment: Experiment, planned: Manifest) -> Experiment:
    """Return the experiment of a pilot for a planned run: its first ratio alone.

    Raises InputError where the run has no ratio, and for a sequential design, whose drift the noise does not show.
    """
    if design_of(planned.scenario) == "sequential":
        raise InputError(
            "a pilot cannot predict a sequential design",
            where=experiment.scenario.name,
            why="its error is drift, which the noise between trials does not show",
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
        "design": "sliced" if design_of(planned.scenario) == "sliced" else "blocks",
        "control": [],
        "blocks": BLOCKS,
        "until": None,
        "profile": None,
        "trace": None,
        "claims": [],
    }
    if isinstance(window_s, int | float) and window_s > MAX_WINDOW_S:
        changes["load"] = {"duration_s": MAX_WINDOW_S}
    return vary_experiment(experiment, changes, "--pilot")


def run_pilot(experiment: Experiment, planned: Manifest, hosts: Hosts, show: Show) -> RunData:
    """Run a pilot for a planned run, in a temporary store, and return its data.

    Raises HostError, and the errors of `pilot_experiment` and `open_run`.
    """
    pilot = pilot_experiment(experiment, planned)
    with tempfile.TemporaryDirectory(prefix="benchkit-pilot-") as folder:
        store = Store(Path(folder))
        with open_run(pilot, hosts, store, RunOptions(), show) as run:
            return read_run_data(store, execute(run, show).run)
