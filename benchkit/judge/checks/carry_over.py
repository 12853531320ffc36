"""Check carry-over: what one slice left behind changed the next."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import special

from benchkit import units
from benchkit.judge.block_slices import ordered_slices
from benchkit.judge.check import LOAD, Check, CheckResult, Finding, RunCheckResult, SkippedCheck
from benchkit.judge.evidence import RunEvidence
from benchkit.models.thresholds import Thresholds
from benchkit.stats.multiple_tests import ALPHA, holm
from benchkit.stats.samples import Reals

MIN_FREEDOM = 20
"""Degrees of freedom of the error; with fewer, only effects that are several times the noise of a slice would show."""


class CarryOver(NamedTuple):
    """First-order carry-over to a cell."""

    log_effect: float
    """Change of its log rate after a slice of another cell, against one after its own."""
    p: float
    """Two-sided p of Student's t, by Holm over the cells."""


def of_run(evidence: RunEvidence, thresholds: Thresholds) -> RunCheckResult:
    """Estimate for each cell how a slice of another cell before its own changes its rate, from the random order.

    Rates of slices in connections that wait for their end (TIME_WAIT), in caches, or with work left over from the slice
    before depend on whose slice that was. Only an effect that the test shows and that is above the threshold counts.
    """
    slices = ordered_slices(evidence)
    if slices.empty:
        return {}
    trial_ids = slices.groupby("cell_id")["trial_id"].unique()
    effects = carry_over(slices)
    if not effects:
        why = "too few slices to compare those after another cell with those after their own"
        return {str(each): SkippedCheck(why=why) for ids in trial_ids for each in ids}
    results: dict[str, CheckResult] = {}
    for cell_id, effect in effects.items():
        if effect.p <= ALPHA and abs(effect.log_effect) > math.log1p(thresholds.carry_over):
            results |= {str(each): [_finding(effect, thresholds)] for each in trial_ids[cell_id]}
    return results


CHECK = Check("carry-over", "what one slice left behind changed the next", of_run=of_run)


def carry_over(slices: pd.DataFrame) -> Mapping[str, CarryOver]:
    """Return the first-order carry-over to each cell; empty with too few slices.

    Least squares on the log rates of slices, with an effect of each cell and of each round in each block, so that
    neither differences between cells nor the drift of the host count (Jones & Kenward, Design and Analysis of
    Cross-Over Trials, 2014, ch. 4). Slices without an answer, which `disturbed-slice` reports, do not count: one would
    outweigh all others.
    """
    known = slices[slices["log_rps"].notna() & (slices["requests"] > 0) & slices["before"].notna()]
    cells = sorted(set(known["cell_id"]))
    parts: list[Reals] = []
    freedom = len(known) - len(cells)
    for _, block in known.groupby("block"):
        after_another = [((block["cell_id"] == cell) & (block["before"] != cell)).to_numpy() for cell in cells]
        columns: Reals = np.column_stack([block["log_rps"], *after_another]).astype(np.float64)
        dummies = pd.get_dummies(block[["cell_id", "slice"]].astype(str)).to_numpy(dtype=np.float64)
        fitted, _, rank, _ = np.linalg.lstsq(dummies, columns, rcond=None)
        parts.append(columns - dummies @ fitted)
        freedom -= int(rank)
    if freedom < MIN_FREEDOM:
        return {}
    residuals = np.vstack(parts)
    rates, regressors = residuals[:, 0], residuals[:, 1:]
    effects, _, rank, _ = np.linalg.lstsq(regressors, rates, rcond=1e-9)
    if rank < len(cells):
        return {}
    variance = float(((rates - regressors @ effects) ** 2).sum()) / freedom
    errors = np.sqrt(variance * np.diag(np.linalg.inv(regressors.T @ regressors)))
    p = holm(list(2 * special.stdtr(freedom, -np.abs(effects) / errors)))
    return {cell: CarryOver(float(effect), float(each)) for cell, effect, each in zip(cells, effects, p, strict=True)}


def _finding(effect: CarryOver, thresholds: Thresholds) -> Finding:
    change = math.expm1(effect.log_effect)
    return Finding(
        severity="suspect",
        metrics=LOAD,
        seen=f"the cell answered {units.share(abs(change))} {'fewer' if change < 0 else 'more'} requests after a slice of "
        f"another cell than after one of its own (p = {effect.p:.2g})",
        threshold=f"limit: {units.share(thresholds.carry_over)}, p {ALPHA:g}",
        means="What another cell left behind (closing connections, full caches, unfinished work) is in its rate.",
        advice="Use longer slices (slice_s), or design: blocks.",
    )
