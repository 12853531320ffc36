"""The server was still warming up."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from benchkit import units
from benchkit.analysis.verdicts.check import ALL, Check, Found, Reason, Unchecked
from benchkit.analysis.verdicts.evidence import Evidence
from benchkit.scenario.thresholds import Thresholds

Reals = npt.NDArray[np.float64]

LEAST_THIRD_S = 1.0
"""Rates are those of seconds: over less of a time they differ by more than 10 % from one third to the next on a server that
has long settled."""
LEAST_SAMPLES = 4
"""Three thirds have four ends."""
LEAST_SPAN = 0.6
"""Of the window, between the first and the last sample in it."""


def of_trial(evidence: Evidence, thresholds: Thresholds) -> Found:
    """The entry server's own count of requests: its rate in the first third against that in the last.

    One that gets slower is not cold.
    """
    window_s = evidence.window_s
    counts = _counts(evidence)
    if counts is None:
        return Unchecked(why="the server tells no count of its requests")
    t_s, served = counts
    inside = (t_s >= 0) & (t_s <= window_s)
    t_s, served = t_s[inside], served[inside]
    if window_s < 3 * LEAST_THIRD_S:
        return Unchecked(why=f"the window is shorter than {3 * LEAST_THIRD_S:g} s: its thirds have no rate of seconds")
    if len(t_s) < LEAST_SAMPLES or t_s[-1] - t_s[0] < LEAST_SPAN * window_s:
        return Unchecked(why="the server's count was read too seldom for so short a window")
    ends = np.linspace(t_s[0], t_s[-1], 4)
    first, _, last = np.diff(np.interp(ends, t_s, served)) / np.diff(ends)
    if first >= (1 - thresholds.cold) * last:
        return ()
    return [
        Reason(
            severity="invalid",
            metrics=ALL,
            seen=f"the server answered {units.requests_per_s(first)} in the first third and {units.requests_per_s(last)} "
            "in the last",
            threshold=f"more than {units.share(thresholds.cold)} below",
            means="It was still getting faster: the rate is that of a change, and depends on when one looks.",
            advice="Warm up longer (load: warmup_s) or measure longer.",
        )
    ]


CHECK = Check("cold", "the server was still warming up", of_trial=of_trial)


def _counts(evidence: Evidence) -> tuple[Reals, Reals] | None:
    """(instants, requests served) of the service that the load goes to; None where it does not count.

    Processes of one service (Node's workers) are added up at the instants of the first of them.
    """
    series = evidence.watched.series("requests_total", service=evidence.entry)
    if not series:
        return None
    window_s = evidence.window_s
    t_s = np.asarray(series[0].snapped(window_s))
    return t_s, np.sum([np.interp(t_s, each.snapped(window_s), each.values) for each in series], axis=0)
