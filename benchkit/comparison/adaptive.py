"""The rule for an early end of a run, applied after every block."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pandas as pd

from benchkit.comparison.ratios import Ratio, block_ratios, value_alone
from benchkit.judge.checks.load_tool import required_requests
from benchkit.judge.verdicts import trials_so_far
from benchkit.models.base import Frozen
from benchkit.models.design import StopCondition, until_of
from benchkit.models.metrics import P99
from benchkit.models.rows import TrialRow
from benchkit.models.run import Manifest
from benchkit.models.thresholds import Thresholds
from benchkit.stats.cell_pairs import ComparedCells, requested_ratios
from benchkit.stats.inference import MIN_BLOCKS
from benchkit.stats.samples import Exclusion, take_samples


class StopDecision(Frozen):
    """Decision to end or continue a run, with the reason."""

    stop: bool
    reason: str
    blocks: int
    precision: float | None = None
    """Half-width of the widest interval, as a share of its ratio."""


@dataclass(frozen=True)
class StopRule:
    """Rule for ending a run before its last block, and the ratios that must be known, each with its metric."""

    until: StopCondition
    ratios: tuple[tuple[str, ComparedCells], ...]
    manifest: Manifest

    def __call__(
        self, rows: Sequence[TrialRow], elapsed_s: float, block_s: float, exclusions: Iterable[Exclusion] = ()
    ) -> StopDecision:
        """Decide from rows of `trials` while they are being written.

        `exclusions` come from checks on single trials; this adds the exclusions by checks on the whole run.
        """
        trials, excluded = trials_so_far(rows, self.manifest, exclusions)
        return decide(
            trials,
            self.ratios,
            self.until,
            max_blocks=self.manifest.blocks,
            elapsed_s=elapsed_s,
            block_s=block_s,
            exclusions=excluded,
        )


def stop_rule(manifest: Manifest) -> StopRule | None:
    """Return the rule of a run that may end early; None for a run that always runs all of its blocks."""
    until = until_of(manifest.scenario)
    if until is None:
        return None
    requested = requested_ratios(manifest.scenario, manifest.cells, until.metrics)
    ratios = tuple(dict.fromkeys((metric, pair) for metric, pair, _ in requested))
    return StopRule(until, ratios, manifest)


def decide(
    trials: pd.DataFrame,
    requested: Sequence[tuple[str, ComparedCells]],
    until: StopCondition,
    *,
    max_blocks: int,
    elapsed_s: float = 0.0,
    block_s: float = 0.0,
    exclusions: Iterable[Exclusion] = (),
) -> StopDecision:
    """Decide whether to end the run after the blocks in `trials`, all of them complete.

    `requested` are the ratios that must be precise, each with its metric; without any, a run's only cell must have a
    precise value. `elapsed_s` is the time spent, `block_s` that of the next block. A block that would exceed the budget
    does not start, unless it is one of the three that an interval needs. The rule is the same after every block. It
    uses the widths of intervals and not their positions. Only if `until.excludes` names a ratio, the run also ends when
    all intervals exclude it. Trials at a held rate have to answer enough requests for a p99, if the budget allows it.
    """
    blocks = int(trials["block"].nunique())
    excluded = tuple(exclusions)
    samples = {metric: take_samples(trials, metric, excluded) for metric in (dict(requested) or until.metrics)}
    ratios = [
        ratio
        for metric, of_metric in samples.items()
        for ratio in block_ratios(of_metric, [pair for name, pair in requested if name == metric], until.alpha)
    ]
    if not requested:  # a single cell must have a precise value
        ratios = [value_alone(each, each.cells[0], until.alpha) for each in samples.values() if len(each.cells) == 1]
    reach = max(map(_reach, ratios), default=math.inf)
    precision = math.expm1(reach) if math.isfinite(reach) else None
    state = {"blocks": blocks, "precision": precision}
    fewest = min(ratios, key=lambda ratio: ratio.blocks, default=None)
    too_few = fewest is None or fewest.blocks < until.min_blocks
    lacks_p99 = (
        until.budget_s is not None and block_s > 0 and _lacks_p99(trials, (until.budget_s - elapsed_s) / block_s)
    )
    if not too_few and not lacks_p99 and precision is not None and precision <= until.precision:
        return StopDecision(stop=True, reason=f"every interval is within ± {until.precision:.1%}", **state)
    if not too_few and until.excludes is not None and all(_excludes(ratio, until.excludes) for ratio in ratios):
        return StopDecision(stop=True, reason=f"every interval excludes {until.excludes:.3g}", **state)
    if blocks >= max_blocks:
        return StopDecision(stop=True, reason=f"all {max_blocks} blocks are done", **state)
    if until.budget_s is not None and blocks >= MIN_BLOCKS and elapsed_s + block_s > until.budget_s:
        return StopDecision(stop=True, reason=f"the time budget is spent ({until.budget_s:g} s)", **state)
    if blocks < until.min_blocks:
        reason = f"{blocks} of at least {until.min_blocks} blocks"
    elif fewest is None:
        reason = "no ratio is requested"
    elif too_few or precision is None:
        reason = f"{fewest.blocks} of at least {until.min_blocks} blocks are usable for {fewest.cell_id}"
    elif lacks_p99:
        reason = "too few requests at the held rate for a p99"
    else:
        reason = f"the widest interval is ± {precision:.1%}, the target is ± {until.precision:.1%}"
    return StopDecision(stop=False, reason=reason, **state)


def _lacks_p99(trials: pd.DataFrame, more_blocks: float) -> bool:
    """Return True where a cell has too few requests at its held rate for a p99, and enough after more blocks."""
    enough = required_requests(P99, Thresholds())
    held = trials[trials["kind"] == "held"].groupby("cell_id")
    return any(
        number < enough <= number * (1 + more_blocks / blocks)
        for number, blocks in zip(held["requests"].sum(), held["block"].nunique(), strict=True)
    )


def _excludes(ratio: Ratio, value: float) -> bool:
    return ratio.low is not None and ratio.high is not None and not ratio.low <= value <= ratio.high


def _reach(ratio: Ratio) -> float:
    """Return the log half-width of the interval less its bias, which blocks cannot narrow; without one infinity."""
    if ratio.high is None or ratio.ratio is None:
        return math.inf
    return math.log(ratio.high / ratio.ratio) - ratio.bias
