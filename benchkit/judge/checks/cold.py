"""Check cold: the server was still warming up."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from statistics import fmean

import numpy as np
from scipy import special

from benchkit import units
from benchkit.judge.check import ALL, Check, CheckResult, Finding, RunCheckResult, SkippedCheck
from benchkit.judge.cpu_time import TimeSpan, loop_s, server_cores
from benchkit.judge.evidence import Evidence, RunEvidence
from benchkit.judge.sliced_blocks import relative_to_block
from benchkit.models.rows import SliceRow
from benchkit.models.thresholds import Thresholds
from benchkit.stats.inference import ALPHA, MIN_BLOCKS, holm
from benchkit.stats.samples import Reals, is_comparable

MIN_THIRD_S = 1.0
"""In shorter thirds rates vary by more than 10 % even on a server in steady state."""
MIN_SAMPLES = 4
"""Samples needed to bound three thirds."""
MIN_SLICES = 9
"""Slices of a trial, for three in each third."""
MIN_SPAN = 0.6
"""Share of the window between the first and the last sample in it."""
MIN_SPEED_SAMPLES = 8
"""Samples of a core's speed in each third: fewer add more noise than they remove."""
CLEAR_EXPONENT = 2
"""A cell is cold without a t test if all of its ratios are below (1 - threshold) to this power. For a threshold of 10 %
that is 0.81. Three trials whose rates vary by 30 % each are so by chance in 1 % of cells."""


def first_over_last(evidence: Evidence) -> float | None:
    """Return the entry server's rate in the first third of the window over its rate in the last, at equal core speed.

    The rate is counted by the server itself. At full speed it is proportional to the speed of the server's cores. The
    ratio is divided by the ratio of their speeds, where these were sampled. In a sliced block it is the rate of the
    first third of the slices over the last, as the load tool counted them. The block's other cells show the speed of
    the cores. None where the evidence is missing.
    """
    if evidence.record.slices:
        return None if _missing_slices(evidence) else _first_over_last_slices(evidence.slices)
    counts = _request_counts(evidence)
    if isinstance(counts, SkippedCheck):
        return None
    t_s, served = counts
    third_s = (t_s[-1] - t_s[0]) / 3
    first_span, last_span = (t_s[0], t_s[0] + third_s), (t_s[-1] - third_s, t_s[-1])
    first = float(np.interp(first_span[1], t_s, served)) - served[0]
    last = served[-1] - float(np.interp(last_span[0], t_s, served))
    if last <= 0:
        return None
    ratio = max(first, 1.0) / last  # a third without an answer counts as one with a single answer
    return ratio / _speed_ratio(evidence, first_span, last_span)


def of_trial(evidence: Evidence, _thresholds: Thresholds) -> CheckResult:
    """Skip a trial without the evidence that `of_run` compares."""
    if evidence.record.slices:
        why = _missing_slices(evidence)
        return SkippedCheck(why=why) if why else ()
    counts = _request_counts(evidence)
    return counts if isinstance(counts, SkippedCheck) else ()


def of_run(evidence: RunEvidence, thresholds: Thresholds) -> RunCheckResult:
    """Compare the first third of the window with the last, over all trials of a cell.

    Each trial starts its servers afresh. A server that has to warm up does so in every trial. A host whose speed drifts
    makes one trial faster and the next slower. The geometric mean of the ratios must be below the threshold. From three
    trials up it must also be below one by a one-sided t test, by Holm over the cells. The test is not needed where
    every ratio is clearly below the threshold (`CLEAR_EXPONENT`). With a first third at a tenth of the rate, ratios
    vary so much that three trials would not pass the test. All trials of such a cell are cold, or none: excluding only
    those in which the rate rose would select trials by value. In a sliced block the ratio of a trial is relative to
    those of the block's other cells, which share its seconds.
    """
    trials = evidence.trials[is_comparable(evidence.trials)]
    ratios = relative_to_block(trials, "rate_first_over_last")
    rows_by_cell = [
        known
        for rows in trials.groupby("cell_id").indices.values()
        if (known := [row for row in rows if not math.isnan(ratios[row])])
    ]
    p_values = holm([_p_of_a_rise(np.log(ratios[rows])) for rows in rows_by_cell])
    trial_ids = trials["trial_id"].to_list()
    return {
        str(trial_ids[row]): [_finding(ratios[rows], thresholds.cold)]
        for rows, p in zip(rows_by_cell, p_values, strict=True)
        if _is_cold(ratios[rows], p, thresholds.cold)
        for row in rows
    }


