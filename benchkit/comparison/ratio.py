"""The ratio of two cells, and the differences that a family of ratios shows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from benchkit.models.base import Frozen
from benchkit.models.metrics import metric_named
from benchkit.stats.inference import MIN_BLOCKS, t_quantile
from benchkit.stats.multiple_tests import ALPHA, Test, blocks_to_decide, deciding_test, holm, t_share
from benchkit.stats.samples import ExcludedTrial, describe_reasons

Outcome = Literal["higher", "lower", "not shown", "undecided"]
Direction = Literal["better", "worse"]

_LARGEST = 700.0
"""Largest logarithm whose exponential a double can hold, nearly."""


class Ratio(Frozen, serialize_by_alias=True):
    """A cell relative to its baseline in one metric.

    `value` and `baseline_value` are geometric means over the blocks used. The interval holds at `confidence` for this
    ratio alone; `outcome` holds for the family, by `p_holm`. `log_error` and `df` are those of the logarithm of the
    ratio, from which every other interval and test follows. Figures that need more blocks are absent, with the
    `reason`.
    """

    metric: str
    cell_id: str
    baseline: str
    relative_to: str | None = None
    """Between runs: the cell of the same run that both sides were divided by first."""
    control: bool = False
    same_server: bool = False
    """True: both cells are the same in every byte, so that the ratio shows how far apart equal servers come out."""
    blocks: int
    value: float | None = None
    baseline_value: float | None = None
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    confidence: float = 1 - ALPHA
    log_error: float | None = None
    bias: float = 0.0
    """Largest systematic error of the logarithm that disturbances can have caused: the interval includes it."""
    df: float | None = None
    p_sign_flip: float | None = None
    p_t: float | None = None
    test: Test | None = None
    p_holm: float | None = None
    outcome: Outcome = "undecided"
    worth: Direction | None = None
    """Direction of a difference that is shown; None if none is, or if the metric has no better direction."""
    reason: str | None = None
    exclusions: tuple[ExcludedTrial, ...] = Field(default=(), serialization_alias="left_out")
    remarks: tuple[str, ...] = ()
    """Caveats of this ratio alone, such as different answers of its cells."""
    reservations: tuple[str, ...] = Field(default=(), exclude=True)
    """The remarks that are reasons to believe the ratio with care only: all but those that the scenario declares."""
    is_unusable: bool = False
    """True if no block has usable trials of both cells: the point is that of the trials that were measured."""
    uses_invalid: bool = Field(default=False, exclude=True)
    """True if the ratio uses invalid trials, on request."""

    @property
    def is_of_equals(self) -> bool:
        """True where any difference is noise: a control, or two cells with the same server."""
        return self.control or self.same_server

    def with_point(self, value: float, baseline_value: float) -> Ratio:
        """Return the ratio of two values, given as logarithms, without an interval."""
        point = {
            "value": _exp(value),
            "baseline_value": _exp(baseline_value),
            "ratio": _exp(value - baseline_value),
        }
        return self.model_copy(update=point)

    def with_interval(self, mean: float, error: float, df: float, alpha: float) -> Ratio:
        """Return the ratio with its t interval; mean and error are of the log-ratio, `alpha` is the error rate."""
        reach = t_quantile(1 - alpha, df) * error
        return self.model_copy(
            update={"low": _exp(mean - reach), "high": _exp(mean + reach), "log_error": error, "df": float(df)}
        )

    def with_bias(self, bias: float, remark: str) -> Ratio:
        """Return the ratio with an interval that includes this bias of its logarithm, and a remark about it.

        A bias that is most of the interval is a reason to believe the ratio with care only.
        """
        if self.low is None or self.high is None or self.ratio is None:
            return self
        is_most = bias > math.log(self.high / self.ratio)
        widened = {"low": self.low * _exp(-bias), "high": self.high * _exp(bias), "bias": bias}
        return self.model_copy(update=widened).with_remarks([remark], [remark] if is_most else [])

    def interval(self, alpha: float) -> tuple[float, float]:
        """Return the t interval with this error rate; unlimited if there is none."""
        if self.ratio is None or self.log_error is None or self.df is None:
            return 0.0, math.inf
        mean, reach = math.log(self.ratio), t_quantile(1 - alpha, self.df) * self.log_error + self.bias
        return _exp(mean - reach), _exp(mean + reach)

    def undecided(self) -> Ratio:
        """Return the ratio with the reason that blocks are too few for an interval."""
        number = {0: "no block has", 1: "one block has"}.get(self.blocks, f"{self.blocks} blocks have")
        return self.model_copy(
            update={
                "reason": self.with_exclusions(f"{number} usable trials of both cells; an interval needs {MIN_BLOCKS}")
            }
        )

    def rounded(self) -> Ratio:
        """Return the ratio with the reason that it has no interval: it is the same in all blocks, by rounding."""
        title = metric_named(self.metric).title
        why = f"the {title} is rounded: all {self.blocks} blocks have the same ratio, from which no interval follows"
        return self.model_copy(update={"reason": self.with_exclusions(why)})

    def with_exclusions(self, text: str) -> str:
        """Return the text, with the reasons why trials of the ratio are excluded."""
        return f"{text} ({describe_reasons(self.exclusions)})" if self.exclusions else text

    def with_remarks(self, remarks: Sequence[str], reservations: Sequence[str] | None = None) -> Ratio:
        """Return the ratio with more remarks; `reservations` are those that cast doubt on it; None: all of them."""
        doubts = remarks if reservations is None else reservations
        return self.model_copy(
            update={"remarks": (*self.remarks, *remarks), "reservations": (*self.reservations, *doubts)}
        )


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
    if p <= alpha and ratio.bias and ratio.low is not None and ratio.high is not None and ratio.low <= 1 <= ratio.high:
        why = f"the difference is no larger than the {_exp(ratio.bias) - 1:.1%} that unequal CPU time can explain"
        return ratio.model_copy(update={"test": test, "p_holm": p, "reason": ratio.with_exclusions(why)})
    if p > alpha and test == "t" and t_share(ratio.blocks, alpha) < 1:
        enough = blocks_to_decide(family, alpha)
        why = f"{ratio.blocks} blocks can show a very large difference only; {enough or 'no number of'} blocks show smaller ones"
        return ratio.model_copy(update={"test": test, "p_holm": p, "reason": ratio.with_exclusions(why)})
    if p > alpha:
        return ratio.model_copy(update={"test": test, "p_holm": p, "outcome": "not shown"})
    way = "higher" if (ratio.ratio or 0) > 1 else "lower"
    better = metric_named(ratio.metric).better
    worth = None if better is None else "better" if way == better else "worse"
    return ratio.model_copy(update={"test": test, "p_holm": p, "outcome": way, "worth": worth})


def _test(ratio: Ratio, family: int, alpha: float) -> Test:
    """Return the test that decides a ratio with an interval, for which its blocks are enough."""
    test = deciding_test(ratio.blocks, family, alpha)
    return "welch" if ratio.p_sign_flip is None or test is None else test


def _p(ratio: Ratio, test: Test, alpha: float) -> float:
    """Return the p that decides: of t in few blocks, as much larger as its level is lower."""
    if test == "sign-flip":
        return 1.0 if ratio.p_sign_flip is None else ratio.p_sign_flip
    share = t_share(ratio.blocks, alpha) if test == "t" else 1.0
    return 1.0 if ratio.p_t is None else min(1.0, ratio.p_t / share)


def _exp(logarithm: float) -> float:
    return math.exp(max(-_LARGEST, min(_LARGEST, logarithm)))
