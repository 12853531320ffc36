"""Noise of sliced blocks, from recorded slices: stretches of a real series, with its autocorrelation.

Both recordings are of two equal servers in turns of 0.25 s on a cloud machine of two cores. One machine had nothing
else to do, and one had other work. A simulated block takes a stretch of such a series. It gives its slices to cells
whose true ratios are all one, in a new random order in every round.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd

from benchkit.stats.inference import ALPHA, MIN_BLOCKS, t_quantile, t_statistics
from benchkit.stats.samples import Reals, log_left
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


class LimitedCoverage(NamedTuple):
    """Figures of runs without the blocks whose cells were unequally disturbed."""

    kept: float
    """Share of the blocks."""
    decided: float
    """Share of the runs that keep enough blocks for an interval."""
    coverage: float
    """Share of the intervals that contain the true ratio."""
    half_width: float
    """Median, as a log-ratio."""


def coverage_with_limit(series: SliceSeries, limit: float, *, blocks: int, runs: int = 4_000) -> LimitedCoverage:
    """Return the figures of runs of two equal cells, without blocks whose CPU time left is unequal beyond a limit."""
    simulated = simulate(series, np.random.default_rng([blocks, runs]), runs=runs, cells=2, blocks=blocks)
    left = log_left(simulated.foreign_shares)
    is_kept = np.abs(left[:, 1] - left[:, 0]) <= limit
    counts = is_kept.sum(axis=1)
    differences = simulated.logs[:, 1] - simulated.logs[:, 0]
    covered, half_widths = 0, []
    for row, keep in zip(differences[counts >= MIN_BLOCKS], is_kept[counts >= MIN_BLOCKS], strict=True):
        (mean,), (error,) = t_statistics(row[keep][None, :])
        half_widths.append(t_quantile(1 - ALPHA, int(keep.sum()) - 1) * float(error))
        covered += abs(float(mean)) <= half_widths[-1]
    return LimitedCoverage(
        kept=float(is_kept.mean()),
        decided=len(half_widths) / runs,
        coverage=covered / len(half_widths),
        half_width=float(np.median(half_widths)),
    )
