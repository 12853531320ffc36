"""Tests of the check unstable."""

from __future__ import annotations

import numpy as np
import pytest

from benchkit.judge.check import RATES
from tests.support.comparison.fixtures import manifest_of, trials_of
from tests.support.judge.builders import SERVERS, run_findings, trial_ids


@pytest.mark.parametrize(
    ("blocks", "spread", "expected"),
    [
        (6, 0.099, False),
        (6, 0.101, True),
        (3, 0.042, False),
        (3, 0.043, True),
        (30, 0.28, False),
        (30, 0.282, True),
    ],
)
def test_limit_depends_on_the_number_of_blocks(blocks: int, spread: float, *, expected: bool) -> None:
    evenly = np.linspace(-1, 1, blocks)
    rates = {"stack=a": 1000 * np.exp(spread * evenly / evenly.std(ddof=1)), "stack=b": [900, 901, 902] * 2}
    reasons = run_findings("unstable", manifest_of(SERVERS[:2]), trials_of(rates))
    assert set(reasons) == (trial_ids("stack=a", blocks) if expected else set())
    assert all((each.severity, each.metrics) == ("suspect", RATES) for each in reasons.values())


@pytest.mark.parametrize(("differences", "expected"), [([0.01, -0.01] * 3, False), ([0.3, -0.3] * 3, True)])
def test_sliced_blocks_are_unstable_by_what_their_cells_do_not_share(
    differences: list[float], *, expected: bool
) -> None:
    shared = np.exp([0.0, 0.5, -0.8, 0.3, 0.9, -0.2])
    rates = {"stack=a": 1e4 * shared, "stack=b": 1e4 * shared * np.exp(differences)}
    findings = run_findings("unstable", manifest_of(SERVERS[:2]), trials_of(rates, slices=20))
    assert set(findings) == (trial_ids("stack=a", 6) | trial_ids("stack=b", 6) if expected else set())
    assert all("relative to the others of their blocks" in found.seen for found in findings.values())
