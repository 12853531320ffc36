"""Runs of several testbeds, with known effects."""

from __future__ import annotations

import numpy as np
import pandas as pd

from benchkit.stats.cell_pairs import ComparedCells
from tests.support.comparison.fixtures import trials_of

PAIR = ComparedCells("stack=nginx", "stack=go")
BLOCKS = 16
NOISE, BLOCK_NOISE = 0.01, 0.03


def run_of(*, testbeds: str = "ab", effect: float = 1.0, ratio_effect: float = 1.0, seed: int = 1) -> pd.DataFrame:
    """Return trials of two cells, one at half the rate of the other; `effect` multiplies both on testbed b.

    `ratio_effect` multiplies the second cell there. The noise that a block has in common is three times the noise of a
    trial.
    """
    rng = np.random.default_rng(seed)
    names = np.array([testbeds[block % len(testbeds)] for block in range(BLOCKS)])
    of_block = np.exp(BLOCK_NOISE * rng.standard_normal(BLOCKS)) * np.where(names == "b", effect, 1.0)
    noise = np.exp(NOISE * rng.standard_normal((2, BLOCKS)))
    rates = {
        "stack=go": 1000 * of_block * noise[0],
        "stack=nginx": 500 * of_block * noise[1] * np.where(names == "b", ratio_effect, 1.0),
    }
    trials = trials_of(rates)
    return trials.assign(testbed=[names[block - 1] for block in trials["block"]])
