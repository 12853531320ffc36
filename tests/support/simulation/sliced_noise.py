"""Noise of sliced blocks, from recorded slices: stretches of a real series, with its autocorrelation.

Both recordings are of two equal servers in turns of 0.25 s on a cloud machine of two cores. One machine had nothing
else to do, and one had other work. A simulated block takes a stretch of such a series. It gives its slices to cells
whose true ratios are all one, in a new random order in every round.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from benchkit.stats.samples import Reals
from tests.support.paths import TESTS
from tests.support.simulation.noise import Model

FOLDER = TESTS / "fixtures" / "slices"
RECORDED = ("two-nethttp-alone", "two-nethttp-beside-other-work")
ROUNDS = 20
"""Slices of a trial: 5 s in slices of 0.25 s."""


@dataclass(frozen=True, eq=False)
class SliceSeries:
    """Slices in the order in which they ran."""

    requests: Reals
    foreign_shares: Reals
    """Share of the time of the server's core that other processes used."""


@dataclass(frozen=True, eq=False)
class SlicedBlocks:
    """Simulated blocks of equal cells, arrays of shape (runs, cells, blocks)."""

    logs: Reals
    """Logarithm of the requests of a trial."""
    foreign_shares: Reals
    """Mean over its slices."""


def read_series(name: str) -> SliceSeries:
    """Read a recording."""
    table = pd.read_csv(FOLDER / f"{name}.csv")
    return SliceSeries(table["requests"].to_numpy(np.float64), table["foreign_share"].to_numpy(np.float64))


def simulate(
    series: SliceSeries, generator: np.random.Generator, *, runs: int, cells: int, blocks: int, in_turns: bool = True
) -> SlicedBlocks:
    """Simulate runs: each begins at a random place of the series, and its blocks follow one another, around its end.

    Without `in_turns`, each cell of a block has all of its slices in one piece, as in the design `blocks`.
    """
    shape = runs, ROUNDS, cells
    starts = generator.integers(len(series.requests), size=runs)
    logs, shares = np.empty((runs, cells, blocks)), np.empty((runs, cells, blocks))
    for block in range(blocks):
        slots = np.arange(ROUNDS * cells) + block * ROUNDS * cells
        places = (starts[:, None] + slots) % len(series.requests)
        if in_turns:
            order = generator.permuted(np.broadcast_to(np.arange(cells), shape), axis=2)
            places = np.take_along_axis(places.reshape(shape), order, axis=2)
        else:
            pieces = places.reshape(runs, cells, ROUNDS)
            order = generator.permuted(np.broadcast_to(np.arange(cells), (runs, cells)), axis=1)
            places = np.take_along_axis(pieces, order[:, :, None], axis=1).swapaxes(1, 2)
        logs[:, :, block] = np.log(series.requests[places].sum(axis=1))
        shares[:, :, block] = series.foreign_shares[places].mean(axis=1)
    return SlicedBlocks(logs, shares)


def sliced(name: str, cells: int) -> Model:
    """Return a model of noise whose trials come in sliced blocks of so many cells."""
    series = read_series(name)

    def model(generator: np.random.Generator, runs: int, trials: int) -> Reals:
        blocks = simulate(series, generator, runs=runs, cells=cells, blocks=trials // cells)
        return blocks.logs.swapaxes(1, 2).reshape(runs, trials)

    return model
