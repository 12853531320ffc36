"""How fast cores were during a trial, by the CPU time that a small loop took on them (`cpu_loop_s` of the telemetry)."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection
from statistics import fmean

from benchkit.analysis.verdicts.evidence import Evidence

LEAST_LOOKS = 3
"""In a span of time, for a mean over them."""

Core = tuple[str, int]
"""(host, number)."""
Span = tuple[float, float]
"""Two instants, in seconds of the window."""


def server_cores(evidence: Evidence) -> Collection[Core]:
    """Where its services run."""
    return {(each.host, cpu) for each in evidence.record.services for cpu in each.cpus}


def load_cores(evidence: Evidence) -> Collection[Core]:
    """Where its load tools run."""
    return {(each.host, cpu) for each in evidence.record.generators for cpu in each.cpus}


def loop_s(evidence: Evidence, cores: Collection[Core], span: Span) -> float | None:
    """The mean over the looks at these cores in this time, in seconds; None where there were too few."""
    begin_s, end_s = span
    looks: list[float] = []
    for host, number in cores:
        series = evidence.watched.instance("cpu_loop_s", host, str(number))
        if series is not None:
            looks += series.values[bisect_left(series.t_s, begin_s) : bisect_right(series.t_s, end_s)]
    return fmean(looks) if len(looks) >= LEAST_LOOKS else None


def server_loop_s(evidence: Evidence) -> float | None:
    """The mean over the server's cores and the window, in seconds; None where they were looked at too seldom."""
    return loop_s(evidence, server_cores(evidence), (0.0, evidence.window_s))