CHECK = Check("cold", "the server was still warming up", of_trial=of_trial, reads="hosts", of_run=of_run)


def _is_cold(ratios: Reals, p: float, threshold: float) -> bool:
    if math.exp(np.log(ratios).mean()) >= 1 - threshold:
        return False
    return len(ratios) < MIN_BLOCKS or ratios.max() < (1 - threshold) ** CLEAR_EXPONENT or p <= ALPHA


def _p_of_a_rise(logs: Reals) -> float:
    """Return the p of Student's one-sided t test that rates rose; 1 where there are too few for it."""
    if len(logs) < MIN_BLOCKS:
        return 1.0
    error = float(logs.std(ddof=1)) / math.sqrt(len(logs))
    mean = float(logs.mean())
    return float(special.stdtr(len(logs) - 1, mean / error)) if error else float(mean >= 0)


def _finding(ratios: Reals, threshold: float) -> Finding:
    decrease = 1 - math.exp(float(np.log(ratios).mean()))
    trials = f"over {len(ratios)} trials of the cell" if len(ratios) > 1 else "in the only trial of the cell"
    return Finding(
        severity="invalid",
        metrics=ALL,
        seen=f"{trials} the server answered {units.share(decrease)} fewer requests in the first third of the window than "
        "in the last",
        threshold=f"limit: {units.share(threshold)}",
        means="It was still warming up: its rate depends on when the window begins.",
        advice="Warm up longer (load: warmup_s) or measure longer.",
    )


def _missing_slices(evidence: Evidence) -> str:
    """Return the reason why the slices of a trial do not show how its rate changed; empty if they do."""
    if len(evidence.slices) < MIN_SLICES:
        return f"{units.counted(len(evidence.slices), 'slice')}: needs at least {MIN_SLICES}"
    return "" if all(each.requests is not None for each in evidence.slices) else "the requests of a slice are unknown"


def _first_over_last_slices(slices: Sequence[SliceRow]) -> float | None:
    third = len(slices) // 3
    first, last = (sum(each.requests or 0 for each in part) for part in (slices[:third], slices[-third:]))
    return max(first, 1.0) / last if last else None


def _request_counts(evidence: Evidence) -> tuple[Sequence[float], Sequence[float]] | SkippedCheck:
    """Return (times in the window, requests served) of the entry service, where they give rates of thirds.

    The counts of a service's processes (Node's workers) are added at the sample times of the first.
    """
    series, window_s = evidence.telemetry.series("requests_total", service=evidence.entry), evidence.window_s
    if not series:
        return SkippedCheck(why="the server does not count its requests")
    if window_s < 3 * MIN_THIRD_S:
        why = f"the window is shorter than {3 * MIN_THIRD_S:g} s: too short to compare start and end"
        return SkippedCheck(why=why)
    samples = [(each.aligned_times(window_s), each.values) for each in series]
    t_s = samples[0][0]
    inside = t_s[bisect_left(t_s, 0) : bisect_right(t_s, window_s)]
    if len(inside) < MIN_SAMPLES or inside[-1] - inside[0] < MIN_SPAN * window_s:
        return SkippedCheck(why="the server's request count was sampled too seldom to compare start and end")
    served = np.sum([np.interp(inside, *each) for each in samples], axis=0)
    return inside, served.tolist()


def _speed_ratio(evidence: Evidence, first: TimeSpan, last: TimeSpan) -> float:
    """Return the speed of the server's cores in one span over that in another: the geometric mean over the cores.

    1 if no core was sampled often enough in both, and under a target rate, which does not depend on core speed.
    """
    logs = []
    for core in server_cores(evidence) if evidence.closed_loop else ():
        first_s, last_s = (loop_s(evidence, [core], span, MIN_SPEED_SAMPLES) for span in (first, last))
        if first_s is not None and last_s is not None:
            logs.append(math.log(last_s / first_s))
    return math.exp(fmean(logs)) if logs else 1.0
