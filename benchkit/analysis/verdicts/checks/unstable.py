"""Repetitions disagree."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
from scipy import stats

from benchkit import units
from benchkit.analysis.family import ALPHA
from benchkit.analysis.inference import MIN_BLOCKS, t_quantile
from benchkit.analysis.samples import Reals, counting
from benchkit.analysis.verdicts.check import RATES, Check, Found, FoundInRun, Reason, Unchecked
from benchkit.analysis.verdicts.evidence import RunEvidence
from benchkit.scenario.thresholds import Thresholds

STATED_FOR = 6
"""Blocks: the threshold is that of a cell with so many trials."""
EXPLAINED = 0.5
"""Of the variance: what explains so much of it is what varies from trial to trial."""


def of_run(evidence: RunEvidence, thresholds: Thresholds) -> FoundInRun:
    """The spread of each cell's rates over its trials, as the standard deviation of their logarithms.

    It may be as large as leaves the interval of a ratio as wide as the threshold does over six blocks: with few of them
    the same noise hides more, with many less. Where it goes with how fast the server's cores were, the reason says so.
    """
    found: dict[str, Found] = {}
    trials = evidence.trials[counting(evidence.trials)]
    all_rates, all_loops_s = (
        pd.to_numeric(trials[name]).to_numpy(dtype=np.float64) for name in ("rps", "server_loop_s")
    )
    usable = np.isfinite(all_rates) & (all_rates > 0)
    trial_ids = trials["trial_id"].to_list()
    for places in trials.groupby("cell_id").indices.values():
        counted = places[usable[places]]
        rates = all_rates[counted]
        if len(rates) < MIN_BLOCKS:
            why = f"{units.counted(len(rates), 'trial')} of the cell: a spread takes {MIN_BLOCKS}"
            found |= {str(trial_ids[place]): Unchecked(why=why) for place in places}
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


def _reason(spread: float, most: float, rates: Reals, loops_s: Reals) -> Reason:
    known_to = math.expm1(math.sqrt(2) * spread * _reach(len(rates)))  # a ratio has the noise of two cells
    by_speed = _by_speed(rates, loops_s)
    return Reason(
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
        advice="The machine changes its speed: use one without neighbours or power saving, or run when they are quiet."
        if by_speed
        else "Look for what varies from trial to trial; more blocks help by their square root only.",
    )


def _by_speed(rates: Reals, loops_s: Reals) -> float | None:
    """The share of the variance of rates that goes with the speed of cores, where it is most of it; None: it is not.

    The squared correlation of the logarithms, which has to be significant: two series of three values look alike often.
    """
    if not np.isfinite(loops_s).all() or np.ptp(loops_s) == 0:
        return None
    along = stats.pearsonr(np.log(loops_s), np.log(rates), alternative="less")
    share = float(along.statistic**2)
    return share if along.pvalue < ALPHA and share >= EXPLAINED else None
