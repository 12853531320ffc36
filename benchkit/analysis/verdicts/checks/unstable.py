"""Repetitions disagree."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from benchkit import units
from benchkit.analysis.inference import MIN_BLOCKS
from benchkit.analysis.samples import counting
from benchkit.analysis.verdicts.check import RATES, Check, Found, FoundInRun, Reason, Unchecked
from benchkit.analysis.verdicts.evidence import RunEvidence
from benchkit.scenario.thresholds import Thresholds


def of_run(evidence: RunEvidence, thresholds: Thresholds) -> FoundInRun:
    """The spread of each cell's rates over its trials, as the standard deviation of their logarithms."""
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
        if spread > thresholds.spread:
            reason = _reason(spread, rates, thresholds)
            found |= {str(trial_ids[place]): [reason] for place in places}
    return found


CHECK = Check("unstable", "repetitions disagree", of_run=of_run)


def _reason(spread: float, rates: np.ndarray, thresholds: Thresholds) -> Reason:
    return Reason(
        severity="suspect",
        metrics=RATES,
        seen=f"{units.counted(len(rates), 'trial')} of the cell lie between {units.rate(rates.min())} and "
        f"{units.requests_per_s(rates.max())}, with a standard deviation of {units.share(math.expm1(spread))}",
        threshold=f"above {units.share(math.expm1(thresholds.spread))}",
        means="So much noise hides the differences that the design could otherwise show.",
        advice="Look for what varies from trial to trial; more blocks help by their square root only.",
    )
