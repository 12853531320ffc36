"""Intervals and tests on differences of logarithms, for many comparisons at once (one a row).

The interval is Student's t on the log-ratios of blocks. The other candidates were percentile and BCa bootstraps, and
the inverted sign-flip test. Only the t interval covers 93 to 97 % of the time from 6 blocks up, and at least 92 % from
3 blocks up. This holds under heavy tails, one-sided disturbances, drift and autocorrelated noise (`make bench`). It
covers less where long-lasting states of the host affect one cell more than the other: then the ratio itself changes
with the host. The test is the sign-flip permutation test, which does not assume normal noise. Under the null
hypothesis, and with the order of cells drawn at random in every block, a log-ratio has either sign with equal
probability.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy import special

from benchkit.stats.samples import Reals

MIN_BLOCKS = 3
"""Fewest blocks of an interval; from here on the t interval covers the truth at least 92 % of the time (simulated)."""

MAX_PATTERNS = 5_000
"""Most sign patterns of the sign-flip test, each standing also for its opposite. Up to 13 blocks these are all of them;
beyond, they are a random sample. About 1,000 lose little power at a level of 0.05, and Holm needs smaller p-values:
Davison and Hinkley, Bootstrap Methods and their Application (1997), 4.2.5."""

ALPHA = 0.05
"""Family-wise error rate: probability that comparisons of equal cells show any difference."""

Test = Literal["sign-flip", "t", "welch"]

FEW_BLOCKS = 0.2
"""Share of the level at which t decides where blocks are too few for the sign-flip test. At the whole level, 3 to 5
blocks of equal cells show a difference in up to 5.3 % of simulated runs. A fifth of it leaves room for noise that is
less normal than the simulated noise, and still shows large differences."""

_MANY = 1_000
"""Upper limit of the search for enough blocks; no run has more."""

_BATCH = 1 << 20
"""Numbers in an array while signs are flipped: 8 MiB."""

_ROUNDING = 1e-13
"""Largest difference of equal sums that are added in another order, relative to the sum of the absolute terms."""


def t_statistics(differences: Reals) -> tuple[Reals, Reals]:
    """Return the mean of each row of (rows, blocks), and its standard error."""
    blocks = differences.shape[1]
    return differences.mean(axis=1), differences.std(axis=1, ddof=1) / np.sqrt(blocks)


def mean_interval(values: Reals, alpha: float) -> tuple[float, float]:
    """Return the mean of a sample, and half the width of its t interval with this error rate."""
    (mean,), (error,) = t_statistics(values[None, :])
    return float(mean), t_quantile(1 - alpha, len(values) - 1) * float(error)


@lru_cache(maxsize=1024)
def t_quantile(confidence: float, df: float) -> float:
    """Return the half-width of an interval in standard errors."""
    return float(special.stdtrit(df, (1 + confidence) / 2))


def t_p_values(mean: Reals, error: Reals, df: float) -> Reals:
    """Return the two-sided p of a mean against zero (Student 1908); 1 where nothing varies and nothing differs."""
    ratio = np.divide(np.abs(mean), error, out=np.where(mean == 0, 0.0, np.inf), where=error > 0)
    return np.asarray(2 * special.stdtr(df, -ratio), dtype=np.float64)


def sign_flip_p_values(differences: Reals) -> Reals:
    """Return the two-sided p of each row of (rows, blocks) by the sign-flip permutation test of the mean.

    It is the share of sign patterns whose mean is at least as far from zero as the observed one. Up to 13 blocks it is
    exact; beyond, the patterns are a sample with a fixed seed. The observed pattern is always included, so that p is
    never 0 and keeps its level (Phipson and Smyth 2010). Fisher, The Design of Experiments (1935), 21; with random
    order within blocks, the design alone justifies the test (Pitman 1937).
    """
    rows, blocks = differences.shape
    signs = _sign_patterns(blocks).T
    p_values = np.empty(rows)
    batch = max(1, _BATCH // signs.shape[1])
    for start in range(0, rows, batch):
        part = differences[start : start + batch]
        distances = np.abs(part @ signs)
        rounding = _ROUNDING * np.abs(part).sum(axis=1, keepdims=True)
        p_values[start : start + batch] = (distances >= distances[:, :1] - rounding).mean(axis=1)
    return p_values


def smallest_p(blocks: int) -> float:
    """Return the smallest p of a two-sided sign-flip test, that of an observed pattern farthest from zero."""
    return 1 / _pattern_count(blocks)


def binary_patterns(blocks: int, count: int) -> npt.NDArray[np.int64]:
    """Return the bits of 0, 1, …, `count` - 1 as rows of (count, blocks)."""
    bits: npt.NDArray[np.int64] = (np.arange(count)[:, None] >> np.arange(blocks)) & 1
    return bits


def _sign_patterns(blocks: int) -> Reals:
    """Return sign patterns as rows of (patterns, blocks), the observed one first; each also stands for its opposite."""
    count = _pattern_count(blocks)
    signs: Reals
    if count < MAX_PATTERNS:
        signs = 1.0 - 2.0 * binary_patterns(blocks, count).astype(np.float64)
    else:
        signs = np.random.default_rng(0).choice((-1.0, 1.0), size=(count, blocks))
        signs[0] = 1.0
    return signs


def _pattern_count(blocks: int) -> int:
    return MAX_PATTERNS if blocks > MAX_PATTERNS.bit_length() else min(1 << (blocks - 1), MAX_PATTERNS)


def welch(one: Reals, other: Reals, inflation: float = 1.0) -> tuple[float, float, float]:
    """Return the difference of means (`other` less `one`), its standard error, and degrees of freedom.

    For samples without common blocks: Welch, Biometrika 34 (1947), degrees of freedom by Satterthwaite (1946).
    `inflation` multiplies the variance of both means.
    """
    parts = [sample.var(ddof=1) / len(sample) * inflation for sample in (one, other)]
    total = sum(parts)
    if total == 0:
        return float(other.mean() - one.mean()), 0.0, float(len(one) + len(other) - 2)
    df = total**2 / sum(part**2 / (len(sample) - 1) for part, sample in zip(parts, (one, other), strict=True))
    return float(other.mean() - one.mean()), float(np.sqrt(total)), float(df)


def serial_inflation(runs: list[Reals]) -> float:
    """Return the factor, at least 1, by which autocorrelation of blocks enlarges the variance of a cell's mean.

    Each of `runs` is (cells, blocks) of logarithms. The autocorrelation r at lag 1 is taken over all cells, freed of
    its small-sample bias of -(1 + 3r)/n (Kendall 1954). The inflation of an AR(1) process is (1 + r)/(1 - r) (Bayley
    and Hammersley 1946). At most 9 (r = 0.8): more cannot be estimated from so few blocks.
    """
    found = [r for run in runs if (r := _autocorrelation(run)) is not None]
    if not found:
        return 1.0
    rho = float(np.clip(np.mean(found), 0, 0.8))
    return (1 + rho) / (1 - rho)


def _autocorrelation(logs: Reals) -> float | None:
    """Return the bias-corrected autocorrelation at lag 1 of the cells that every block has; None if it is unknown."""
    whole = logs[~np.isnan(logs).any(axis=1)]
    blocks = int(logs.shape[1])
    if not len(whole) or blocks < MIN_BLOCKS:
        return None
    residual = whole - whole.mean(axis=1, keepdims=True)
    total = float((residual**2).sum())
    if total == 0:
        return None
    found = float((residual[:, 1:] * residual[:, :-1]).sum()) / total
    return (blocks * found + 1) / (blocks - 3.0) if blocks > 4 else found + 1 / blocks  # noqa: PLR2004 - solved for r


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values adjusted for their number, which keep the family-wise error rate.

    Holm, A simple sequentially rejective multiple test procedure, Scandinavian Journal of Statistics 6 (1979).
    """
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    factors = len(p) - np.arange(len(p))
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(np.maximum.accumulate(p[order] * factors), 1)
    return [float(value) for value in adjusted]


@cache
def blocks_to_decide(family: int = 1, alpha: float = ALPHA) -> int | None:
    """Return the fewest blocks with which the sign-flip test can show a difference in a family of this size.

    None if no number of blocks can, because the number of sign patterns is limited.
    """
    return next((n for n in range(2, _MANY) if smallest_p(n) * max(family, 1) <= alpha), None)


def deciding_test(blocks: int, family: int, alpha: float = ALPHA) -> Test | None:
    """Return the test whose p-values decide, chosen before any result: the sign-flip test with enough blocks.

    With fewer it is t on the same log-ratios, which assumes nearly normal noise: see `t_share`. None if the blocks are
    too few for an interval.
    """
    if blocks < MIN_BLOCKS:
        return None
    return "sign-flip" if smallest_p(blocks) * max(family, 1) <= alpha else "t"


def t_share(blocks: int, alpha: float = ALPHA) -> float:
    """Return the share of the level at which t decides; 1 if the sign-flip test could decide a single comparison."""
    return 1.0 if smallest_p(blocks) <= alpha else FEW_BLOCKS
