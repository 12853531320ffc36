"""Speed of the cores during a trial, measured by the time of a short loop on them (`cpu_loop_s` of the telemetry)."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection
from statistics import harmonic_mean

from benchkit.judge.evidence import Evidence

MIN_SAMPLES = 3
"""Samples within a time span that a mean needs."""

Core = tuple[str, int]
"""(host, number)."""
Span = tuple[float, float]
"""Start and end, in seconds of the window."""


def server_cores(evidence: Evidence) -> Collection[Core]:
    """Return the cores that the services may run on."""
    return {(each.host, cpu) for each in evidence.record.services for cpu in each.cpus}


def loop_s(evidence: Evidence, cores: Collection[Core], span: Span, min_samples: int = MIN_SAMPLES) -> float | None:
    """Return the loop's time on these cores within a span: the harmonic mean over all samples.

    The harmonic mean of times is the mean of speeds, to which the work done is proportional. None with fewer than
    `min_samples` samples.
    """
    start_s, end_s = span
    samples: list[float] = []
    for host, number in cores:
        series = evidence.telemetry.instance("cpu_loop_s", host, str(number))
        if series is not None:
            inside = series.values[bisect_left(series.t_s, start_s) : bisect_right(series.t_s, end_s)]
            samples += [each for each in inside if each > 0]  # zero is an error of the clock
    return harmonic_mean(samples) if len(samples) >= min_samples else None


def server_loop_s(evidence: Evidence) -> float | None:
    """Return the loop's time on the server's cores over the window; None with too few samples."""
    return loop_s(evidence, server_cores(evidence), (0.0, evidence.window_s))
