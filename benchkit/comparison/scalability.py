"""Universal Scalability Law over a numeric factor (connections): what more of it costs in waiting and in agreeing.

X(N) = r N / (1 + a (N - 1) + b N (N - 1)): r is the rate of one, a the contention, the share of the work that only one
can do at a time, and b the coherency, the cost of each pair that has to agree (Gunther, Guerrilla Capacity Planning,
2007, ch. 4 to 6). With b above 0 the rate has a peak and falls beyond it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from scipy import optimize

from benchkit import units
from benchkit.comparison.run_data import RunData, read_run_data
from benchkit.comparison.trend import cells_along
from benchkit.models.base import Frozen
from benchkit.stats.inference import MIN_BLOCKS, t_p_values, t_quantile, t_statistics
from benchkit.stats.samples import Reals, Samples, take_samples
from benchkit.store.store_choice import open_store

METRIC = "rps"
MIN_LEVELS = 4
"""Levels for three parameters and at least one degree of freedom that can show a misfit."""
MISFIT = 0.05
"""Relative distance of a level's mean from the law above which it does not describe the server, where chance does not
explain it: as far as the usual precision of a ratio."""


class Parameter(Frozen):
    """A parameter of the law, with its interval over blocks; neither can be below 0."""

    value: float
    low: float
    high: float


class Scalability(Frozen):
    """The law fitted to the cells that differ only in the factor, the other factors at `levels`.

    Without a fit there is a `reason`. `misfit` is the level that the law misses, and the relative distance there.
    """

    factor: str
    levels: Mapping[str, str]
    blocks: int
    contention: Parameter | None = None
    coherency: Parameter | None = None
    peak: float | None = None
    """Level at which the rate is highest: √((1 - contention) / coherency); None where the fitted coherency is 0."""
    misfit: tuple[float, float] | None = None
    reason: str | None = None

    @property
    def fits(self) -> bool:
        """True if the law describes the rates of all levels."""
        return self.contention is not None and self.misfit is None

    @property
    def text(self) -> str:
        """The fit as a clause."""
        if self.contention is None or self.coherency is None:
            return f"no fit: {self.reason}"
        if self.misfit is not None:
            level, distance = self.misfit
            return f"the law does not fit: at {level:g} it is {units.share(abs(distance))} off"
        contention, coherency = self.contention, self.coherency
        return (
            f"contention {units.share(contention.value)} [{units.share(contention.low)}, {units.share(contention.high)}], "
            f"coherency {coherency.value:.2g} [{coherency.low:.2g}, {coherency.high:.2g}]"
        )


def scalability(run: str, factor: str = "connections", *, store: str | Path | None = None) -> tuple[Scalability, ...]:
    """Return the Universal Scalability Law fitted to the rates of a run, one per combination of other factors.

    `run` is an id, its beginning, or `latest`. Invalid trials are excluded. Raises InputError.
    """
    where = open_store(store)
    return scalability_of(read_run_data(where, where.run(run)), factor)


def scalability_of(data: RunData, factor: str) -> tuple[Scalability, ...]:
    """Return a fit for every combination of the other factors.

    Each block is fitted by itself, in log-rates by least squares, and is the sample: what is common to all levels of a
    block changes the rate of one alone. Raises InputError for a factor without at least two positive numeric levels.
    """
    samples = take_samples(data.trials, METRIC, data.exclusions)
    return tuple(_fit(samples, factor, dict(others), cells, data.alpha) for others, cells in cells_along(data, factor))


def _fit(
    samples: Samples, factor: str, others: Mapping[str, str], cells: Sequence[tuple[float, str]], alpha: float
) -> Scalability:
    logs = np.array([samples.of(cell_id) for _, cell_id in cells]).T
    complete: Reals = logs[~np.isnan(logs).any(axis=1)]
    found = Scalability(factor=factor, levels=others, blocks=len(complete))
    if len(cells) < MIN_LEVELS:
        return found.model_copy(update={"reason": f"{len(cells)} levels; the law needs {MIN_LEVELS}"})
    if len(complete) < MIN_BLOCKS:
        return found.model_copy(
            update={"reason": f"{len(complete)} blocks have every level; the law needs {MIN_BLOCKS}"}
        )
    numbers = np.array([number for number, _ in cells])
    fitted = np.array([fit_block(numbers, block) for block in complete])
    contention, coherency = (_parameter(fitted[:, place], alpha) for place in (1, 2))
    residuals = complete - np.array([_log_rates(block, numbers) for block in fitted])
    return found.model_copy(
        update={
            "contention": contention,
            "coherency": coherency,
            "peak": math.sqrt((1 - contention.value) / coherency.value)
            if coherency.value > 0 and contention.value < 1
            else None,
            "misfit": _misfit(numbers, residuals, alpha),
        }
    )


def fit_block(numbers: Reals, logs: Reals) -> Reals:
    """Return the log of the rate of one, contention and coherency of one block by bounded least squares."""
    largest = float(numbers.max())
    start = [float(logs[0] - np.log(numbers[0])) + 0.1, 0.1, 0.1 / largest**2]

    def residuals(parameters: Reals) -> Reals:
        return _log_rates(parameters, numbers) - logs

    result = optimize.least_squares(
        residuals,
        start,
        bounds=([-np.inf, 0.0, 0.0], [np.inf, 1.0, 1.0]),
        x_scale=[1.0, 0.1, 1 / largest**2],
    )
    parameters: Reals = result.x
    return parameters


def _log_rates(parameters: Reals, numbers: Reals) -> Reals:
    log_one, contention, coherency = parameters
    waiting = 1 + contention * (numbers - 1) + coherency * numbers * (numbers - 1)
    rates: Reals = log_one + np.log(numbers) - np.log(waiting)
    return rates


def _parameter(values: Reals, alpha: float) -> Parameter:
    """Return the mean over blocks with its interval by Student's t, cut at 0."""
    mean, error = t_statistics(values[None, :])
    reach = t_quantile(1 - alpha, len(values) - 1) * float(error[0])
    return Parameter(value=float(mean[0]), low=max(0.0, float(mean[0]) - reach), high=float(mean[0]) + reach)


def _misfit(numbers: Reals, residuals: Reals, alpha: float) -> tuple[float, float] | None:
    """Return the level that the law misses most, by more than chance (Bonferroni over levels) and than `MISFIT`."""
    mean, error = t_statistics(residuals.T)
    p_values = t_p_values(mean, error, len(residuals) - 1)
    missed = (p_values <= alpha / len(numbers)) & (np.abs(np.expm1(mean)) > MISFIT)
    if not missed.any():
        return None
    worst = int(np.argmax(np.where(missed, np.abs(mean), 0)))
    return float(numbers[worst]), float(np.expm1(mean[worst]))
