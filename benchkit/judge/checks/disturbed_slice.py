"""Check disturbed-slice: something slowed a single slice."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from benchkit import units
from benchkit.judge.block_slices import EMPTY, ordered_slices
from benchkit.judge.check import LOAD, Check, CheckResult, Finding, RunCheckResult
from benchkit.judge.evidence import RunEvidence
from benchkit.models.thresholds import Thresholds
from benchkit.stats.samples import Reals

OUTLYING = 5.0
"""Robust standard deviations of a trial's slices: normal ones lie that far out once in three million."""
MAD_TO_SD = 1.4826
"""Standard deviation of a normal distribution over its median absolute deviation."""


def of_run(evidence: RunEvidence, thresholds: Thresholds) -> RunCheckResult:
    """Look for slices far below the others of their trial, in comparison with the block's other cells in their round.

    What slowed the whole round is no finding. No slice is ever removed: a value is no reason to.
    """
    slices = ordered_slices(evidence)
    results: dict[str, CheckResult] = {}
    for _, block in slices.groupby("block"):
        logs = block.pivot_table(index="slice", columns="trial_id", values="log_rps")
        logs = logs - logs.median()
        for trial_id in logs.columns:
            others = logs.drop(columns=trial_id)
            relative = (logs[trial_id] - others.median(axis=1).fillna(0.0)).dropna()
            if finding := _finding_of(block[block["trial_id"] == trial_id].set_index("slice"), relative, thresholds):
                results[str(trial_id)] = [finding]
    return results


CHECK = Check("disturbed-slice", "something slowed a single slice", of_run=of_run)


def _finding_of(slices: pd.DataFrame, relative: pd.Series[float], thresholds: Thresholds) -> Finding | None:
    """Return the finding on the slices of a trial, given their log rates relative to all others, or None."""
    logs: Reals = np.asarray(relative, dtype=np.float64)
    spread = MAD_TO_SD * float(np.median(np.abs(logs - np.median(logs))))
    requests: Reals = slices["requests"].reindex(relative.index).to_numpy(dtype=np.float64)
    missing = np.maximum(requests, EMPTY) * np.expm1(-logs) / requests.sum()
    outlying = (logs < -OUTLYING * spread) & (missing > thresholds.slice_effect)
    if not outlying.any():
        return None
    worst = int(np.argmax(np.where(outlying, missing, -1)))
    started_s = float(slices["started_s"].reindex(relative.index).iloc[worst])
    rest = int(outlying.sum()) - 1
    return Finding(
        severity="suspect",
        metrics=LOAD,
        seen=f"slice {relative.index[worst]}, {started_s:.1f} s into the block, has {_share(requests, logs, worst)} "
        f"of the rate to be expected from the others, which costs the trial {units.share(float(missing[worst]))} of its "
        f"requests{f'; so have {rest} more' if rest else ''}",
        threshold=f"limit: {units.share(thresholds.slice_effect)}, {OUTLYING:g} standard deviations",
        means="Something slowed this slice alone; the trial still counts, with all of its slices.",
        advice="Look at the slices of the block (figure slices): in a longer window each of them counts for less.",
    )


def _share(requests: Reals, logs: Reals, worst: int) -> str:
    return units.share(math.exp(logs[worst])) if requests[worst] else "none"
