"""Ratios of cells: estimates with intervals, the differences that a family of ratios shows, and their bias.

Within blocks everything that all cells of a block share cancels out. Samples without common blocks are compared by
their means, with a variance that allows for autocorrelation of neighbouring blocks.

In a random order a disturbance from outside affects all cells alike, and the interval includes the variance that it
adds. It biases a ratio only as far as it left one cell more CPU time than the other over all blocks. Servers without
load always take time from the others, in every order.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from pydantic import Field

from benchkit import units
from benchkit.models.base import Frozen
from benchkit.models.metrics import metric_named
from benchkit.stats.cell_pairs import ComparedCells
from benchkit.stats.inference import (
    ALPHA,
    MIN_BLOCKS,
    Test,
    blocks_to_decide,
    deciding_test,
    holm,
    mean_interval,
    serial_inflation,
    sign_flip_p_values,
    t_p_values,
    t_quantile,
    t_share,
    t_statistics,
    welch,
)
from benchkit.stats.samples import ExcludedTrial, Exclusion, Reals, Samples, describe_reasons, take_samples

if TYPE_CHECKING:
    import pandas as pd

Outcome = Literal["higher", "lower", "not shown", "undecided"]
Direction = Literal["better", "worse"]

CONTAINED = 0.2
"""Largest bias that does not widen an interval, as a share of its half-width. It is 0.39 standard errors. A normal
estimate with this bias lies within 1.96 of them in Φ(1.57) - Φ(-2.35) = 93 % of runs, so intervals still cover the true
ratio in about as many."""

_LARGEST = 700.0
"""Logarithm of about the largest number that a double can hold."""

_SAME = 1e-9
"""Largest difference of log-ratios that rounding errors alone can cause."""


class Ratio(Frozen, serialize_by_alias=True):
    """A cell relative to its baseline in one metric.

    `value` and `baseline_value` are geometric means over the blocks used. The interval holds at `confidence` for this
    ratio alone; `outcome` holds for the family, by `p_holm`. `log_error` and `df` are standard error and degrees of
    freedom of its logarithm; all other intervals and tests follow from them. Figures that need more blocks are absent,
    with the `reason`.
    """

    metric: str
    cell_id: str
    baseline: str
    request_class: str | None = None
    """Class of requests that it is about; None: all requests."""
    relative_to: str | None = None
    """Divisor of both sides: between runs a cell of the same run, in a ratio of ratios the other pair of cells."""
    control: bool = False
    same_server: bool = False
    """True: both cells have the same server, byte for byte, so that the ratio shows the noise of equal servers."""
    blocks: int
    value: float | None = None
    baseline_value: float | None = None
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    confidence: float = 1 - ALPHA
    log_error: float | None = None
    bias: float = 0.0
    """Largest systematic error of the logarithm, by disturbances and counting; the interval includes it."""
    df: float | None = None
    p_sign_flip: float | None = None
    p_t: float | None = None
    test: Test | None = None
    p_holm: float | None = None
    outcome: Outcome = "undecided"
    worth: Direction | None = None
    """Direction of a difference that is shown; None if none is, or if the metric has no better direction."""
    reason: str | None = None
    exclusions: tuple[ExcludedTrial, ...] = ()
    notes: tuple[str, ...] = Field(default=(), serialization_alias="remarks")
    """Notes on this ratio alone, such as different answers of its cells."""
    serious_notes: tuple[str, ...] = Field(default=(), exclude=True)
    """The notes that are reasons to believe the ratio only with care."""
    is_unusable: bool = False
    """True if no block has usable trials of both cells: the point comes from all measured trials."""
    is_limited_alike: bool = Field(default=False, exclude=True)
    """True if the load tool was the limit and its trials show no difference: the servers may differ."""
    uses_invalid: bool = Field(default=False, exclude=True)
    """True if the ratio uses invalid trials, on request."""

    @property
    def is_of_equals(self) -> bool:
        """True where any difference is noise: a control, or two cells with the same server."""
        return self.control or self.same_server

    @property
    def is_shown(self) -> bool:
        """True where a difference is shown."""
        return self.outcome in {"higher", "lower"}

    def with_point(self, value: float, baseline_value: float) -> Ratio:
        """Return the ratio of two values, given as logarithms, without an interval."""
        point = {"value": _exp(value), "baseline_value": _exp(baseline_value), "ratio": _exp(value - baseline_value)}
        return self.model_copy(update=point)

    def with_interval(self, mean: float, error: float, df: float, alpha: float) -> Ratio:
        """Return the ratio with its t interval; mean and error are of the log-ratio, `alpha` is the error rate."""
        reach = t_quantile(1 - alpha, df) * error
        return self.model_copy(
            update={"low": _exp(mean - reach), "high": _exp(mean + reach), "log_error": error, "df": float(df)}
        )

    def with_bias(self, bias: float, note: str) -> Ratio:
        """Return the ratio with an interval that includes this bias of its logarithm, and a note on it.

        A bias that is most of the interval is a serious note.
        """
        if self.low is None or self.high is None or self.ratio is None:
            return self
        is_most = bias > math.log(self.high / self.ratio)
        return self.widened(bias).with_notes([note], [note] if is_most else [])

    def widened(self, bias: float) -> Ratio:
        """Return the ratio with an interval that includes this bias of its logarithm, too."""
        if self.low is None or self.high is None:
            return self
        widened = {"low": self.low * _exp(-bias), "high": self.high * _exp(bias), "bias": self.bias + bias}
        return self.model_copy(update=widened)

    def interval(self, alpha: float) -> tuple[float, float]:
        """Return the t interval with this error rate; unlimited if there is none."""
        if self.ratio is None or self.log_error is None or self.df is None:
            return 0.0, math.inf
        mean, reach = math.log(self.ratio), t_quantile(1 - alpha, self.df) * self.log_error + self.bias
        return _exp(mean - reach), _exp(mean + reach)

    def undecided(self) -> Ratio:
        """Return the ratio with the reason why it has no interval: too few blocks."""
        number = {0: "no block has", 1: "one block has"}.get(self.blocks, f"{self.blocks} blocks have")
        why = f"{number} usable trials of both cells; an interval needs {MIN_BLOCKS}"
        return self.model_copy(update={"reason": self.with_exclusions(why)})

    def rounded(self) -> Ratio:
        """Return the ratio with the reason why it has no interval: rounding made it the same in all blocks."""
        title = metric_named(self.metric).title
        why = f"the {title} is rounded: all {self.blocks} blocks have the same ratio, from which no interval follows"
        return self.model_copy(update={"reason": self.with_exclusions(why)})

    def without_outcome(self) -> Ratio:
        """Return the ratio without the outcome in its family; unchanged if its blocks are too few for an interval."""
        if self.p_t is None:
            return self
        return self.model_copy(update={"outcome": "undecided", "worth": None, "reason": None, "p_holm": None})

    def with_exclusions(self, text: str) -> str:
        """Return the text, with the reasons why trials of the ratio are excluded."""
        return f"{text} ({describe_reasons(self.exclusions)})" if self.exclusions else text

    def with_notes(self, notes: Sequence[str], serious: Sequence[str] | None = None) -> Ratio:
        """Return the ratio with more notes, of which `serious` are serious; None: all."""
        more = notes if serious is None else serious
        return self.model_copy(update={"notes": (*self.notes, *notes), "serious_notes": (*self.serious_notes, *more)})


def with_outcomes(ratios: Sequence[Ratio], alpha: float = ALPHA) -> list[Ratio]:
    """Return the ratios as one family: with adjusted p-values, and the differences that they show at this level.

    Controls are a family of their own: they test the run, not the cells.
    """
    decided: dict[int, Ratio] = {}
    for control in (False, True):
        family = [i for i, ratio in enumerate(ratios) if ratio.control is control and ratio.p_t is not None]
        tests = [_test(ratios[i], len(family), alpha) for i in family]
        p_values = [_p(ratios[i], test, alpha) for i, test in zip(family, tests, strict=True)]
        for i, test, p in zip(family, tests, holm(p_values), strict=True):
            decided[i] = _with_decision(ratios[i], test, p, len(family), alpha)
    return [decided.get(i, ratio) for i, ratio in enumerate(ratios)]


def _with_decision(ratio: Ratio, test: Test, p: float, family: int, alpha: float) -> Ratio:
    decided = ratio.model_copy(update={"test": test, "p_holm": p})
    includes_one = ratio.low is not None and ratio.high is not None and ratio.low <= 1 <= ratio.high
    if p > alpha and (includes_one or test != "t" or t_share(ratio.blocks, alpha) == 1):
        return decided.model_copy(update={"outcome": "not shown"})
    if p > alpha:
        enough = blocks_to_decide(family, alpha) or "no number of"
        why = f"{ratio.blocks} blocks can show only a very large difference; {enough} blocks show smaller ones"
        return decided.model_copy(update={"reason": ratio.with_exclusions(why)})
    if ratio.bias and includes_one:
        why = f"counting and disturbances alone can make a difference of {_exp(ratio.bias) - 1:.1%}"
        return decided.model_copy(update={"reason": ratio.with_exclusions(why)})
    outcome = "higher" if (ratio.ratio or 0) > 1 else "lower"
    better = metric_named(ratio.metric).better
    worth = None if better is None else "better" if outcome == better else "worse"
    return decided.model_copy(update={"outcome": outcome, "worth": worth})


def _test(ratio: Ratio, family: int, alpha: float) -> Test:
    test = deciding_test(ratio.blocks, family, alpha)
    return "welch" if ratio.p_sign_flip is None or test is None else test


def _p(ratio: Ratio, test: Test, alpha: float) -> float:
    """Return the p that decides; that of t is divided by the share of the level that t may use (`t_share`)."""
    if test == "sign-flip":
        return 1.0 if ratio.p_sign_flip is None else ratio.p_sign_flip
    share = t_share(ratio.blocks, alpha) if test == "t" else 1.0
    return 1.0 if ratio.p_t is None else min(1.0, ratio.p_t / share)


def _exp(logarithm: float) -> float:
    return math.exp(max(-_LARGEST, min(_LARGEST, logarithm)))


def block_ratios(samples: Samples, pairs: Sequence[ComparedCells], alpha: float = ALPHA) -> list[Ratio]:
    """Estimate ratios by the log-ratios within blocks that have both cells; outcomes are added later.

    `alpha` is the error rate of each interval. Comparisons over the same number of blocks are computed together.
    """
    logs: dict[ComparedCells, tuple[Reals, Reals]] = {}
    for pair in pairs:
        of_baseline, of_cell = samples.of(pair.baseline), samples.of(pair.cell_id)
        both = ~np.isnan(of_baseline) & ~np.isnan(of_cell)
        logs[pair] = of_baseline[both], of_cell[both]
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


def double_ratios(
    samples: Samples, pairs: Sequence[ComparedCells], reference: ComparedCells, alpha: float
) -> list[Ratio]:
    """Estimate ratios relative to another ratio of the same blocks.

    `value` is the ratio of the pair, `baseline_value` that of the `reference`, over blocks that have all four cells.
    """
    others = samples.of(reference.cell_id) - samples.of(reference.baseline)
    ratios = []
    for pair in pairs:
        logs = samples.of(pair.cell_id) - samples.of(pair.baseline)
        both = ~np.isnan(logs) & ~np.isnan(others)
        involved = (pair.cell_id, pair.baseline, reference.cell_id, reference.baseline)
        ratio = _ratio(samples, pair, int(both.sum())).model_copy(
            update={
                "relative_to": f"{reference.cell_id} to {reference.baseline}",
                "exclusions": samples.excluded_of(*involved),
            }
        )
        ratio = _point(ratio, others[both], logs[both])
        if ratio.blocks >= MIN_BLOCKS:
            (ratio,) = _with_intervals([ratio], (logs - others)[both][None, :], 0.0, alpha)
        ratios.append(ratio)
    return ratios


def value_alone(samples: Samples, cell_id: str, alpha: float) -> Ratio:
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


def measured_value(
    trials: pd.DataFrame, metric: str, cell_id: str, exclusions: Sequence[Exclusion], alpha: float
) -> Ratio:
    """Estimate a metric over the usable trials of a cell; where none is usable, over all of them and marked."""
    usable = value_alone(take_samples(trials, metric, exclusions), cell_id, alpha)
    if usable.blocks:
        return usable
    measured = value_alone(take_samples(trials, metric), cell_id, alpha)
    return measured.model_copy(update={"is_unusable": measured.blocks > 0})


def sequential_ratios(samples: Samples, pairs: Sequence[ComparedCells], alpha: float = ALPHA) -> list[Ratio]:
    """Estimate ratios of cells that ran one after the other; outcomes are added later.

    The ratio includes the drift between them, and the interval mostly does not: outputs label these comparisons.
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

    With a `reference` cell, each run's ratios to that cell within blocks are compared. A change of all cells cancels
    out, and the interval keeps its coverage under every simulated noise. Without one, values are compared, with a
    variance that allows for autocorrelation. No interval can tell a change of the hosts between the runs from a change
    of the cells.
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
    return Ratio(
        metric=samples.metric,
        cell_id=pair.cell_id,
        baseline=pair.baseline,
        control=pair.control,
        blocks=blocks,
        exclusions=samples.excluded_of(pair.cell_id, pair.baseline),
    )


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
    """Return the ratio with the bias that counting, disturbances and a late load tool can have caused.

    A window counts whole answers, so that a rate may be off by one of them.
    """
    from benchkit.judge.check import LOAD  # noqa: PLC0415 - it imports pandas, which a history mostly does without

    if samples.left is None or ratio.high is None or ratio.ratio is None or ratio.metric not in LOAD:
        return ratio
    cell, baseline = (samples.cells.index(name) for name in (ratio.cell_id, ratio.baseline))
    both = ~np.isnan(samples.logs[cell]) & ~np.isnan(samples.logs[baseline])
    outside, neighbours = (
        (left[cell] - left[baseline])[both] for left in (samples.left.outside, samples.left.neighbours)
    )
    if samples.one_answer is not None:
        one = float(sum(samples.one_answer[each][both].mean() for each in (cell, baseline)))
        ratio = ratio.widened(one) if one > CONTAINED * _half_width(ratio) else ratio
    lag = 0.0 if samples.lag is None else float(max(samples.lag[each][both].mean() for each in (cell, baseline)))
    bias = bias_of(outside, neighbours, _half_width(ratio), alpha, lag)
    if not bias.size:
        return ratio
    causes = []
    if bias.outside:
        most, least = (ratio.baseline, ratio.cell_id) if bias.outside > 0 else (ratio.cell_id, ratio.baseline)
        causes.append(f"what ran beside the servers took more CPU time from {most} than from {least}")
    if bias.neighbours:
        loser = ratio.baseline if bias.neighbours > 0 else ratio.cell_id
        causes.append(f"servers without load took CPU time from {loser} while it was under load")
    if bias.lag:
        causes.append("the load tool sent its requests late")
    by = units.share(math.expm1(bias.size))
    return ratio.with_bias(
        bias.size, f"{' and '.join(causes)}: the ratio may be off by up to {by}, which its interval includes"
    )


