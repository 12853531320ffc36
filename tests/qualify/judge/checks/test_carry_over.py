"""Tests of the check carry-over."""

from __future__ import annotations

import numpy as np

from tests.support.comparison.fixtures import manifest_of, trials_of
from tests.support.judge.builders import SERVERS, SLICED_CELLS, run_findings, slices_with


def test_false_alarms_are_rare() -> None:
    trials = trials_of({cell: [1e4] * 6 for cell in SLICED_CELLS[:2]}, slices=20)
    manifest, nothing = manifest_of(SERVERS[:2]), np.zeros(2)
    alarms = sum(
        bool(run_findings("carry-over", manifest, trials, slices=slices_with(nothing, noise=0.3, seed=seed)))
        for seed in range(100)
    )
    assert alarms <= 11  # 5 of 100 at the level of the test; 12 or more come by chance in 0.4 %
