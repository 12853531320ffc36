"""Resolution of a design: the difference that it can show, known before it runs, and the limits of few blocks."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pandas as pd
from scipy import special

from benchkit import units
from benchkit.models.base import Frozen
from benchkit.stats.inference import MIN_BLOCKS, binary_patterns, smallest_p, t_quantile
from benchkit.stats.multiple_tests import ALPHA, Test, blocks_to_decide, deciding_test, t_share
from benchkit.stats.samples import Exclusion, Reals, take_samples

POWER = 0.8
"""Probability that a difference of the stated size is shown (Cohen, Statistical Power Analysis, 1988, ch. 2)."""

_MARGIN = 0.02
"""Margin above `POWER` in planning: the power of the sign-flip test is simulated, and approximated by t from 14
blocks."""

_ENUMERATED = 13
"""Largest number of blocks for which the sign-flip test's power is simulated over all its patterns; beyond, t agrees
within 1 %."""

_MEANS_SIMULATED = 1 << 23
"""Number of subset means that are simulated: 2,000 runs of 12 blocks, never more than 4,000 of fewer."""

_AT_ONCE = 200

_NO_EFFECT = 1e-9
"""Share of the largest singular value below which a singular value is rounding, and no effect of blocks."""


@dataclass(frozen=True)
class Noise:
    """Standard deviation of a log-ratio from block to block, and the degrees of freedom of its estimate.

    `df` None: known exactly.
    """

    sd: float
    df: int | None = None

    @property
    def safe_sd(self) -> float:
        """Upper 80 % confidence limit of `sd`.

        A pilot's own estimate is as often too low as too high, and a plan based on it too weak; with this limit the
        plan has the power it states (Browne, On the use of a pilot sample for sample size determination, 1995): under
        all simulated noise but one, where a tenth of the trials are disturbed and the power is 77 % instead of 80 %.
        """
        if self.df is None:
            return self.sd
        return self.sd * math.sqrt(self.df / float(special.chdtri(self.df, POWER)))


class Resolution(Frozen):
    """Differences that a number of blocks can show in a family of comparisons; ratios above 1, a fall by the inverse.

    `detectable`: the ratio that is shown with a power of `POWER`; `half_width`: the expected half-width of an interval,
    as a ratio; both need known noise.
    """

    blocks: int
    family: int
    alpha: float
    test: Test | None
    smallest_p: float
    shown_from: int | None
    noise_sd: float | None = None
    noise_df: int | None = None
    detectable: float | None = None
    half_width: float | None = None

    @property
    def text(self) -> str:
        """Differences that it shows and its limits, in a sentence or two."""
        return " ".join(part for part in (self.limits, self.detects) if part)

    @property
    def detects(self) -> str:
        """Difference that is shown, or if there is none, the half-width of intervals; empty if the noise is unknown."""
        if self.detectable is not None:
            among = f" and {self.family} comparisons" if self.family > 1 else ""
            return f"With {units.counted(self.blocks, 'block')}{among}, {POWER:.0%} of runs show a difference of {self.detectable - 1:.1%}."
        return "" if self.half_width is None else f"The expected half-width of intervals is {self.half_width - 1:.1%}."

    @property
    def limits(self) -> str:
        """Limits of few blocks; empty if the sign-flip test can decide."""
        if self.test == "sign-flip":
            return ""
        enough = f"{self.shown_from} blocks can" if self.shown_from else "no number of blocks can"
        if self.test is None:
            return f"{units.counted(self.blocks, 'block')} cannot show a difference: an interval needs {MIN_BLOCKS}."
        among = f" among {self.family} comparisons" if self.family > 1 else ""
        level = "" if self.smallest_p <= self.alpha else " at a fifth of the level"
        return (
            f"{self.blocks} blocks are too few for the sign-flip test{among} (smallest p {self.smallest_p:.2g}; {enough}): "
            f"t decides{level}, which assumes nearly normal noise."
        )


def resolution(blocks: int, family: int = 1, noise: Noise | None = None, alpha: float = ALPHA) -> Resolution:
    """Return the resolution of a design with this number of blocks; `family` is the number of comparisons."""
    return Resolution(
        blocks=blocks,
        family=family,
        alpha=alpha,
        test=deciding_test(blocks, family, alpha),
        smallest_p=smallest_p(blocks),
        shown_from=blocks_to_decide(family, alpha),
        noise_sd=noise.sd if noise else None,
        noise_df=noise.df if noise else None,
        detectable=mde(noise, blocks, family, alpha) if noise else None,
        half_width=half_width(noise, blocks, alpha) if noise else None,
    )


def half_width(noise: Noise, blocks: int, alpha: float = ALPHA) -> float | None:
    """Return the expected half-width of an interval, as a ratio; None with too few blocks for one."""
    if blocks < MIN_BLOCKS:
        return None
    return math.exp(t_quantile(1 - alpha, blocks - 1) * noise.safe_sd / math.sqrt(blocks))


def mde(noise: Noise, blocks: int, family: int = 1, alpha: float = ALPHA, power: float = POWER) -> float | None:
    """Return the minimum detectable effect: the ratio (above one) that the design shows with this power.

    For one comparison while all others are of equal cells, the hardest case of Holm. None: so few blocks cannot show
    any difference.
    """
    test = deciding_test(blocks, family, alpha)
    if test is None:
        return None
    level = alpha * (t_share(blocks, alpha) if test == "t" else 1.0) / max(family, 1)
    return math.exp(_effect(blocks, level, power + _MARGIN, test) * noise.safe_sd)


def noise_of(trials: pd.DataFrame, metric: str, exclusions: Iterable[Exclusion] = ()) -> Noise | None:
    """Return the noise of the ratios of a run, over all its cells; None if it has too few samples.

    The residual of the logarithms after removing cells and blocks (two-way layout without interaction: Montgomery,
    Design and Analysis of Experiments, ch. 4) is the noise of a trial; a ratio has that of two. Excluded trials are
    missing from the layout, which is therefore fitted by least squares (the same, section 4.1.3, The exact approach).
    """
    logs = take_samples(trials, metric, exclusions).logs
    known = ~np.isnan(logs)
    logs, known = logs[known.any(axis=1)], known[known.any(axis=1)]
    if not len(logs):
        return None
    weights = known.astype(np.float64)
    # Relative to its cell's mean, a sample is the effect of its block less the mean effect of the cell's blocks: the
    # normal equations with the cells eliminated, with one unknown per block.
    centred = logs - np.nanmean(logs, axis=1, keepdims=True)
    reduced = np.diag(weights.sum(axis=0)) - weights.T @ (weights / weights.sum(axis=1, keepdims=True))
    effects, _, rank, _ = np.linalg.lstsq(reduced, np.nansum(centred, axis=0), rcond=_NO_EFFECT)
    df = int(known.sum()) - len(logs) - int(rank)
    if df < 1:
        return None
    of_blocks = np.where(known, effects, np.nan)
    residual = (centred - of_blocks + np.nanmean(of_blocks, axis=1, keepdims=True))[known]
    return Noise(math.sqrt(2 * float((residual**2).sum()) / df), df)


@lru_cache(maxsize=1024)
def _effect(blocks: int, alpha: float, power: float, test: Test) -> float:
    """Return the shift of the mean, in standard deviations of a log-ratio, that the test shows with this power."""
    if test == "sign-flip" and blocks <= _ENUMERATED:
        return _sign_flip_effect(blocks, alpha, power)
    critical = float(special.stdtrit(blocks - 1, 1 - alpha / 2))
    # t then follows the noncentral distribution, of which this much lies below what is critical.
    return float(special.nctdtrinc(blocks - 1, 1 - power, critical)) / math.sqrt(blocks)


def _sign_flip_effect(blocks: int, alpha: float, power: float) -> float:
    """Return the same for normal noise and the sign-flip test, by simulation.

    The test shows a rise when the k-th smallest of the means of all subsets of blocks is above zero, where k patterns
    on one side are within its level (Hartigan, Using subsample values as typical values, 1969). Those means move with
    the effect, so that a quantile of them is the answer.
    """
    k = int(alpha / 2 * 2**blocks * (1 + 1e-12))
    subsets = binary_patterns(blocks, 2**blocks)[1:]
    weights = (subsets / subsets.sum(axis=1, keepdims=True)).T
    generator = np.random.default_rng(blocks)
    bounds: list[Reals] = []
    for _ in range(min(4_000, _MEANS_SIMULATED >> blocks) // _AT_ONCE):
        means = generator.standard_normal((_AT_ONCE, blocks)) @ weights
        bounds.append(np.partition(means, k - 1, axis=1)[:, k - 1])
    return float(-np.quantile(np.concatenate(bounds), 1 - power))
