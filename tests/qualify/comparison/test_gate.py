from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from benchkit.comparison.gate import (
    GateLimits,
    GateResult,
    judge_ratios,
)
from benchkit.comparison.ratios import block_ratios
from benchkit.stats.cell_pairs import ComparedCells
from benchkit.stats.samples import take_samples
from tests.support.comparison.fixtures import trials_of

NOISE = np.array([0.98, 1.02, 1.0, 0.99, 1.01, 1.0])

Gate = Callable[..., GateResult]


@pytest.fixture
def gate() -> Gate:
    """Cells relative to a baseline at a gate, with given true ratios."""

    def judged(
        *ratios: float, allowed: float = 0.05, metric: str = "rps", blocks: int = 6, spread: float = 1
    ) -> GateResult:
        cells = {f"c{i}": 100 * ratio * NOISE[:blocks] ** spread for i, ratio in enumerate(ratios)}
        trials = trials_of({"base": np.full(blocks, 100), **cells}, metric=metric)
        pairs = [ComparedCells(cell, "base") for cell in cells]
        return judge_ratios(block_ratios(take_samples(trials, metric), pairs), GateLimits(metrics={metric: allowed}))

    return judged


def test_false_alarms_of_a_family_at_its_limit_keep_the_error_rate() -> None:
    generator = np.random.default_rng(11)
    runs, alarms = 300, 0
    for _ in range(runs):
        logs = 0.05 * generator.standard_normal((5, 6))
        logs[1:] += np.log(0.95)  # as bad as is allowed
        trials = trials_of({name: np.exp(row) for name, row in zip("abcde", logs, strict=True)})
        ratios = block_ratios(take_samples(trials, "rps"), [ComparedCells(cell, "a") for cell in "bcde"])
        alarms += judge_ratios(ratios, GateLimits(metrics={"rps": 0.05})).verdict == "regressed"
    assert alarms / runs <= 0.025 + 3 * np.sqrt(0.025 * 0.975 / runs)
