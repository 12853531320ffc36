"""Coverage, false alarms and checks of sliced blocks, simulated with recorded slices; `make bench` prints tables."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from benchkit.judge.checks.slices import carry_over
from benchkit.models.thresholds import Thresholds
from benchkit.stats.inference import ALPHA
from tests.support.simulation.figures import coverage, false_alarms, student
from tests.support.simulation.sliced_noise import RECORDED, ROUNDS, coverage_with_limit, read_series, simulate, sliced


@pytest.mark.parametrize("name", RECORDED)
@pytest.mark.parametrize("cells", [2, 6])
def test_intervals_of_sliced_blocks_cover_93_to_97_percent_from_six_blocks(name: str, cells: int) -> None:
    for blocks in (6, 8, 10, 20):
        assert 0.93 <= coverage(student, sliced(name, cells), blocks, cells=cells) <= 0.97


@pytest.mark.parametrize("name", RECORDED)
@pytest.mark.parametrize(("blocks", "comparisons"), [(6, 1), (6, 3), (8, 2)])
def test_equal_cells_in_sliced_blocks_keep_the_false_alarm_rate(name: str, blocks: int, comparisons: int) -> None:
    model = sliced(name, comparisons + 1)
    assert false_alarms(model, blocks, comparisons=comparisons, runs=10_000) <= 0.05


@pytest.mark.parametrize("name", RECORDED)
def test_slices_cancel_noise_that_trials_in_one_piece_keep(name: str) -> None:
    spreads = []
    for in_turns in (True, False):
        generator = np.random.default_rng(1)
        logs = simulate(read_series(name), generator, runs=2_000, cells=2, blocks=6, in_turns=in_turns).logs
        spreads.append(float((logs[:, 1] - logs[:, 0]).std()))
    assert spreads[0] < spreads[1] / 2


@pytest.mark.parametrize("name", RECORDED)
def test_excluding_unequally_disturbed_blocks_keeps_the_coverage(name: str) -> None:
    for limit in (0.02, Thresholds().unequal, math.inf):
        assert 0.93 <= coverage_with_limit(read_series(name), limit, blocks=10).coverage <= 0.97


@pytest.mark.parametrize("name", RECORDED)
def test_carry_over_keeps_its_false_alarm_rate_with_recorded_noise(name: str) -> None:
    requests, generator = read_series(name).requests, np.random.default_rng(1)
    runs, blocks = 400, 6
    alarms = 0
    for _ in range(runs):
        places = (generator.integers(len(requests)) + np.arange(blocks * ROUNDS * 2)) % len(requests)
        cells = generator.permuted(np.broadcast_to(np.arange(2), (blocks * ROUNDS, 2)), axis=1).ravel()
        slices = pd.DataFrame(
            {
                "cell_id": cells.astype(str),
                "before": [None, *cells[:-1].astype(str)],
                "block": np.repeat(np.arange(blocks), ROUNDS * 2),
                "slice": np.tile(np.repeat(np.arange(ROUNDS), 2), blocks),
                "requests": requests[places],
                "log_rps": np.log(requests[places]),
            }
        )
        alarms += any(effect.p <= ALPHA for effect in carry_over(slices).values())
    assert alarms / runs <= 0.05 + 2.326 * math.sqrt(0.05 * 0.95 / runs)