def _half_width(ratio: Ratio) -> float:
    """Return the half-width of a ratio's interval, as a logarithm; infinite without one."""
    return math.log(ratio.high / ratio.ratio) if ratio.high and ratio.ratio else math.inf


def _is_rounded(ratio: Ratio, rounded_below: float) -> bool:
    """Return True if one of the two values is a time below the resolution: rounding can then make all ratios equal."""
    values = ratio.value, ratio.baseline_value
    return metric_named(ratio.metric).unit == "sec" and any(
        each is not None and each < rounded_below for each in values
    )


def _unpaired(ratio: Ratio, baseline_logs: Reals, logs: Reals, inflation: float, alpha: float) -> Ratio:
    """Return the ratio of samples without common blocks, by Welch's t."""
    estimate = _point(ratio, baseline_logs, logs)
    if ratio.blocks < MIN_BLOCKS:
        return estimate
    mean, error, df = welch(baseline_logs, logs, inflation)
    p = float(t_p_values(np.array([mean]), np.array([error]), df)[0])
    return estimate.with_interval(mean, error, df, alpha).model_copy(update={"p_t": p})


@dataclass(frozen=True)
class Bias:
    """Largest systematic error of a log-ratio; positive where disturbances favoured the cell over its baseline."""

    outside: float = 0.0
    neighbours: float = 0.0
    """A server that works in other cells' slices takes CPU time from them, and may save as much work in its own slices.
    So a share of CPU time in the slices of each of n cells changes a ratio by up to n shares."""
    lag: float = 0.0
    """Error of latencies, in either direction, by requests that the load tool sent late."""

    @property
    def size(self) -> float:
        """Largest error in either direction."""
        return abs(self.outside) + abs(self.neighbours) + self.lag


def bias_of(outside: Reals, neighbours: Reals, half_width: float, alpha: float, lag: float = 0.0) -> Bias:
    """Return the bias of a ratio; none if it is small beside the half-width of its interval (`CONTAINED`).

    `outside` and `neighbours` are log-ratios of the CPU time left, one for each block. The mean of `outside` counts
    only if its own interval excludes zero: otherwise it is noise.
    """
    if len(outside) < MIN_BLOCKS:
        return Bias()
    mean, reach = mean_interval(outside, alpha)
    bias = Bias(mean if abs(mean) > reach else 0.0, float(neighbours.mean()), lag)
    return bias if bias.size > CONTAINED * half_width else Bias()
