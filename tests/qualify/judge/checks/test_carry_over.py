"""Tests of the check carry-over."""

from __future__ import annotations

import numpy as np
import pandas as pd

from benchkit.stats.samples import Reals
from tests.support.comparison.fixtures import MakeManifest, MakeTrials
from tests.support.judge.builders import SERVERS, run_findings, slice_rows

CELLS = ("stack=a", "stack=b", "stack=c")


def slices_with(
    effects: Reals, *, blocks: int = 6, rounds: int = 20, noise: float = 0.1, seed: int = 1
) -> pd.DataFrame:
    """Return slices whose cells change by these log effects after a slice of another cell, on a drifting host."""
    generator = np.random.default_rng(seed)
    cells = len(effects)
    shape = blocks, rounds, cells
    orders = generator.permuted(np.broadcast_to(np.arange(cells), shape), axis=2)
    drift = 0.3 * generator.standard_normal((blocks, rounds)).cumsum(axis=1)
    logs = {
        cell: 10 + np.arange(cells)[i] + drift + noise * generator.standard_normal(drift.shape)
        for i, cell in enumerate(CELLS[:cells])
    }
    before = np.concatenate([np.full((blocks, 1), -1), orders.reshape(blocks, -1)[:, :-1]], axis=1).reshape(shape)
    for place in np.ndindex(*shape):
        cell = int(orders[place])
        logs[CELLS[cell]][place[:2]] += effects[cell] if before[place] != cell else 0.0
    return slice_rows(logs, orders)


def test_false_alarms_are_rare(make_manifest: MakeManifest, make_trials: MakeTrials) -> None:
    trials = make_trials({cell: [1e4] * 6 for cell in CELLS[:2]}, slices=20)
    manifest, nothing = make_manifest(SERVERS[:2]), np.zeros(2)
    alarms = sum(
        bool(run_findings("carry-over", manifest, trials, slices=slices_with(nothing, noise=0.3, seed=seed)))
        for seed in range(100)
    )
    assert alarms <= 11  # 5 of 100 at the level of the test; 12 or more come by chance in 0.4 %
