"""Estimates of ratios: within the blocks of a run, between cells of a sequential run, and between two runs.

Within blocks everything that all cells of a block share cancels out. Samples that no block joins are compared by their
means, with a variance that allows for neighbouring blocks being alike.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from benchkit import units
from benchkit.comparison.bias import bias_of
from benchkit.comparison.ratio import Ratio
from benchkit.judge.check import LOAD
from benchkit.models.metrics import metric_named
from benchkit.stats.cell_pairs import ComparedCells
from benchkit.stats.inference import (
    MIN_BLOCKS,
    serial_inflation,
    sign_flip_p_values,
    t_p_values,
    t_statistics,
    welch,
)
from benchkit.stats.multiple_tests import ALPHA
from benchkit.stats.samples import ExcludedTrial, Reals, Samples

_SAME = 1e-9
"""Difference of log-ratios that sums of rounded numbers alone can have."""


def block_ratios(samples: Samples, pairs: Sequence[ComparedCells], alpha: float = ALPHA) -> list[Ratio]:
    """Estimate ratios by the log-ratios within blocks that have both cells; outcomes are added later.

    `alpha` is the error rate of each interval. Comparisons over the same number of blocks are computed together.
    """
    logs = {pair: _joint_logs(samples, pair) for pair in pairs}
    by_blocks: defaultdict[int, list[ComparedCells]] = defaultdict(list)
    for pair, (baseline_logs, _) in logs.items():
        by_blocks[len(baseline_logs)].append(pair)
    ratios: dict[ComparedCells, Ratio] = {}
    for blocks, group in by_blocks.items():
        points = [_point(_ratio(samples, pair, blocks), *logs[pair]) for pair in group]
        if blocks >= MIN_BLOCKS:
            differences = np.array([logs[pair][1] - logs[pair][0] for pair in group])
            points = _with_intervals(points, differences, samples.rounded_below, alpha)
            points = [_with_bias(point, samples, alpha) for point in points]
        ratios.update(zip(group, points, strict=True))
    return [ratios[pair] for pair in pairs]


def value_alone(samples: Samples, cell_id: str, alpha: float = ALPHA) -> Ratio:
    """Estimate the metric of a cell by itself: its geometric mean over blocks as a ratio to 1, with its interval."""
    logs = samples.known(cell_id)
    ratio = _ratio(samples, ComparedCells(cell_id, cell_id), len(logs))
    if not len(logs):
        return ratio
    ratio = ratio.with_point(float(logs.mean()), 0.0)
    if len(logs) < MIN_BLOCKS:
        return ratio
    (mean,), (error,) = t_statistics(logs[None, :])
    return ratio.with_interval(float(mean), float(error), len(logs) - 1, alpha)


def sequential_ratios(samples: Samples, pairs: Sequence[ComparedCells], alpha: float = ALPHA) -> list[Ratio]:
    """Estimate ratios of cells that ran one after the other; outcomes are added later.

    The ratio includes the drift between them, and the interval mostly does not: such a comparison is labelled wherever
    it is shown.
    """
    inflation = serial_inflation([samples.logs])
    ratios = []
    for pair in pairs:
        baseline_logs, logs = samples.known(pair.baseline), samples.known(pair.cell_id)
        ratio = _ratio(samples, pair, min(len(baseline_logs), len(logs)))
        ratios.append(_unpaired(ratio, baseline_logs, logs, inflation, alpha))
    return ratios


def run_ratios(
    before: Samples, after: Samples, cells: Sequence[str], reference: str | None = None, alpha: float = ALPHA
) -> list[Ratio]:
    """Estimate ratios of the same cells between two runs, `after` relative to `before`; outcomes are added later.

    With a `reference` cell, each run's ratios to that cell within blocks are compared: a change of all cells cancels
    out, and the interval covers as it should under every simulated noise. Without one, the values themselves are
    compared, with a variance that allows for neighbouring blocks being alike; but no interval can tell a change of the
    hosts between the runs from a change of the cells.
    """
    inflation = 1.0 if reference else serial_inflation([before.logs, after.logs])
    involved = () if reference is None else (reference,)
    ratios = []
    for cell_id in cells:
        logs_before, logs_after = (samples.known(cell_id, reference) for samples in (before, after))
        ratio = Ratio(
            metric=after.metric,
            cell_id=cell_id,
            baseline=cell_id,
            relative_to=reference,
            blocks=min(len(logs_before), len(logs_after)),
            exclusions=(*before.excluded_of(cell_id, *involved), *after.excluded_of(cell_id, *involved)),
        )
        ratios.append(_unpaired(ratio, logs_before, logs_after, inflation, alpha))
    return ratios


def _ratio(samples: Samples, pair: ComparedCells, blocks: int) -> Ratio:
    """Return the ratio of a comparison, without figures."""
    exclusions: tuple[ExcludedTrial, ...] = samples.excluded_of(pair.cell_id, pair.baseline)
    return Ratio(
        metric=samples.metric,
        cell_id=pair.cell_id,
        baseline=pair.baseline,
        control=pair.control,
        blocks=blocks,
        exclusions=exclusions,
    )


def _joint_logs(samples: Samples, pair: ComparedCells) -> tuple[Reals, Reals]:
    """Return the logarithms of baseline and cell in the blocks that have both."""
    baseline_logs, logs = samples.of(pair.baseline), samples.of(pair.cell_id)
    both = ~np.isnan(baseline_logs) & ~np.isnan(logs)
    return baseline_logs[both], logs[both]


def _point(ratio: Ratio, baseline_logs: Reals, logs: Reals) -> Ratio:
    """Return the ratio with its estimate, and with the reason where it has too few blocks for an interval."""
    if ratio.blocks == 0:
        return ratio.undecided()
    estimate = ratio.with_point(float(logs.mean()), float(baseline_logs.mean()))
    return estimate if ratio.blocks >= MIN_BLOCKS else estimate.undecided()


def _with_intervals(ratios: Sequence[Ratio], differences: Reals, rounded_below: float, alpha: float) -> list[Ratio]:
    """Return the ratios with intervals and p-values; `differences` are their log-ratios, (ratios, blocks)."""
    df = differences.shape[1] - 1
    mean, error = t_statistics(differences)
    p_t, p_flip = t_p_values(mean, error, df), sign_flip_p_values(differences)
    return [
        ratio.rounded()
        if np.ptp(differences[i]) <= _SAME and _is_rounded(ratio, rounded_below)
        else ratio.with_interval(float(mean[i]), float(error[i]), df, alpha).model_copy(
            update={"p_t": float(p_t[i]), "p_sign_flip": float(p_flip[i])}
        )
        for i, ratio in enumerate(ratios)
    ]


def _with_bias(ratio: Ratio, samples: Samples, alpha: float) -> Ratio:
    """Return the ratio with the bias that the CPU time left to its cells can have caused, in rates and latencies."""
    if samples.left is None or ratio.high is None or ratio.ratio is None or ratio.metric not in LOAD:
        return ratio
    cell, baseline = (samples.cells.index(name) for name in (ratio.cell_id, ratio.baseline))
    both = ~np.isnan(samples.logs[cell]) & ~np.isnan(samples.logs[baseline])
    outside, neighbours = (
        (left[cell] - left[baseline])[both] for left in (samples.left.outside, samples.left.neighbours)
    )
    bias = bias_of(outside, neighbours, math.log(ratio.high / ratio.ratio), alpha)
    if not bias.size:
        return ratio
    causes = []
    if bias.outside:
        most, least = (ratio.baseline, ratio.cell_id) if bias.outside > 0 else (ratio.cell_id, ratio.baseline)
        causes.append(f"what ran beside the servers took more CPU time from {most} than from {least}")
    if bias.neighbours:
        loser = ratio.baseline if bias.neighbours > 0 else ratio.cell_id
        causes.append(f"servers without load took CPU time from {loser} while it was under load")
    by = units.share(math.expm1(bias.size))
    return ratio.with_bias(
        bias.size, f"{' and '.join(causes)}: the ratio may be off by up to {by}, which its interval includes"
    )


def _is_rounded(ratio: Ratio, rounded_below: float) -> bool:
    """Return True for a ratio of times of which one is mostly rounding: its blocks can be alike by that alone."""
    values = ratio.value, ratio.baseline_value
    return metric_named(ratio.metric).unit == "sec" and any(
        each is not None and each < rounded_below for each in values
    )


def _unpaired(ratio: Ratio, baseline_logs: Reals, logs: Reals, inflation: float, alpha: float) -> Ratio:
    """Return the ratio of samples that no block joins, by Welch's t."""
    estimate = _point(ratio, baseline_logs, logs)
    if ratio.blocks < MIN_BLOCKS:
        return estimate
    mean, error, df = welch(baseline_logs, logs, inflation)
    p = float(t_p_values(np.array([mean]), np.array([error]), df)[0])
    return estimate.with_interval(mean, error, df, alpha).model_copy(update={"p_t": p})
