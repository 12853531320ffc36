"""Check unstable: repetitions disagree."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd

from benchkit import units
from benchkit.judge.check import RATES, Check, CheckResult, Finding, RunCheckResult, SkippedCheck
from benchkit.judge.evidence import RunEvidence
from benchkit.judge.sliced_blocks import Balance, balances
from benchkit.models.thresholds import Thresholds
from benchkit.stats.inference import ALPHA, MIN_BLOCKS, t_quantile
from benchkit.stats.samples import Reals, is_comparable

REFERENCE_BLOCKS = 6
"""Number of trials of a cell that the threshold is stated for."""
MIN_R_SQUARED, MIN_TRIALS = 0.65, 5
"""Squared correlation from which core speed explains the spread, and the trials that it needs. Five trials reach it by
chance in one cell of twenty, more of them less often (Student's t on a correlation, one-sided)."""


def of_run(evidence: RunEvidence, thresholds: Thresholds) -> RunCheckResult:
    """Compare the spread of each cell's rates, the standard deviation of their logarithms, with the threshold.

    The limit for n trials leaves the interval of a ratio as wide as the threshold does for six. With fewer blocks the
    same noise hides more. If the spread follows the speed of the server's cores, the finding says so. In sliced blocks,
    the spread is of the log-ratio of a cell's rate to the other cells' rates, around its mean over blocks with the same
    others. It has the noise of two cells.
    """
    results: dict[str, CheckResult] = {}
    trials = evidence.trials[is_comparable(evidence.trials)]
    rps, loop_s, target_rate = (
        pd.to_numeric(trials[name]).to_numpy(dtype=np.float64) for name in ("rps", "server_loop_s", "rate_requested")
    )
    loop_s = np.where(np.isnan(target_rate), loop_s, np.nan)  # a target rate does not depend on core speed
    usable = np.isfinite(rps) & (rps > 0)
    trial_ids = [str(trial_id) for trial_id in trials["trial_id"]]
    relative = {each.trial_id: each for each in balances(trials, "rps", np.log)}
    for of_cell in trials.groupby("cell_id").indices.values():
        rows = np.asarray(of_cell, dtype=np.intp)
        used, ids = rows[usable[rows]], [trial_ids[row] for row in rows]
        rates = rps[used]
        if len(rates) < MIN_BLOCKS:
            why = f"{units.counted(len(rates), 'trial')} of the cell: needs at least {MIN_BLOCKS} trials"
            results |= dict.fromkeys(ids, SkippedCheck(why=why))
            continue
        in_block = [relative[trial_ids[row]] for row in used if trial_ids[row] in relative]
        is_sliced = len(in_block) == len(used)
        spread = _spread_in_blocks(in_block) if is_sliced else float(np.std(np.log(rates), ddof=1))
        if spread is None:
            why = "no two blocks have the cell beside the same others"
            results |= dict.fromkeys(ids, SkippedCheck(why=why))
            continue
        limit = thresholds.spread * _half_width(REFERENCE_BLOCKS) / _half_width(len(rates))
        if spread > limit:
            finding = _finding(spread, limit, rates, None if is_sliced else loop_s[used])
            results |= {trial_id: [finding] for trial_id in ids}
    return results


CHECK = Check("unstable", "its rate varies much between repetitions", of_run=of_run)


def _spread_in_blocks(trials: Sequence[Balance]) -> float | None:
    """Return the standard deviation of a cell's log-rate that its blocks do not share; None for too few blocks.

    Over blocks with other cells, the log-ratio to these has another mean: one mean is estimated for each set of others.
    """
    logs, places = pd.Series([each.log_ratio for each in trials]), pd.Series([each.others for each in trials])
    df = len(trials) - places.nunique()
    if df < 1:
        return None
    residual = logs - logs.groupby(places).transform("mean")
    return math.sqrt(float((residual**2).sum()) / df / 2)


def _half_width(blocks: int) -> float:
    """Return the half-width of a mean's interval in standard deviations of a block."""
    return t_quantile(1 - ALPHA, blocks - 1) / math.sqrt(blocks)


def _finding(spread: float, limit: float, rates: Reals, loop_s: Reals | None) -> Finding:
    """Return the finding; without `loop_s`, rates are relative to the block's other cells."""
    ratio_half_width = math.expm1(math.sqrt(2) * spread * _half_width(len(rates)))  # a ratio has the noise of two cells
    r_squared = None if loop_s is None else _explained_by_core_speed(rates, loop_s)
    means = f"Ratio of two such cells \N{PLUS-MINUS SIGN} {units.share(ratio_half_width)}: smaller differences cannot be shown."
    advice = "Find what varies from trial to trial; more blocks help only with their square root."
    if r_squared is not None and loop_s is not None:
        means += (
            f" Core speed explains {units.share(r_squared)} of the variance: a short loop took "
            f"{units.seconds(loop_s.min())} to {units.seconds(loop_s.max())} on the server's cores."
        )
        advice = "The machine itself probably varies: use one without neighbours or power saving, or run when they are quiet."
    return Finding(
        severity="suspect",
        metrics=RATES,
        seen=f"{units.counted(len(rates), 'trial')} of the cell range from {units.rate(rates.min())} to "
        f"{units.requests_per_s(rates.max())}, with a standard deviation of {units.share(math.expm1(spread))}"
        + (" relative to the others of their blocks" if loop_s is None else ""),
        threshold=f"limit: {units.share(math.expm1(limit))} for {len(rates)} trials",
        means=means,
        advice=advice,
    )


def _explained_by_core_speed(rates: Reals, loop_s: Reals) -> float | None:
    """Return the share of the rates' variance that core speed explains: the squared correlation of the logarithms.

    None if it explains less than `MIN_R_SQUARED`, or if too few speeds are known.
    """
    logs = np.log(loop_s)
    if len(rates) < MIN_TRIALS or not np.isfinite(logs).all() or np.ptp(logs) == 0:
        return None
    correlation = float(np.corrcoef(logs, np.log(rates))[0, 1])
    return correlation**2 if correlation < 0 and correlation**2 >= MIN_R_SQUARED else None
