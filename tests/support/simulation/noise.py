"""Noise as trials have it, in the order in which they run: logarithms of a rate whose true ratios are all one.

A trial spreads by about 9 %, as 14 three-second trials on a lab of two cores did. Forty blocks of such a lab whose
machine had other work to do spread by 38 %. Their autocorrelation was 0.70, 0.55, 0.34 and 0.23 from one trial to the
next four. The log-ratios within blocks had 0.7 of excess kurtosis and no autocorrelation. The model `lab` follows that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from benchkit.stats.samples import Reals

SPREAD = 0.09
"""Standard deviation of the logarithm of a trial's rate, about."""

Model = Callable[[np.random.Generator, int, int], Reals]
"""(generator, runs, trials) → logarithms of shape (runs, trials), trials in the order of time."""


def normal(generator: np.random.Generator, runs: int, trials: int) -> Reals:
    """Return independent trials with normal noise."""
    return SPREAD * generator.standard_normal((runs, trials))


def heavy_tails(generator: np.random.Generator, runs: int, trials: int) -> Reals:
    """Return trials with Student's t of three degrees of freedom: occasional outliers in both directions."""
    return np.asarray(SPREAD * generator.standard_t(3, (runs, trials)) / np.sqrt(3))


def disturbed(generator: np.random.Generator, runs: int, trials: int) -> Reals:
    """Return trials of which a tenth are slowed by something else on the host, by 27 % on average and never sped up."""
    slowed = generator.random((runs, trials)) < 0.1
    slower = slowed * generator.exponential(3 * SPREAD, (runs, trials))
    return 0.6 * normal(generator, runs, trials) - slower


def stolen(generator: np.random.Generator, runs: int, trials: int) -> Reals:
    """Return trials of which a third lose 30 % of their rate to something else on the host, all of which are kept."""
    loses = generator.random((runs, trials)) < 1 / 3
    return np.asarray(normal(generator, runs, trials) + np.log(0.7) * loses)


def drift(generator: np.random.Generator, runs: int, trials: int) -> Reals:
    """Return trials of a host that loses a quarter of its speed over the run (a hot CPU, a shrinking quota)."""
    return normal(generator, runs, trials) + np.linspace(0, -0.3, trials)


def autocorrelated(generator: np.random.Generator, runs: int, trials: int) -> Reals:
    """Return trials that correlate with the previous one by 0.7."""
    return _following(generator.standard_normal((runs, trials)), 0.7)


def lab(generator: np.random.Generator, runs: int, trials: int) -> Reals:
    """Return autocorrelated trials with heavy tails, on a host that loses a tenth of its speed over the run."""
    innovations = generator.standard_t(5, (runs, trials)) / np.sqrt(5 / 3)
    return _following(innovations, 0.7) + np.linspace(0, -0.1, trials)


def regimes(generator: np.random.Generator, runs: int, trials: int) -> Reals:
    """Return trials of a host whose speed changes every ten trials or so (where the scheduler has put a thread)."""
    changes = generator.random((runs, trials)) < 0.1
    changes[:, 0] = True
    speeds = np.where(changes, generator.standard_normal((runs, trials)), 0)
    since = np.maximum.accumulate(np.where(changes, np.arange(trials), 0), axis=1)
    return 0.87 * SPREAD * np.take_along_axis(speeds, since, axis=1) + 0.5 * normal(generator, runs, trials)


MODELS: Mapping[str, Model] = MappingProxyType(
    {
        "normal": normal,
        "heavy tails": heavy_tails,
        "disturbed": disturbed,
        "stolen": stolen,
        "drift": drift,
        "autocorrelated": autocorrelated,
        "regimes": regimes,
        "lab": lab,
    }
)


def cells_in_blocks(model: Model, generator: np.random.Generator, runs: int, cells: int, blocks: int) -> Reals:
    """Return equal cells in randomised complete blocks: logarithms of shape (runs, cells, blocks)."""
    in_time = model(generator, runs, cells * blocks).reshape(runs, blocks, cells)
    order = generator.permuted(np.broadcast_to(np.arange(cells), in_time.shape), axis=2)
    return np.take_along_axis(in_time, order, axis=2).swapaxes(1, 2)


def _following(innovations: Reals, correlation: float) -> Reals:
    """Return an AR(1) process with the spread of all models, starting from its stationary distribution."""
    made = np.empty_like(innovations)
    made[:, 0] = innovations[:, 0]
    for i in range(1, innovations.shape[1]):
        made[:, i] = correlation * made[:, i - 1] + np.sqrt(1 - correlation**2) * innovations[:, i]
    return SPREAD * made
