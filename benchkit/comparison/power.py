"""Statistical power of a design: the differences that a number of blocks can show, with the noise of the run itself."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import special

from benchkit import units
from benchkit.models.base import Frozen
from benchkit.models.design import design_of, until_of
from benchkit.models.metrics import RPS
from benchkit.models.run import Manifest
from benchkit.stats.cell_pairs import requested_ratios
from benchkit.stats.inference import ALPHA, MIN_BLOCKS, blocks_to_decide, deciding_test, smallest_p, t_share
from benchkit.stats.samples import Exclusion, take_samples

POWER = 0.8
"""Probability that a difference of the stated size is shown (Cohen, Statistical Power Analysis, 1988, ch. 2)."""

_PLANNED_POWER = POWER + 0.02
"""Power that plans are made for: it leaves room for noise that is not normal."""


@dataclass(frozen=True)
class RatioNoise:
    """Standard deviation of a log-ratio from block to block, and the degrees of freedom of its estimate.

    `df` None: known exactly.
    """

    sd: float
    df: int | None = None

    @property
    def safe_sd(self) -> float:
        """Upper 80 % confidence limit of `sd`.

        A pilot's estimate is as often too low as too high; if it is too low, the design has too little power. With this
        limit it has the stated power (Browne, On the use of a pilot sample for sample size determination, 1995).
        Simulations confirm it, with one exception: if a tenth of the trials are disturbed, the power is 77 %.
        """
        if self.df is None:
            return self.sd
        return self.sd * math.sqrt(self.df / float(special.chdtri(self.df, POWER)))


class Resolution(Frozen):
    """Differences that a number of blocks can show in a family of comparisons.

    `detectable` is the ratio above 1 that is shown with a power of `POWER`, as is its inverse. None: the noise is
    unknown, or the blocks are too few.
    """

    blocks: int
    family: int
    alpha: float
    noise_sd: float | None = None
    detectable: float | None = None

    @property
    def detects(self) -> str:
        """Difference that is shown, as a sentence; empty if it is unknown."""
        if self.detectable is None:
            return ""
        among = f" and {self.family} comparisons" if self.family > 1 else ""
        return f"With {units.counted(self.blocks, 'block')}{among}, {POWER:.0%} of runs show a difference of {self.detectable - 1:.1%}."

    @property
    def limits(self) -> str:
        """Limits of few blocks; empty if the sign-flip test can decide."""
        test = deciding_test(self.blocks, self.family, self.alpha)
        if test == "sign-flip":
            return ""
        if test is None:
            return f"{units.counted(self.blocks, 'block')} cannot show a difference: an interval needs {MIN_BLOCKS}."
        shown_from = blocks_to_decide(self.family, self.alpha)
        enough = f"{shown_from} blocks can" if shown_from else "no number of blocks can"
        among = f" among {self.family} comparisons" if self.family > 1 else ""
        level = min(self.alpha, self.alpha * t_share(self.blocks, self.alpha))
        return (
            f"{self.blocks} blocks are too few for the sign-flip test{among} (smallest p {smallest_p(self.blocks):.2g}; {enough}): "
            f"the t-test decides, at p below {level:g}. It assumes nearly normal noise."
        )


def resolution(blocks: int, family: int = 1, noise: RatioNoise | None = None, alpha: float = ALPHA) -> Resolution:
    """Return the resolution of a design with this number of blocks; `family` is the number of comparisons."""
    return Resolution(
        blocks=blocks,
        family=family,
        alpha=alpha,
        noise_sd=noise.sd if noise else None,
        detectable=mde(noise, blocks, family, alpha) if noise else None,
    )


def mde(noise: RatioNoise, blocks: int, family: int = 1, alpha: float = ALPHA) -> float | None:
    """Return the minimum detectable effect: the ratio (above one) that the design shows with a power of `POWER`.

    It is for one comparison while all others are of equal cells, the hardest case of Holm. None: the blocks are too few
    to show any difference.

    It follows from the noncentral t. The sign-flip test has few levels: multiples of the p of one sign pattern. At the
    largest that it may use, of k patterns, it needs a larger effect than t. By simulations of normal noise for 6 to 13
    blocks, the effect is larger by at most 17 % for k = 1, 9 % for k = 2, and 4 % for many patterns.
    """
    test = deciding_test(blocks, family, alpha)
    if test is None:
        return None
    level, more = alpha * t_share(blocks, alpha) / max(family, 1), 1.0
    if test == "sign-flip":
        patterns = math.floor(level / smallest_p(blocks) * (1 + 1e-12))
        level, more = patterns * smallest_p(blocks), 1.04 + 0.14 / patterns
    critical = float(special.stdtrit(blocks - 1, 1 - level / 2))
    effect = float(special.nctdtrinc(blocks - 1, 1 - _PLANNED_POWER, critical)) / math.sqrt(blocks)
    return math.exp(more * effect * noise.safe_sd)


def noise_of(trials: pd.DataFrame, metric: str, exclusions: Iterable[Exclusion] = ()) -> RatioNoise | None:
    """Return the noise of the ratios of a run, over all its cells; None if it has too few samples.

    The noise of a trial is the residual of the logarithms after removing cells and blocks; a ratio has the noise of two
    trials. This is a two-way layout without interaction (Montgomery, Design and Analysis of Experiments, ch. 4), fitted
    by least squares, as excluded trials are missing.
    """
    logs = take_samples(trials, metric, exclusions).logs
    cells, blocks = np.nonzero(~np.isnan(logs))
    if not len(cells):
        return None
    design = np.hstack([np.eye(logs.shape[0])[cells], np.eye(logs.shape[1])[blocks]])
    fit, _, rank, _ = np.linalg.lstsq(design, logs[cells, blocks])
    residual = logs[cells, blocks] - design @ fit
    df = len(cells) - int(rank)
    return RatioNoise(math.sqrt(2 * float(residual @ residual) / df), df) if df else None


def design_limits(planned: Manifest) -> list[str]:
    """Return the limits of the blocks of a planned run, a sentence for each family of comparisons.

    There are none where the sign-flip test can decide, and for a sequential design, whose noise does not include drift.
    A run that may end early has the limits of its fewest blocks. Detectable differences follow from the noise, which is
    known only after a run.
    """
    if design_of(planned.scenario) == "sequential":
        return []
    until = until_of(planned.scenario)
    alpha, blocks = (ALPHA, planned.blocks) if until is None else (until.alpha, min(until.min_blocks, planned.blocks))
    metrics = dict.fromkeys((RPS, *(until.metrics if until else ())))
    claims = [claim for _, _, claim in requested_ratios(planned.scenario, planned.cells, metrics)]
    families = {"Cells relative to the baseline": claims.count(None), "Each claim": 1 if any(claims) else 0}
    limits = {name: resolution(blocks, size, alpha=alpha).limits for name, size in families.items() if size}
    return [f"{name}: {limit}" for name, limit in limits.items() if limit]
