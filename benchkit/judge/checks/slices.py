"""Checks of sliced blocks: servers that work without load, and what a slice leaves behind."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import special

from benchkit import units
from benchkit.judge.check import LOAD, Check, CheckResult, Finding, RunCheckResult, SkippedCheck
from benchkit.judge.evidence import Evidence, RunEvidence
from benchkit.judge.sliced_blocks import neighbour_share, ordered_slices, sliced_trials
from benchkit.models.thresholds import Thresholds
from benchkit.stats.inference import ALPHA, holm
from benchkit.stats.samples import Reals


def _neighbour_evidence(evidence: Evidence, _thresholds: Thresholds) -> CheckResult:
    """Skip a trial of a sliced block without the evidence that `_neighbour_work` compares."""
    if evidence.record.slices and neighbour_share(evidence.record) is None:
        return SkippedCheck(why="the CPU time of the block's other servers is unknown")
    return ()


def _neighbour_work(evidence: RunEvidence, thresholds: Thresholds) -> RunCheckResult:
    """Compare the CPU time that servers without load used in the slices of each cell of a block.

    Garbage collection, timers and threads in the background take CPU time from the server under load, which may in turn
    leave its neighbours alone. Random order does not cancel that, so that the interval of a ratio includes it
    (`benchkit.comparison.ratios`). What all cells take from each other alike does not change their ratio. A quota lets
    every server finish its last requests in the next slice.
    """
    limit = thresholds.neighbour_cpu
    trials = sliced_trials(evidence.trials)
    results: dict[str, CheckResult] = {}
    for trial_id, share in trials[["trial_id", "neighbour_share"]].dropna().itertuples(index=False):
        if share > limit:
            finding = Finding(
                severity="suspect",
                metrics=LOAD,
                seen="servers of the block's other cells, which had no load, used "
                f"{units.share(share)} of the CPU time of this cell's servers in its slices",
                threshold=f"limit: {units.share(limit)}",
                means="The cells of the block took CPU time from each other: the interval of a ratio includes what is unequal.",
                advice="Use design: blocks, which runs one cell at a time, or longer slices (slice_s).",
            )
            results[str(trial_id)] = [finding]
    return results


BUSY_NEIGHBOUR = Check(
    "busy-neighbour",
    "a server without load worked in the slices of another",
    of_trial=_neighbour_evidence,
    of_run=_neighbour_work,
)


MIN_FREEDOM = 20
"""Degrees of freedom of the error; with fewer, only effects that are several times the noise of a slice would show."""


class CarryOver(NamedTuple):
    """First-order carry-over to a cell."""

    log_effect: float
    """Change of its log rate after a slice of another cell, compared with after a slice of its own."""
    p: float
    """Two-sided p of Student's t, by Holm over the cells."""


def _carry_over_of_run(evidence: RunEvidence, thresholds: Thresholds) -> RunCheckResult:
    """Estimate for each cell how a slice of another cell before its own changes its rate, from the random order.

    A slice may leave behind connections that wait for their end (TIME_WAIT), full caches and unfinished work. The rate
    of the next slice then depends on the cell before it. Only an effect that the test shows and that is above the
    threshold counts.
    """
    slices = ordered_slices(evidence)
    if slices.empty:
        return {}
    effects = carry_over(slices)
    if not effects:
        why = "too few slices to compare those after another cell with those after their own"
        return dict.fromkeys(map(str, slices["trial_id"]), SkippedCheck(why=why))
    results: dict[str, CheckResult] = {}
    for cell_id, effect in effects.items():
        if effect.p <= ALPHA and abs(effect.log_effect) > math.log1p(thresholds.carry_over):
            of_cell = slices.loc[slices["cell_id"] == cell_id, "trial_id"]
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
            results |= {trial_id: [finding] for trial_id in map(str, of_cell)}
    return results


CARRY_OVER = Check("carry-over", "what one slice left behind changed the next", of_run=_carry_over_of_run)


def carry_over(slices: pd.DataFrame) -> Mapping[str, CarryOver]:
    """Return the first-order carry-over to each cell; empty with too few slices.

    It is estimated by least squares on the log rates of slices. Each cell and each round have an effect in each block.
    So neither differences between cells nor the host's drift matter (Jones & Kenward, Design and Analysis of Cross-Over
    Trials, 2014, ch. 4). Slices without an answer do not count: one would outweigh all others.
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
