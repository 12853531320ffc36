"""Tests of the check carry-over."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from benchkit.judge.check import LOAD
from benchkit.judge.checks.slices import carry_over
from benchkit.judge.evidence import RunEvidence
from benchkit.judge.sliced_blocks import ordered_slices
from benchkit.stats.samples import Reals
from tests.support.comparison.fixtures import MakeManifest, MakeTrials
from tests.support.judge.builders import SERVERS, host_rows, run_findings, skipped_trials, slice_rows, trial_ids

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


@pytest.mark.parametrize("effects", [(-0.2, 0.0), (0.0, 0.1, -0.3)])
def test_effects_are_found_in_spite_of_drift_and_differences(
    make_manifest: MakeManifest, make_trials: MakeTrials, effects: tuple[float, ...]
) -> None:
    cells = CELLS[: len(effects)]
    trials = make_trials({cell: [1e4] * 6 for cell in cells}, slices=20)
    slices = slices_with(np.array(effects), noise=0.02)
    found = carry_over(ordered_slices(RunEvidence(make_manifest(SERVERS[: len(cells)]), trials, host_rows(), slices)))
    assert {cell: round(each.log_effect, 1) for cell, each in found.items()} == dict(zip(cells, effects, strict=True))


def test_finding_names_the_cell(make_manifest: MakeManifest, make_trials: MakeTrials) -> None:
    trials = make_trials({cell: [1e4] * 6 for cell in CELLS[:2]}, slices=20)
    slices = slices_with(np.array([-0.2, 0.0]))
    findings = run_findings("carry-over", make_manifest(SERVERS[:2]), trials, slices=slices)
    assert set(findings) == trial_ids("stack=a", 6)
    assert {(each.severity, each.metrics) for each in findings.values()} == {("suspect", LOAD)}


def test_too_few_slices(make_manifest: MakeManifest, make_trials: MakeTrials) -> None:
    trials = make_trials({cell: [1e4] for cell in CELLS[:2]}, slices=4)
    evidence = RunEvidence(
        make_manifest(SERVERS[:2]), trials, host_rows(), slices_with(np.zeros(2), blocks=1, rounds=4)
    )
    assert carry_over(ordered_slices(evidence)) == {}


def test_other_designs_have_no_slices(make_manifest: MakeManifest, make_trials: MakeTrials) -> None:
    trials = make_trials({cell: [1e4] * 6 for cell in CELLS[:2]})
    assert run_findings("carry-over", make_manifest(SERVERS[:2]), trials) == {}
    assert skipped_trials("carry-over", make_manifest(SERVERS[:2]), trials) == set()


def test_slice_after_a_missing_one_has_nothing_before_it(make_manifest: MakeManifest, make_trials: MakeTrials) -> None:
    trials = make_trials({cell: [1e4] * 6 for cell in CELLS[:2]}, slices=20)
    slices = slices_with(np.zeros(2)).drop(index=10)
    ordered = ordered_slices(RunEvidence(make_manifest(SERVERS[:2]), trials, host_rows(), slices))
    assert ordered["before"].isna().sum() == 6 + 1
