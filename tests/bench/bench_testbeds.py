"""A run on two testbeds compared with the same run on one: cells, ratios, overhead, and the speed-up on paper."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import pandas as pd
import pytest

import benchkit
from benchkit.comparison.compare import compare
from benchkit.comparison.ratios import Ratio
from benchkit.comparison.testbed_effect import effects_of_testbeds, find_testbeds
from benchkit.hosts.connections import connect_all
from benchkit.hosts.inventory import Inventory
from benchkit.lab.lab import Lab, down, up
from benchkit.lab.spec import parse_shape
from benchkit.models.metrics import CPU
from benchkit.scenario.experiment import Experiment
from benchkit.stats.samples import take_samples
from tests.bench.real_runs import interval, run_once, table
from tests.support.builders import experiment, load, stacks

BLOCKS = 16
CELLS = 3
RATE = 300
"""Requests per second: so few that two testbeds fit on two cores, and one does not slow the other down."""
WORK = "loop:1000000"
"""Work of a request, so that the CPU time of a trial is many of the 10 ms in which the kernel counts it."""
FOREIGN_CORES = 0.6
"""CPU time of others that the runs permit: on shared cores the other testbed is what `noisy-host` is meant to find."""
LIMIT = 1.25
"""Largest ratio of the overhead of a trial on one of two testbeds to that on a single one, on shared cores."""
PAPER_S = 60.0
"""Warm-up and window of a trial at paper scale, for the speed-up on paper."""


@dataclass(frozen=True)
class Measured:
    """One run."""

    trials: pd.DataFrame
    ratios: dict[str, Ratio]
    trials_s: float
    """Time from the start of the first trial to the end of the last."""

    @property
    def overhead_s(self) -> float:
        return float(median(self.trials["overhead_s"]))


def compared() -> Experiment:
    """Return two servers and a control of the first, at a rate that they reach easily."""
    return experiment(
        stacks=stacks(go={"listen": 18080, "work": WORK}, fast={"listen": 18080, "work": WORK, "backend": "fasthttp"}),
        factors={"stack": ["go", "fast"]},
        baseline={"stack": "go"},
        control=[{"stack": "go"}],
        load=load(tool="h2load", connections=4, rate=RATE, duration_s=1, warmup_s=0.5),
        thresholds={"foreign_cores": FOREIGN_CORES},
        blocks=BLOCKS,
    )


@pytest.fixture(scope="module")
def rack() -> Iterator[Lab]:
    """Two testbeds of two hosts each."""
    made = up(parse_shape(f"bench-rack-{os.getpid()}", [], [], shared=False, testbeds=2), temporary=True)
    try:
        yield made
    finally:
        down(made.name)


def measure(inventory: Inventory, store: Path) -> Measured:
    """Run the experiment on the hosts of an inventory."""
    with connect_all(inventory) as hosts:
        run_id = run_once(store, compared(), hosts)
    trials = benchkit.load("trials", store=store, run_id=run_id)
    trials = trials[trials["block"] > 1]  # the first block also fills the hosts' caches
    ended = trials["started_at"] + pd.to_timedelta(trials["overhead_s"] + trials["duration_s"] + 0.5, unit="s")
    ratios = {ratio.cell_id: ratio for ratio in compare(run_id, store=store, metrics=[CPU]).ratios}
    return Measured(trials, ratios, (ended.max() - trials["started_at"].min()).total_seconds())


def test_two_testbeds_against_one(rack: Lab, tmp_path: Path) -> None:
    """Compare the runs; both have all cells of all blocks, and overlapping intervals of each ratio.

    Two testbeds share two cores here, so that the time saved is no measurement of racks. The speed-up on paper is of
    trials with the windows of paper scale. Their overhead is the one measured with two testbeds, controller included.
    """
    inventory = rack.inventory()
    one = measure(inventory.of_testbed("a"), tmp_path / "one")
    began = time.perf_counter()
    two = measure(inventory, tmp_path / "two")
    print(f"run on two testbeds: {time.perf_counter() - began:.1f} s with planning and deployment")
    by_testbed = two.trials.groupby("testbed")["overhead_s"].median()
    rows = [
        (name, f"{run.overhead_s:.3f} s", f"{run.trials_s:.1f} s", *(interval(each) for each in run.ratios.values()))
        for name, run in (("one", one), ("two", two))
    ]
    print(table(("testbeds", "overhead of a trial", "all trials", *one.ratios), rows))
    print("overhead by testbed:", ", ".join(f"{name} {seconds:.3f} s" for name, seconds in by_testbed.items()))
    testbeds = find_testbeds(two.trials)
    (effect,) = effects_of_testbeds(take_samples(two.trials, CPU), testbeds)
    print(f"A/A of testbeds in {CPU}: {effect.ratio:.3f} [{effect.low:.3f}, {effect.high:.3f}]")
    speed_up = 2 * (PAPER_S + one.overhead_s) / (PAPER_S + two.overhead_s)
    print(f"speed-up on paper of two testbeds, {PAPER_S:g} s a trial, even blocks: {speed_up:.3f}")
    print(f"overhead with two testbeds over that with one: {two.overhead_s / one.overhead_s:.3f} (limit {LIMIT})")
    for run in (one, two):
        assert len(run.trials) == (BLOCKS - 1) * CELLS
        assert set(run.trials["cell_id"]) == set(one.trials["cell_id"])
    for cell, ratio in one.ratios.items():
        lows, highs = zip(*((each.low or 0.0, each.high or 0.0) for each in (ratio, two.ratios[cell])), strict=True)
        assert 0 < max(lows) <= min(highs), f"{cell}: the intervals do not overlap"
    assert two.overhead_s <= LIMIT * one.overhead_s
