"""The server was still warming up."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from benchkit import units
from benchkit.analysis.verdicts.check import ALL, Check, Found, Reason, Unchecked
from benchkit.analysis.verdicts.evidence import Evidence
from benchkit.models.telemetry import generator_service
from benchkit.scenario.thresholds import Thresholds

LEAST_THIRD_S = 1.0
"""Rates are those of seconds: over less of a time they differ by more than 10 % from one third to the next on a server that
has long settled."""
LEAST_SAMPLES = 4
"""Three thirds have four ends."""
LEAST_SPAN = 0.6
"""Of the window, between the first and the last sample in it."""


def of_trial(evidence: Evidence, thresholds: Thresholds) -> Found:
    """The entry server's own count of requests: its rate in the first third against that in the last.

    One that gets slower is not cold. Neither is one whose load tool took as much more CPU time for a request in the first
    third: it does the same for each, so that the machine under both got faster, or connections were being opened.
    """
    window_s = evidence.window_s
    counts = _counts(evidence)
    if counts is None:
        return Unchecked(why="the server tells no count of its requests")
    t_s, served = counts
    if window_s < 3 * LEAST_THIRD_S:
        return Unchecked(why=f"the window is shorter than {3 * LEAST_THIRD_S:g} s: its thirds have no rate of seconds")
    if len(t_s) < LEAST_SAMPLES or t_s[-1] - t_s[0] < LEAST_SPAN * window_s:
        return Unchecked(why="the server's count was read too seldom for so short a window")
    third_s = (t_s[-1] - t_s[0]) / 3
    first = (_at(t_s[0] + third_s, t_s, served) - served[0]) / third_s
    last = (served[-1] - _at(t_s[-1] - third_s, t_s, served)) / third_s
    if first * _dearer(evidence, t_s, served) >= (1 - thresholds.cold) * last:
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


def _counts(evidence: Evidence) -> tuple[Sequence[float], Sequence[float]] | None:
    """(instants in the window, requests served) of the service that the load goes to; None where it does not count.

    Processes of one service (Node's workers) are added up at the instants of the first of them.
    """
    series = evidence.watched.series("requests_total", service=evidence.entry)
    if not series:
        return None
    window_s = evidence.window_s
    looks = [(each.snapped(window_s), each.values) for each in series]
    t_s = looks[0][0]
    inside = t_s[bisect_left(t_s, 0) : bisect_right(t_s, window_s)]
    return inside, [sum(_at(t, *look) for look in looks) for t in inside]


def _dearer(evidence: Evidence, t_s: Sequence[float], served: Sequence[float]) -> float:
    """How many times the CPU time a request cost the load tool in the first third that it cost in the last; 1 at least.

    Also 1 where nothing is known of that. It begins with the window, having taken none.
    """
    numbers = [generator.number for generator in evidence.record.generators]
    spent = [each for n in numbers for each in evidence.watched.series("cpu_s_total", service=generator_service(n))]
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
    return max(1.0, cost[0] / cost[1]) if cost[1] > 0 else 1.0


def _at(when: float, t_s: Sequence[float], counts: Sequence[float]) -> float:
    """The count at an instant, linearly between two samples; outside of them that of the nearest."""
    after = bisect_right(t_s, when)
    if after in (0, len(t_s)):
        return counts[0 if after == 0 else -1]
    low, high = t_s[after - 1], t_s[after]
    return counts[after - 1] + (counts[after] - counts[after - 1]) / (high - low) * (when - low)
