"""Gate over ratios: passed, regressed or inconclusive, by intervals and never by point estimates."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, ValidationError
from scipy import special

from benchkit.comparison.ratios import Ratio
from benchkit.errors import ExitCode, InputError, suggestion
from benchkit.models.base import Frozen
from benchkit.models.metrics import FAILURES, METRICS, metric_column, metric_named
from benchkit.stats.inference import ALPHA, holm
from benchkit.stats.samples import describe_exclusions

GateVerdict = Literal["passed", "regressed", "inconclusive"]

EXIT_CODES: Mapping[GateVerdict, ExitCode] = {
    "passed": ExitCode.DONE,
    "regressed": ExitCode.REGRESSED,
    "inconclusive": ExitCode.INCONCLUSIVE,
}
"""Exit codes of the contract."""

DEFAULT_WORSENING = 0.05
"""Allowed worsening of a metric without a threshold."""


def parse_share(value: object) -> object:
    """Return a share of one from `5%` or `0.05`."""
    if isinstance(value, str) and value.strip().endswith("%"):
        try:
            return float(value.strip().removesuffix("%")) / 100
        except ValueError:
            return value
    return value


Worsening = Annotated[float, BeforeValidator(parse_share), Field(ge=0, lt=1, allow_inf_nan=False)]


class GateLimits(Frozen):
    """Allowed worsening, as a share, by metric: `rps: 5%` lets it fall by 5 %, `latency_p99_s: 5%` rise by 5 %."""

    metrics: Mapping[str, Worsening] = Field(min_length=1)


class GateLine(Frozen, serialize_by_alias=True):
    """One ratio at the gate. `limit` is the worst ratio allowed; `p_holm` the adjusted p of being beyond it."""

    metric: str
    cell_id: str
    baseline: str
    limit: float
    verdict: GateVerdict
    p_holm: float | None = None
    text: str
    notes: tuple[str, ...] = Field(default=(), serialization_alias="remarks")
    """Notes on the ratio: excluded trials, different answers, suspect trials."""


class GateResult(Frozen):
    """Verdict of the gate, and the verdict on every ratio."""

    verdict: GateVerdict
    thresholds: Mapping[str, float]
    lines: tuple[GateLine, ...]

    @property
    def exit_code(self) -> ExitCode:
        """Exit code of a command that gates."""
        return EXIT_CODES[self.verdict]


def default_limits(metrics: Sequence[str]) -> GateLimits:
    """Return the default threshold of these metrics. Raises InputError for one that has no better direction."""
    return validate_limits(GateLimits(metrics=dict.fromkeys(metrics, DEFAULT_WORSENING)), "--gate")


def parse_limits(texts: Sequence[str]) -> GateLimits:
    """Return thresholds as typed, `rps=5%` each. Raises InputError."""
    found: dict[str, float] = {}
    for text in texts:
        metric, _, allowed = text.partition("=")
        try:
            found |= GateLimits.model_validate({"metrics": {metric_column(metric.strip()): allowed}}).metrics
        except ValidationError:
            where, hint = f"--threshold {text}", "as in rps=5%"
            raise InputError("not of the form metric=share", where=where, hint=hint) from None
    return validate_limits(GateLimits(metrics=found), "--threshold")


def validate_limits(thresholds: GateLimits, where: str) -> GateLimits:
    """Return the thresholds. Raises InputError for unknown metrics, neutral ones, and counts of failures.

    A healthy trial has no failures, and there is no ratio to zero.
    """
    judged = [name for name, metric in METRICS.items() if metric.better is not None and name not in FAILURES]
    for name in thresholds.metrics:
        if name in FAILURES:
            raise InputError(
                f"{name} has no ratio: it is zero in healthy trials",
                where=where,
                hint="the check `errors` covers failed requests; trials with many failures are excluded",
            )
        if name not in judged:
            raise InputError(
                f"metric {name!r} cannot have a gate: it is unknown, or neither higher nor lower is better",
                where=where,
                why=suggestion(name, judged),
            )
    return thresholds


def judge_ratios(
    ratios: Sequence[Ratio], thresholds: GateLimits, alpha: float = ALPHA, *, limitation: str | None = None
) -> GateResult:
    """Evaluate every ratio of a metric that has a threshold, except controls.

    A ratio has passed if its whole interval is within the limit. All must pass, so their number needs no adjustment
    (intersection-union test: Berger, Technometrics 24, 1982). It has regressed if it is shown to be beyond the limit,
    one-sided at half of `alpha`. As one ratio is enough for the verdict, this p is adjusted for their number (Holm).
    Otherwise, and with too few blocks, it is inconclusive. With a `limitation`, every ratio is.
    """
    judged = [ratio for ratio in ratios if ratio.metric in thresholds.metrics and not ratio.control]
    limits = [_limit(ratio.metric, thresholds.metrics[ratio.metric]) for ratio in judged]
    beyond = [_p_beyond(ratio, limit) for ratio, limit in zip(judged, limits, strict=True)]
    adjusted = iter(holm([p for p in beyond if p is not None]))
    lines = [
        _line(ratio, limit, None if p is None else next(adjusted), alpha, limitation)
        for ratio, limit, p in zip(judged, limits, beyond, strict=True)
    ]
    verdicts = {line.verdict for line in lines}
    verdict: GateVerdict = "passed"
    if "regressed" in verdicts:
        verdict = "regressed"
    elif "inconclusive" in verdicts or not lines:
        verdict = "inconclusive"
    return GateResult(verdict=verdict, thresholds=dict(thresholds.metrics), lines=tuple(lines))


def _limit(metric: str, worsening: float) -> float:
    return 1 - worsening if metric_named(metric).better == "higher" else 1 + worsening


def _p_beyond(ratio: Ratio, limit: float) -> float | None:
    """Return the one-sided p of the ratio being no worse than the limit, by t on its log; None without an interval."""
    if ratio.ratio is None or ratio.log_error is None or ratio.df is None:
        return None
    distance = math.log(limit) - math.log(ratio.ratio)
    if metric_named(ratio.metric).better == "lower":
        distance = -distance
    if ratio.log_error == 0:
        return 0.0 if distance > ratio.bias else 1.0
    return float(special.stdtr(ratio.df, (ratio.bias - distance) / ratio.log_error))


def _line(ratio: Ratio, limit: float, p: float | None, alpha: float, limitation: str | None) -> GateLine:
    verdict: GateVerdict = "inconclusive"
    higher = metric_named(ratio.metric).better == "higher"
    allowed = f"{'at least' if higher else 'at most'} {limit:.3g} is allowed"
    if p is None or ratio.low is None or ratio.high is None:
        text = f"{ratio.reason or 'no interval'}; {allowed}"
    else:
        within = ratio.low >= limit if higher else ratio.high <= limit
        if limitation is None:
            verdict = "regressed" if p <= alpha / 2 else "passed" if within else "inconclusive"
        interval = f"{ratio.ratio:.3f} [{ratio.low:.3f}, {ratio.high:.3f}], {allowed}"
        text = interval if limitation is None else f"{interval}; {limitation}"
    return GateLine(
        metric=ratio.metric,
        cell_id=ratio.cell_id,
        baseline=ratio.baseline,
        limit=limit,
        verdict=verdict,
        p_holm=p,
        text=text,
        notes=(
            *([describe_exclusions(ratio.exclusions)] if ratio.exclusions and not ratio.reason else []),
            *ratio.notes,
        ),
    )
