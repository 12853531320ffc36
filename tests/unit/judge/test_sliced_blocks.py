"""Tests of disturbances that the cells of a sliced block share."""

from __future__ import annotations

import numpy as np
import pytest

from benchkit.judge.check import ALL
from tests.support.comparison.fixtures import manifest_of, trials_of
from tests.support.judge.builders import (
    SERVERS,
    SLICED_CELLS,
    run_findings,
)

BOTH = {"r1.stack=a.b1", "r1.stack=b.b1"}


@pytest.mark.parametrize("column", ["foreign_share", "stolen_share", "withheld_share"])
@pytest.mark.parametrize(
    ("shares", "severity"),
    [
        ((0.01, 0.01), None),
        ((0.5, 0.5), "suspect"),
        ((0.5, 0.46), "suspect"),
        ((0.5, 0.44), "suspect"),
        ((0.12, 0.0), "suspect"),
    ],
)
def test_disturbance_counts_as_far_as_it_is_unequal(
    column: str, shares: tuple[float, float], severity: str | None
) -> None:
    trials = trials_of({cell: [1e4] for cell in SLICED_CELLS[:2]}, slices=20)
    check = "noisy-host" if column == "foreign_share" else "throttled"
    findings = run_findings(check, manifest_of(SERVERS[:2]), trials.assign(**{column: shares}))
    assert {found.severity for found in findings.values()} == ({severity} if severity else set())
    assert all(found.metrics == ALL for found in findings.values())
    assert set(findings) == (BOTH if severity else set())


@pytest.mark.parametrize(("ratios", "expected"), [((0.6, 0.6), False), ((0.8, 1.0), True), ((0.95, 1.0), False)])
def test_cold_server_is_compared_with_the_others_of_its_block(ratios: tuple[float, float], *, expected: bool) -> None:
    blocks = 4
    trials = trials_of({cell: [1e4] * blocks for cell in SLICED_CELLS[:2]}, slices=20)
    findings = run_findings(
        "cold", manifest_of(SERVERS[:2]), trials.assign(rate_first_over_last=np.repeat(ratios, blocks))
    )
    assert set(findings) == ({f"r1.stack=a.b{block}" for block in range(1, blocks + 1)} if expected else set())
