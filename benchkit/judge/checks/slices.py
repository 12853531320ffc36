"""The check of the effect of a slice on the next one: carry-over."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import special

from benchkit import units
from benchkit.judge.check import LOAD, Check, CheckResult, Finding, RunCheckResult, SkippedCheck
from benchkit.judge.evidence import RunEvidence
from benchkit.judge.sliced_blocks import sliced_trials
from benchkit.models.thresholds import Thresholds
from benchkit.stats.inference import ALPHA, holm
from benchkit.stats.samples import Reals

MIN_FREEDOM = 20
"""Fewest degrees of freedom of the error: with fewer, only effects of several times the noise of a slice would show."""


class CarryOver(NamedTuple):
    """First-order carry-over to a cell."""

    log_effect: float
    """Change of its log rate after a slice of another cell, compared with after a slice of its own."""
    p: float
    """Two-sided p of Student's t, by Holm over the cells."""


def _carry_over_of_run(evidence: RunEvidence, thresholds: Thresholds) -> RunCheckResult:
    """Estimate for each cell how a slice of another cell before its own changes its rate, from the random order.

    A slice may leave behind connections in TIME_WAIT, full caches and unfinished work. The rate of the next slice then
    depends on the cell before it. An effect counts if the test shows it and it is above the threshold.
    """
    cells = sliced_trials(evidence.trials).groupby("cell_id")["trial_id"].agg(list)
    if cells.empty or evidence.slices.empty:
        return {}
    effects = carry_over(evidence)
    if not effects:
        why = "too few slices to compare those after another cell with those after their own"
        return {str(trial_id): SkippedCheck(why=why) for trial_ids in cells for trial_id in trial_ids}
    results: dict[str, CheckResult] = {}
    for cell_id, effect in effects.items():
        if effect.p <= ALPHA and abs(effect.log_effect) > math.log1p(thresholds.carry_over):
            change = math.expm1(effect.log_effect)
            finding = Finding(
                severity="suspect",
                metrics=LOAD,
                seen=f"the cell answered {units.share(abs(change))} {'fewer' if change < 0 else 'more'} requests after a slice "
                f"of another cell than after one of its own (p = {effect.p:.2g})",
                threshold=f"limit: {units.share(thresholds.carry_over)}, p {ALPHA:g}",
                means="What another cell left behind (closing connections, full caches, unfinished work) is in its rate.",
                advice="Use longer slices (slice_s), or design: blocks.",
            )
            results |= {str(trial_id): [finding] for trial_id in cells[cell_id]}
    return results


CARRY_OVER = Check("carry-over", "what one slice left behind changed the next", of_run=_carry_over_of_run)


def carry_over(evidence: RunEvidence) -> Mapping[str, CarryOver]:
    """Return the first-order carry-over to each cell; empty with too few slices.

    It is estimated by least squares on the log rates of slices (Jones & Kenward, Design and Analysis of Cross-Over
    Trials, 2014, ch. 4). Each block has an effect for each cell and each round, so neither differences between cells
    nor the host's drift matter.
    """
    slices = _answered_slices(evidence)
    cells = sorted(set(slices["cell_id"]))
    parts: list[Reals] = []
    freedom = len(slices) - len(cells)
    for _, block in slices.groupby("block"):
        after_another = [((block["cell_id"] == cell) & (block["before"] != cell)).to_numpy() for cell in cells]
        columns: Reals = np.column_stack([np.log(block["rps"]), *after_another]).astype(np.float64)
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


def _answered_slices(evidence: RunEvidence) -> pd.DataFrame:
    """Return the slices with answers that follow another slice of their block, which is of the cell `before`."""
    trials = sliced_trials(evidence.trials)[["trial_id", "cell_id", "block"]]
    slices = evidence.slices.merge(trials, on="trial_id").sort_values(["block", "slice", "place"], ignore_index=True)
    turn = slices["slice"] * slices.groupby("block")["place"].transform("max") + slices["place"]
    follows = (slices["block"] == slices["block"].shift()) & (turn == turn.shift() + 1)
    slices = slices.assign(rps=slices["rps"].astype("float64"), before=slices["cell_id"].shift())
    return slices[follows & (slices["rps"] > 0) & (slices["requests"] > 0)]
