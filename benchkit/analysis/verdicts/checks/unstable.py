"""Repetitions disagree."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from benchkit import units
from benchkit.analysis.inference import MIN_BLOCKS, t_quantile
from benchkit.analysis.multiple_tests import ALPHA
from benchkit.analysis.samples import Reals, is_comparable
from benchkit.analysis.verdicts.check import RATES, Check, CheckResult, Finding, RunCheckResult, SkippedCheck
from benchkit.analysis.verdicts.evidence import RunEvidence
from benchkit.models.thresholds import Thresholds

STATED_FOR = 6
"""Blocks: the threshold is that of a cell with so many trials."""
EXPLAINED, EXPLAINED_FROM = 0.65, 5
"""The squared correlation from which on one thing is said to go with another, and the trials that it takes: by chance five come
to it in one cell of twenty, more of them less often (Student's t on a correlation, one-sided)."""


def of_run(evidence: RunEvidence, thresholds: Thresholds) -> RunCheckResult:
    """The spread of each cell's rates over its trials, as the standard deviation of their logarithms.

    It may be as large as leaves the interval of a ratio as wide as the threshold does over six blocks: with few of them
    the same noise hides more, with many less. Where it goes with how fast the server's cores were, the reason says so.
    """
    found: dict[str, CheckResult] = {}
    trials = evidence.trials[is_comparable(evidence.trials)]
    all_rates, all_loops_s, asked = (
        pd.to_numeric(trials[name]).to_numpy(dtype=np.float64) for name in ("rps", "server_loop_s", "rate_requested")
    )
    all_loops_s = np.where(np.isnan(asked), all_loops_s, np.nan)  # a set rate does not go by how fast cores are
    usable = np.isfinite(all_rates) & (all_rates > 0)
    trial_ids = trials["trial_id"].to_list()
    for places in trials.groupby("cell_id").indices.values():
        counted = places[usable[places]]
        rates = all_rates[counted]
        if len(rates) < MIN_BLOCKS:
            why = f"{units.counted(len(rates), 'trial')} of the cell: a spread takes {MIN_BLOCKS}"
            found |= {str(trial_ids[place]): SkippedCheck(why=why) for place in places}
            continue
        spread = float(np.std(np.log(rates), ddof=1))
        most = thresholds.spread * _reach(STATED_FOR) / _reach(len(rates))
        if spread > most:
            reason = _reason(spread, most, rates, all_loops_s[counted])
            found |= {str(trial_ids[place]): [reason] for place in places}
    return found


CHECK = Check("unstable", "repetitions disagree", of_run=of_run)


def _reach(blocks: int) -> float:
    """How far the interval of a mean over so many blocks reaches to either side, in standard deviations of one."""
    return t_quantile(1 - ALPHA, blocks - 1) / math.sqrt(blocks)


def _reason(spread: float, most: float, rates: Reals, loops_s: Reals) -> Finding:
    known_to = math.expm1(math.sqrt(2) * spread * _reach(len(rates)))  # a ratio has the noise of two cells
    by_speed = _by_speed(rates, loops_s)
    return Finding(
        severity="suspect",
        metrics=RATES,
        seen=f"{units.counted(len(rates), 'trial')} of the cell lie between {units.rate(rates.min())} and "
        f"{units.requests_per_s(rates.max())}, with a standard deviation of {units.share(math.expm1(spread))}",
        threshold=f"above {units.share(math.expm1(most))} over so many",
        means=f"A ratio of two such cells is known to {units.share(known_to)}: differences that matter are hidden."
        + (
            f" {units.share(by_speed)} of the variance goes with how fast the server's cores were: a small loop took "
            f"{units.seconds(loops_s.min())} to {units.seconds(loops_s.max())} on them."
            if by_speed
            else ""
        ),
        advice="It seems to be the machine that varies: use one without neighbours or power saving, or run when they are quiet."
        if by_speed
        else "Look for what varies from trial to trial; more blocks help by their square root only.",
    )


def _by_speed(rates: Reals, loops_s: Reals) -> float | None:
    """The share of the variance of rates that goes with the speed of cores, where it is most of it; None: it is not.

    That is the squared correlation of the logarithms.
    """
    logs = np.log(loops_s)
    if len(rates) < EXPLAINED_FROM or not np.isfinite(logs).all() or np.ptp(logs) == 0:
        return None
    along = float(np.corrcoef(logs, np.log(rates))[0, 1])
    return along**2 if along < 0 and along**2 >= EXPLAINED else None
