"""Statistical power of a design: the differences that a number of blocks can show, before a run and after it.

The noise comes from the run itself, or from earlier similar runs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pandas as pd
from scipy import special

from benchkit import units
from benchkit.comparison.runs.run_data import RunData, read_run_data
from benchkit.errors import InputError
from benchkit.models.base import Frozen
from benchkit.models.design import StopCondition, design_of, until_of
from benchkit.models.run import HostRecord, Manifest
from benchkit.stats.cell_pairs import ComparedCells, requested_ratios
from benchkit.stats.inference import (
    ALPHA,
    MIN_BLOCKS,
    Test,
    binary_patterns,
    blocks_to_decide,
    deciding_test,
    smallest_p,
    t_quantile,
    t_share,
)
from benchkit.stats.samples import Exclusion, Reals, take_samples
from benchkit.store.store import Store

POWER = 0.8
"""Probability that a difference of the stated size is shown (Cohen, Statistical Power Analysis, 1988, ch. 2)."""

_PLANNED_POWER = POWER + 0.02
"""Power that plans are made for. It is simulated for the sign-flip test, and approximated by t from 14 blocks."""

_ENUMERATED = 13
"""Largest number of blocks for which the sign-flip test's power is simulated over all its patterns; beyond, t agrees
within 1 %."""

_MEANS_SIMULATED = 1 << 23
"""Number of subset means that are simulated: 2,000 runs of 12 blocks, never more than 4,000 of fewer."""

_AT_ONCE = 200

_NO_EFFECT = 1e-9
"""Share of the largest singular value below which a singular value is rounding, and no effect of blocks."""

MAX_RUNS = 5
"""Number of the newest runs that the noise is estimated from; hosts change, and older runs say less."""

_SAME_SETTINGS = ("name", "roles", "load", "tools")
"""Parts of its scenario that a run must share with another to have the same noise."""


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

        A pilot's own estimate is as often too low as too high; where it is too low, the plan is too weak. With this
        limit the plan has the power it states (Browne, On the use of a pilot sample for sample size determination,
        1995). Simulations confirm it, with one exception: if a tenth of the trials are disturbed, the power is 77 %.
        """
        if self.df is None:
            return self.sd
        return self.sd * math.sqrt(self.df / float(special.chdtri(self.df, POWER)))


