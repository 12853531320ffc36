"""Check busy-neighbour: servers without load worked in the slices of another."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from benchkit import units
from benchkit.judge.block_balance import sliced_trials
from benchkit.judge.check import LOAD, Check, CheckResult, Finding, RunCheckResult, SkippedCheck
from benchkit.judge.evidence import Evidence, RunEvidence
from benchkit.models.thresholds import Thresholds
from benchkit.models.trial import TrialRecord
from benchkit.stats.samples import log_left


def neighbour_share(record: TrialRecord) -> float | None:
    """Return the share of the CPU time of its servers' CPUs that the block's other servers used in its slices.

    None for a trial in one piece, and where that time or those CPUs are unknown.
    """
    slices = record.slices
    used_s = [each.neighbour_cpu_s for each in slices if each.neighbour_cpu_s is not None]
    cpus = {(service.host, cpu) for service in record.services for cpu in service.cpus}
    if not slices or not cpus or len(used_s) < len(slices):
        return None
    return sum(used_s) / sum(each.duration_s for each in slices) / len(cpus)


def inequality(shares: Iterable[float]) -> float:
    """Return how far apart the CPU time is that was left to the cells of a block, as a difference of logarithms."""
    left = log_left(np.fromiter(shares, dtype=np.float64))
    return float(np.ptp(left)) if len(left) else 0.0


def of_trial(evidence: Evidence, _thresholds: Thresholds) -> CheckResult:
    """Check that a trial of a sliced block has the evidence that `of_run` compares."""
    if evidence.record.slices and neighbour_share(evidence.record) is None:
        return SkippedCheck(why="the CPU time of the block's other servers is unknown")
    return ()


def of_run(evidence: RunEvidence, thresholds: Thresholds) -> RunCheckResult:
    """Compare the CPU time that servers without load used in the slices of each cell of a block.

    Garbage collection, timers and threads in the background take CPU time from the server under load, which may in turn
    leave its neighbours alone: random order does not cancel that, so that the interval of a ratio includes it
    (`benchkit.comparison.ratios`). What all cells take from each other alike does not change their ratio: a quota lets
    every server finish its last requests in the next slice.
    """
    limit = thresholds.neighbour_cpu
    trials = sliced_trials(evidence.trials)
    results: dict[str, CheckResult] = {}
    for _, block in trials[trials["neighbour_share"].notna()].groupby("block"):
        is_unequal = inequality(block["neighbour_share"]) > limit
        for trial_id, share in zip(block["trial_id"], block["neighbour_share"], strict=True):
            if share > limit:
                results[str(trial_id)] = [_finding(share, limit, is_unequal=is_unequal)]
    return results


CHECK = Check(
    "busy-neighbour", "a server without load worked in the slices of another", of_trial=of_trial, of_run=of_run
)


def _finding(share: float, limit: float, *, is_unequal: bool) -> Finding:
    return Finding(
        severity="suspect",
        metrics=LOAD,
        seen=f"servers of the block's other cells, which had no load, used {units.share(share)} of the CPU time of this "
        "cell's servers in its slices",
        threshold=f"limit: {units.share(limit)}{', and as much between cells' if is_unequal else ''}",
        means="They took CPU time from it that it did not take from them: the interval of a ratio includes as much."
        if is_unequal
        else "The cells of the block took CPU time from each other alike: their ratio holds, while each rate is lower.",
        advice="Use design: blocks, which runs one cell at a time, or longer slices (slice_s).",
    )
