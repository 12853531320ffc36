"""The ratio of two cells, and what a family of ratios shows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from benchkit.analysis.inference import MIN_BLOCKS, smallest_p, t_quantile
from benchkit.analysis.multiple_tests import ALPHA, Test, blocks_to_decide, deciding_test, holm
from benchkit.analysis.samples import ExcludedTrial, describe_reasons
from benchkit.models.base import Frozen
from benchkit.models.metrics import metric_named

Outcome = Literal["higher", "lower", "not shown", "undecided"]
Worth = Literal["better", "worse"]

_LARGEST = 700.0
"""Where the exponential comes near the end of what a double holds."""


class Ratio(Frozen):
    """A cell over its baseline in one metric.

    `value` and `baseline_value` are geometric means over the blocks used. The interval holds at `confidence` for this
    ratio alone; `outcome` holds for the family, by `p_holm`. `log_error` and `df` are those of the logarithm of the
    ratio, from which every other interval and test follows. Absent: what so few blocks cannot say, with the `reason`.
    """

    metric: str
    cell_id: str
    baseline: str
    relative_to: str | None = None
    """Between runs: the cell of the same run over which both sides were taken first."""
    control: bool = False
    blocks: int
    value: float | None = None
    baseline_value: float | None = None
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    confidence: float = 1 - ALPHA
    log_error: float | None = None
    df: float | None = None
    p_sign_flip: float | None = None
    p_t: float | None = None
    test: Test | None = None
    p_holm: float | None = None
    outcome: Outcome = "undecided"
    worth: Worth | None = None
    """Whether the difference that is shown is one for the better; None where none is, or neither way is better."""
    reason: str | None = None
    left_out: tuple[ExcludedTrial, ...] = ()
    remarks: tuple[str, ...] = ()
    """What is to be known beside this ratio alone: that its cells did not answer alike."""

    def with_point(self, value: float, baseline_value: float) -> Ratio:
        """The ratio of two figures, given as logarithms, with no interval: blocks too few for one are the reason."""
        point = {
            "value": _exp(value),
            "baseline_value": _exp(baseline_value),
            "ratio": _exp(value - baseline_value),
        }
        return self.model_copy(update=point)

    def with_interval(self, mean: float, error: float, df: float, level: float) -> Ratio:
        """The ratio with its t interval; mean and error are of the log-ratio, `level` is what the interval may miss."""
        reach = t_quantile(1 - level, df) * error
        return self.model_copy(
            update={"low": _exp(mean - reach), "high": _exp(mean + reach), "log_error": error, "df": float(df)}
        )

    def interval(self, level: float) -> tuple[float, float]:
        """The t interval that misses so often; without limits where there is none."""
        if self.ratio is None or self.log_error is None or self.df is None:
            return 0.0, math.inf
        mean, reach = math.log(self.ratio), t_quantile(1 - level, self.df) * self.log_error
        return _exp(mean - reach), _exp(mean + reach)

    def undecided(self) -> Ratio:
        """The ratio with the reason why blocks are too few for an interval."""
        have = {0: "no block has both", 1: "one block has both"}.get(self.blocks, f"{self.blocks} blocks have both")
        return self.model_copy(update={"reason": self.with_left_out(f"{have}; an interval needs {MIN_BLOCKS}")})

    def with_left_out(self, text: str) -> str:
        """The text, and behind it why trials of the ratio do not count, where any does not."""
        return f"{text} ({describe_reasons(self.left_out)})" if self.left_out else text


def with_outcomes(ratios: Sequence[Ratio], alpha: float = ALPHA) -> list[Ratio]:
    """The same ratios as one family: adjusted p-values, and what each of them shows at that level.

    Controls are a family of their own: they ask about the run, not about the cells.
    """
    decided: dict[int, Ratio] = {}
    for control in (False, True):
        family = [i for i, ratio in enumerate(ratios) if ratio.control is control and ratio.p_t is not None]
        tests = [_test(ratios[i], len(family), alpha) for i in family]
        p_values = [_p(ratios[i], test) for i, test in zip(family, tests, strict=True)]
        for i, test, p in zip(family, tests, holm(p_values), strict=True):
            decided[i] = _decided(ratios[i], test, p, alpha)
    return [decided.get(i, ratio) for i, ratio in enumerate(ratios)]


def _decided(ratio: Ratio, test: Test | None, p: float, alpha: float) -> Ratio:
    if test is None:
        why = (
            f"{ratio.blocks} blocks cannot show a difference: all of them agree on its sign by chance with "
            f"p = {smallest_p(ratio.blocks):.2g}; {blocks_to_decide(1, alpha)} blocks can"
        )
        return ratio.model_copy(update={"p_holm": p, "reason": ratio.with_left_out(why)})
    if p > alpha:
        return ratio.model_copy(update={"test": test, "p_holm": p, "outcome": "not shown"})
    way = "higher" if (ratio.ratio or 0) > 1 else "lower"
    better = metric_named(ratio.metric).better
    worth = None if better is None else "better" if way == better else "worse"
    return ratio.model_copy(update={"test": test, "p_holm": p, "outcome": way, "worth": worth})


def _test(ratio: Ratio, family: int, alpha: float) -> Test | None:
    return "welch" if ratio.p_sign_flip is None else deciding_test(ratio.blocks, family, alpha)


def _p(ratio: Ratio, test: Test | None) -> float:
    """The p that decides; where nothing can, the sign-flip test's own."""
    p = ratio.p_t if test in {"t", "welch"} else ratio.p_sign_flip
    return 1.0 if p is None else p


def _exp(logarithm: float) -> float:
    return math.exp(max(-_LARGEST, min(_LARGEST, logarithm)))
