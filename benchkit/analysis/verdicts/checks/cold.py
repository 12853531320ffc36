"""The server was still warming up."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Sequence
from statistics import fmean

import numpy as np

from benchkit import units
from benchkit.analysis.inference import MIN_BLOCKS, t_quantile
from benchkit.analysis.multiple_tests import ALPHA
from benchkit.analysis.samples import Reals, is_comparable
from benchkit.analysis.verdicts.check import ALL, Check, CheckResult, Finding, RunCheckResult, SkippedCheck
from benchkit.analysis.verdicts.core_speed import Core, Span, load_cores, loop_s, server_cores
from benchkit.analysis.verdicts.evidence import Evidence, RunEvidence
from benchkit.models.telemetry import generator_service
from benchkit.models.thresholds import Thresholds

LEAST_THIRD_S = 1.0
"""Rates are those of seconds: over less of a time they differ by more than 10 % from one third to the next on a server that
has long settled."""
LEAST_SAMPLES = 4
"""Three thirds have four ends."""
LEAST_SPAN = 0.6
"""Of the window, between the first and the last sample in it."""
RISES = 0.5
"""The power of the rate by which a request gets dearer for a load tool where it gets fewer answers, so that it finds fewer of
them at a time. wrk took 9, 23 and 35 % more CPU time for each where a server that worked longer let the rate fall by 18, 28
and 44 % (powers of 0.44, 0.62 and 0.51 over six pairs of trials each on a lab)."""
SPEEDS = 0.7
"""The power of its cores' speed by which a server's rate goes. Over 222 trials of two servers on a lab whose cores were often
slowed it takes most off what the rates of thirds differ by: a standard deviation of 0.105 is left of 0.167."""
LEAST_LOOKS = 8
"""At a core in each of the two thirds, to tell its speed there: fewer would put more noise in than they take off."""
CLEARLY = 2
"""Times below the threshold, multiplied: of three trials in which rates vary by 30 % each is, by chance, in 1 % of cells."""


def first_over_last(evidence: Evidence) -> float | None:
    """The entry server's rate in the first third of the window over that in the last, by its own count of requests.

    Less what the machines did. The server's cores were seen to get faster or slower: its rate goes by that to the power of
    `SPEEDS`. Or connections were being opened, or nobody looked at cores, but a request cost the load tool more in the
    first third than its own cores and a lower rate alone make it cost: the rate goes by speed times warmth, the cost by the
    inverse of speed times warmth to the power of `RISES`. This is the warmth that follows from both, but never less than
    the rates and the server's cores say, and the load tool's costs make it one at most. None where the evidence does not
    tell.
    """
    counts = _counts(evidence)
    if counts is None or _lacking(evidence, counts[0]):
        return None
    t_s, served = counts
    third_s = (t_s[-1] - t_s[0]) / 3
    first, last = _at(t_s[0] + third_s, t_s, served) - served[0], served[-1] - _at(t_s[-1] - third_s, t_s, served)
    if last <= 0:
        return None
    thirds = (t_s[0], t_s[0] + third_s), (t_s[-1] - third_s, t_s[-1])
    seen = max(first, 1.0) / last  # a third without an answer is as one with a single one
    seen *= math.pow(_slower(evidence, server_cores(evidence), *thirds), SPEEDS)
    dearer = _dearer(evidence, t_s, served) / math.pow(_slower(evidence, load_cores(evidence), *thirds), SPEEDS)
    return max(seen, min(1.0, math.pow(seen * max(1.0, dearer), 1 / (1 - RISES))))


def of_trial(evidence: Evidence, _thresholds: Thresholds) -> CheckResult:
    """Whether the trial tells what `of_run` looks at."""
    counts = _counts(evidence)
    why = "the server tells no count of its requests" if counts is None else _lacking(evidence, counts[0])
    return SkippedCheck(why=why) if why else ()


def of_run(evidence: RunEvidence, thresholds: Thresholds) -> RunCheckResult:
    """The first third of the window against the last, over all trials of a cell.

    Each of them has its servers started afresh, so that one that has to warm up does so in all; the speed of a host that
    changes by itself has one trial get faster and the next slower. So it is their geometric mean that is held to the
    threshold, and from three trials up it has to be below one by a one-sided t test, too, but where each of them is so
    `CLEARLY`: what makes one third a tenth of another does not make it the same tenth each time, and the spread of three
    such trials is more than the test bears. All trials of such a cell are cold, or none: to leave out those alone in
    which rates rose would choose trials by their values.
    """
    found: dict[str, CheckResult] = {}
    trials = evidence.trials[is_comparable(evidence.trials)]
    every: Reals = trials["rate_first_over_last"].to_numpy(dtype=np.float64, na_value=np.nan)
    trial_ids = trials["trial_id"].to_list()
    for places in trials.groupby("cell_id").indices.values():
        told = [place for place in places if not math.isnan(every[place])]
        if told and _is_cold(every[told], thresholds.cold):
            found |= {str(trial_ids[place]): [_reason(every[told], thresholds.cold)] for place in told}
    return found


CHECK = Check("cold", "the server was still warming up", of_trial=of_trial, of_run=of_run)


def _is_cold(ratios: Reals, most: float) -> bool:
    logs = np.log(ratios)
    mean = float(logs.mean())
    if math.exp(mean) >= 1 - most:
        return False
    if len(logs) < MIN_BLOCKS or ratios.max() < (1 - most) ** CLEARLY:
        return True
    error = float(logs.std(ddof=1)) / math.sqrt(len(logs))
    return mean + t_quantile(1 - 2 * ALPHA, len(logs) - 1) * error < 0


def _reason(ratios: Reals, most: float) -> Finding:
    below = 1 - math.exp(float(np.log(ratios).mean()))
    over = f"over {len(ratios)} trials of the cell" if len(ratios) > 1 else "in the only trial of the cell"
    return Finding(
        severity="invalid",
        metrics=ALL,
        seen=f"{over} the server answered {units.share(below)} fewer requests in the first third of the window than in "
        "the last",
        threshold=f"more than {units.share(most)} fewer",
        means="It was still getting faster: the rate is that of a change, and depends on when one looks.",
        advice="Warm up longer (load: warmup_s) or measure longer.",
    )


def _lacking(evidence: Evidence, t_s: Sequence[float]) -> str:
    """Why these instants tell no rates of thirds; empty where they do."""
    if evidence.window_s < 3 * LEAST_THIRD_S:
        return f"the window is shorter than {3 * LEAST_THIRD_S:g} s: its thirds have no rate of seconds"
    if len(t_s) < LEAST_SAMPLES or t_s[-1] - t_s[0] < LEAST_SPAN * evidence.window_s:
        return "the server's count was read too seldom for so short a window"
    return ""


def _counts(evidence: Evidence) -> tuple[Sequence[float], Sequence[float]] | None:
    """(instants in the window, requests served) of the service that the load goes to; None where it does not count.

    Processes of one service (Node's workers) are added up at the instants of the first of them.
    """
    series = evidence.telemetry.series("requests_total", service=evidence.entry)
    if not series:
        return None
    window_s = evidence.window_s
    looks = [(each.aligned_times(window_s), each.values) for each in series]
    t_s = looks[0][0]
    inside = t_s[bisect_left(t_s, 0) : bisect_right(t_s, window_s)]
    return inside, [sum(_at(t, *look) for look in looks) for t in inside]


def _dearer(evidence: Evidence, t_s: Sequence[float], served: Sequence[float]) -> float:
    """How many times the CPU time a request cost the load tool in the first third that it cost in the last.

    Also 1 where nothing is known of that. It begins with the window, having taken none.
    """
    numbers = [generator.number for generator in evidence.record.generators]
    spent = [each for n in numbers for each in evidence.telemetry.series("cpu_s_total", service=generator_service(n))]
    if len(spent) < len(numbers):
        return 1.0
    third_s = (t_s[-1] - t_s[0]) / 3
    first, last = (t_s[0], t_s[0] + third_s), (t_s[-1] - third_s, t_s[-1])
    cost = []
    for begin, end in (first, last):
        took = sum(
            _at(end, *look) - _at(begin, *look) for each in spent for look in [([0.0, *each.t_s], [0.0, *each.values])]
        )
        cost.append(took / max(_at(end, t_s, served) - _at(begin, t_s, served), 1.0))
    return cost[0] / cost[1] if cost[1] > 0 else 1.0


def _slower(evidence: Evidence, cores: Collection[Core], first: Span, last: Span) -> float:
    """How many times as long a loop took on these cores in one span than in the other; geometric mean.

    1 where no core was looked at often enough in both, and where a set rate does not go by how fast cores are.
    """
    logs = []
    for core in cores if evidence.closed_loop else ():
        before_s, after_s = (loop_s(evidence, [core], third, LEAST_LOOKS) for third in (first, last))
        if before_s is not None and after_s is not None:
            logs.append(math.log(before_s / after_s))
    return math.exp(fmean(logs)) if logs else 1.0


def _at(when: float, t_s: Sequence[float], counts: Sequence[float]) -> float:
    """The count at an instant, linearly between two samples; outside of them that of the nearest."""
    after = bisect_right(t_s, when)
    if after in (0, len(t_s)):
        return counts[0 if after == 0 else -1]
    low, high = t_s[after - 1], t_s[after]
    return counts[after - 1] + (counts[after] - counts[after - 1]) / (high - low) * (when - low)