class Resolution(Frozen):
    """Ratios that a number of blocks can show in a family of comparisons; above 1, and for a fall the inverse.

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
        level = min(self.alpha, self.alpha * t_share(self.blocks, self.alpha))
        return (
            f"{self.blocks} blocks are too few for the sign-flip test{among} (smallest p {self.smallest_p:.2g}; {enough}): "
            f"the t-test decides, at p below {level:g}. It assumes nearly normal noise."
        )


def resolution(blocks: int, family: int = 1, noise: RatioNoise | None = None, alpha: float = ALPHA) -> Resolution:
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


def half_width(noise: RatioNoise, blocks: int, alpha: float = ALPHA) -> float | None:
    """Return the expected half-width of an interval, as a ratio; None with too few blocks for one."""
    if blocks < MIN_BLOCKS:
        return None
    return math.exp(t_quantile(1 - alpha, blocks - 1) * noise.safe_sd / math.sqrt(blocks))


def mde(noise: RatioNoise, blocks: int, family: int = 1, alpha: float = ALPHA) -> float | None:
    """Return the minimum detectable effect: the ratio (above one) that the design shows with a power of `POWER`.

    It is for one comparison while all others are of equal cells, the hardest case of Holm. None: the blocks are too few
    to show any difference.
    """
    test = deciding_test(blocks, family, alpha)
    if test is None:
        return None
    level = alpha * (t_share(blocks, alpha) if test == "t" else 1.0) / max(family, 1)
    return math.exp(_effect(blocks, level, test) * noise.safe_sd)


def noise_of(trials: pd.DataFrame, metric: str, exclusions: Iterable[Exclusion] = ()) -> RatioNoise | None:
    """Return the noise of the ratios of a run, over all its cells; None if it has too few samples.

    The noise of a trial is the residual of the logarithms after removing cells and blocks; a ratio has the noise of two
    trials. This is a two-way layout without interaction (Montgomery, Design and Analysis of Experiments, ch. 4).
    Excluded trials are missing from the layout, which is therefore fitted by least squares (the same, section 4.1.3,
    The exact approach).
    """
    logs = take_samples(trials, metric, exclusions).logs
    known = ~np.isnan(logs)
    logs, known = logs[known.any(axis=1)], known[known.any(axis=1)]
    if not len(logs):
        return None
    weights = known.astype(np.float64)
    # Relative to its cell's mean, a sample is the effect of its block less the mean effect of the cell's blocks. These
    # are the normal equations with the cells eliminated, with one unknown per block.
    centred = logs - np.nanmean(logs, axis=1, keepdims=True)
    reduced = np.diag(weights.sum(axis=0)) - weights.T @ (weights / weights.sum(axis=1, keepdims=True))
    effects, _, rank, _ = np.linalg.lstsq(reduced, np.nansum(centred, axis=0), rcond=_NO_EFFECT)
    df = int(known.sum()) - len(logs) - int(rank)
    if df < 1:
        return None
    of_blocks = np.where(known, effects, np.nan)
    residual = (centred - of_blocks + np.nanmean(of_blocks, axis=1, keepdims=True))[known]
    return RatioNoise(math.sqrt(2 * float((residual**2).sum()) / df), df)


@lru_cache(maxsize=1024)
def _effect(blocks: int, alpha: float, test: Test) -> float:
    """Return the shift of the mean that a test shows with the planned power, in standard deviations of a log-ratio."""
    if test == "sign-flip" and blocks <= _ENUMERATED:
        return _sign_flip_effect(blocks, alpha)
    critical = float(special.stdtrit(blocks - 1, 1 - alpha / 2))
    # With the shift, t is noncentral: 1 - power of its distribution lies below the critical value.
    return float(special.nctdtrinc(blocks - 1, 1 - _PLANNED_POWER, critical)) / math.sqrt(blocks)


def _sign_flip_effect(blocks: int, alpha: float) -> float:
    """Return the shift that the sign-flip test shows with the planned power under normal noise, by simulation.

    Let k be the number of patterns on one side that are within the level. The test shows a rise if the k-th smallest
    mean of subsets of blocks is above zero (Hartigan, Using subsample values as typical values, 1969). A shift moves
    all subset means alike, so the result is a quantile of that k-th smallest mean without a shift, negated.
    """
    k = int(alpha / 2 * 2**blocks * (1 + 1e-12))
    subsets = binary_patterns(blocks, 2**blocks)[1:]
    weights = (subsets / subsets.sum(axis=1, keepdims=True)).T
    generator = np.random.default_rng(blocks)
    bounds: list[Reals] = []
    for _ in range(min(4_000, _MEANS_SIMULATED >> blocks) // _AT_ONCE):
        means = generator.standard_normal((_AT_ONCE, blocks)) @ weights
        bounds.append(np.partition(means, k - 1, axis=1)[:, k - 1])
    return float(-np.quantile(np.concatenate(bounds), 1 - _PLANNED_POWER))


class RatioPower(Frozen):
    """Power of the design for a ratio that a scenario asks for; `claim` is the sentence that asks for it."""

    metric: str
    cell_id: str
    baseline: str
    claim: str | None = None
    resolution: Resolution


class PowerAnalysis(Frozen):
    """Power of a planned run.

    `noise_from` names the runs that the noise comes from; none: it is unknown. `blocks_expected` is the
    expected number of blocks of a run that may end early.
    """

    noise_from: tuple[str, ...] = ()
    ratios: tuple[RatioPower, ...] = ()
    blocks_expected: int | None = None


def analyse_power(
    planned: Manifest, runs: Sequence[RunData], noise_from: Sequence[str], *, block_s: float | None = None
) -> PowerAnalysis:
    """Return the power of a planned run, from the noise of these runs; `noise_from` are their names.

    `planned` is the manifest that the run will begin with, `block_s` the time of a block, if known. A run that may end
    early has the resolution of its expected number of blocks; if that is unknown, of its minimum. A sequential design
    has no prediction: its noise does not include drift.
    """
    if design_of(planned.scenario) == "sequential":
        return PowerAnalysis()
    until = until_of(planned.scenario)
    alpha = ALPHA if until is None else until.alpha
    requested = list(planned_ratios(planned))
    family = sum(claim is None for _, _, claim in requested)
    noises = {metric: _noise_of_runs(metric, runs) for metric, _, _ in requested}
    expected = None if until is None else _expected_blocks(until, planned.blocks, noises.values(), block_s)
    blocks = planned.blocks if until is None else expected or min(until.min_blocks, planned.blocks)
    return PowerAnalysis(
        noise_from=tuple(noise_from) if any(noises.values()) else (),
        ratios=tuple(
            RatioPower(
                metric=metric,
                cell_id=pair.cell_id,
                baseline=pair.baseline,
                claim=claim,
                resolution=resolution(blocks, 1 if claim else family, noises[metric], alpha),
            )
            for metric, pair, claim in requested
        ),
        blocks_expected=expected,
    )


def planned_ratios(planned: Manifest) -> Iterator[tuple[str, ComparedCells, str | None]]:
    """Yield metric, comparison, and the claim that asks for it: for `rps` and metrics of the rule for ending early."""
    until = until_of(planned.scenario)
    metrics = dict.fromkeys(("rps", *(until.metrics if until else ())))
    yield from requested_ratios(planned.scenario, planned.cells, metrics)


def earlier_runs(store: Store, planned: Manifest) -> tuple[list[RunData], list[InputError]]:
    """Return the newest similar runs of a store: the same settings and scale, on hosts of the same kind.

    A run with damaged files is skipped; the second list has the error of each.
    """
    found: list[RunData] = []
    damaged: list[InputError] = []
    for run, manifest in reversed(store.survey()[0]):
        if len(found) < MAX_RUNS and _is_similar(manifest, planned):
            try:
                found.insert(0, read_run_data(store, run))
            except InputError as error:
                damaged.append(error)
    return found, damaged


def _noise_of_runs(metric: str, runs: Sequence[RunData]) -> RatioNoise | None:
    """Return the noise of several runs as one estimate, weighted by its degrees of freedom; None: it is unknown."""
    known = [noise for data in runs if (noise := noise_of(data.trials, metric, data.exclusions)) is not None]
    df = sum(noise.df or 0 for noise in known)
    return RatioNoise(math.sqrt(sum(noise.sd**2 * (noise.df or 0) for noise in known) / df), df) if df else None


def _expected_blocks(
    until: StopCondition, most: int, noises: Iterable[RatioNoise | None], block_s: float | None
) -> int | None:
    """Return the blocks after which the noisiest metric is precise, or the time budget is spent; at most `most`."""
    sds = [math.nan if noise is None else noise.sd for noise in noises]
    if not sds or any(map(math.isnan, sds)):
        return None
    if until.budget_s is not None and block_s:
        most = min(most, max(math.floor(until.budget_s / block_s), 1))
    for blocks in range(until.min_blocks, most):
        if (half_width(RatioNoise(max(sds)), blocks, until.alpha) or math.inf) <= 1 + until.precision:
            return blocks
    return most


def _is_similar(run: Manifest, planned: Manifest) -> bool:
    return (
        run.status != "running"
        and run.scale == planned.scale
        and design_of(run.scenario) == design_of(planned.scenario)
        and all(run.scenario.get(name) == planned.scenario.get(name) for name in _SAME_SETTINGS)
        and sorted(map(_host_kind, run.hosts)) == sorted(map(_host_kind, planned.hosts))
    )


def _host_kind(host: HostRecord) -> tuple[str, str, int]:
    """Return the facts of a host that determine its noise."""
    return "+".join(host.roles), str(host.facts.cpu_model), len(host.facts.cpus)
