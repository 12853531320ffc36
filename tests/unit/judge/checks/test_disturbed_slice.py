"""Tests of the check disturbed-slice."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from benchkit.judge.check import LOAD
from tests.support.comparison.fixtures import MakeManifest, MakeTrials
from tests.support.judge.builders import SERVERS, run_findings, slice_rows

CELLS = ("stack=a", "stack=b")


def slices_with_loss(lost: float, *, in_all_cells: bool = False, rounds: int = 20) -> pd.DataFrame:
    """Return slices of two cells in one block, of which that in round 7 has lost a share of its requests, 1: all."""
    generator = np.random.default_rng(2)
    drift = 0.3 * np.sin(np.arange(rounds))
    logs = {cell: (9 + drift + 0.02 * generator.standard_normal(rounds))[None, :] for cell in CELLS}
    for cell in CELLS if in_all_cells else CELLS[:1]:
        logs[cell][0, 6] += np.log1p(-lost) if lost < 1 else -np.inf
    orders = generator.permuted(np.broadcast_to(np.arange(2), (1, rounds, 2)), axis=2)
    return slice_rows(logs, orders)


@pytest.mark.parametrize(("lost", "expected"), [(1.0, True), (0.5, True), (0.3, False), (0.0, False)])
def test_slice_slowed_alone(
    make_manifest: MakeManifest, make_trials: MakeTrials, lost: float, *, expected: bool
) -> None:
    trials = make_trials({cell: [1e4] for cell in CELLS}, slices=20)
    findings = run_findings("disturbed-slice", make_manifest(SERVERS[:2]), trials, slices=slices_with_loss(lost))
    assert set(findings) == ({"r1.stack=a.b1"} if expected else set())
    for found in findings.values():
        assert (found.severity, found.metrics) == ("suspect", LOAD)
        assert found.seen.startswith("slice 7, ")


def test_round_slowed_for_all_cells_is_no_finding(make_manifest: MakeManifest, make_trials: MakeTrials) -> None:
    trials = make_trials({cell: [1e4] for cell in CELLS}, slices=20)
    slices = slices_with_loss(0.7, in_all_cells=True)
    assert run_findings("disturbed-slice", make_manifest(SERVERS[:2]), trials, slices=slices) == {}


def test_slices_that_all_vary_as_much_are_no_finding(make_manifest: MakeManifest, make_trials: MakeTrials) -> None:
    generator = np.random.default_rng(3)
    trials = make_trials({cell: [1e4] for cell in CELLS}, slices=20)
    logs = {cell: 9 + 0.5 * generator.standard_normal((1, 20)) for cell in CELLS}
    orders = generator.permuted(np.broadcast_to(np.arange(2), (1, 20, 2)), axis=2)
    assert run_findings("disturbed-slice", make_manifest(SERVERS[:2]), trials, slices=slice_rows(logs, orders)) == {}
