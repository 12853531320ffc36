"""Repetitions disagree."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from benchkit import units
from benchkit.analysis.family import ALPHA
from benchkit.analysis.inference import MIN_BLOCKS, t_quantile
from benchkit.analysis.samples import counting
from benchkit.analysis.verdicts.check import RATES, Check, Found, FoundInRun, Reason, Unchecked
from benchkit.analysis.verdicts.evidence import RunEvidence
from benchkit.scenario.thresholds import Thresholds

STATED_FOR = 6
"""Blocks: the threshold is that of a cell with so many trials."""


def of_run(evidence: RunEvidence, thresholds: Thresholds) -> FoundInRun:
    """The spread of each cell's rates over its trials, as the standard deviation of their logarithms.

    It may be as large as leaves the interval of a ratio as wide as the threshold does over six blocks: with few of them
    the same noise hides more, with many less.
    """
    found: dict[str, Found] = {}
    trials = evidence.trials[counting(evidence.trials)]
    all_rates = pd.to_numeric(trials["rps"]).to_numpy(dtype=np.float64)
    usable = np.isfinite(all_rates) & (all_rates > 0)
    trial_ids = trials["trial_id"].to_list()
    for places in trials.groupby("cell_id").indices.values():
        rates = all_rates[places][usable[places]]
        if len(rates) < MIN_BLOCKS:
            why = f"{units.counted(len(rates), 'trial')} of the cell: a spread takes {MIN_BLOCKS}"
            found |= {str(trial_ids[place]): Unchecked(why=why) for place in places}
            continue
        spread = float(np.std(np.log(rates), ddof=1))
        most = thresholds.spread * _reach(STATED_FOR) / _reach(len(rates))
        if spread > most:
            reason = _reason(spread, most, rates)
            found |= {str(trial_ids[place]): [reason] for place in places}
    return found


CHECK = Check("unstable", "repetitions disagree", of_run=of_run)


def _reach(blocks: int) -> float:
    """How far the interval of a mean over so many blocks reaches to either side, in standard deviations of one."""
    return t_quantile(1 - ALPHA, blocks - 1) / math.sqrt(blocks)


def _reason(spread: float, most: float, rates: np.ndarray) -> Reason:
    known_to = math.expm1(math.sqrt(2) * spread * _reach(len(rates)))  # a ratio has the noise of two cells
    return Reason(
        severity="suspect",
        metrics=RATES,
        seen=f"{units.counted(len(rates), 'trial')} of the cell lie between {units.rate(rates.min())} and "
        f"{units.requests_per_s(rates.max())}, with a standard deviation of {units.share(math.expm1(spread))}",
        threshold=f"above {units.share(math.expm1(most))} over so many",
        means=f"A ratio of two such cells is known to {units.share(known_to)}: differences that matter are hidden.",
        advice="Look for what varies from trial to trial; more blocks help by their square root only.",
    )
