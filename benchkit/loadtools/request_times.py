"""Latency computed from the times of single requests, for tools that write every one of them to a file."""

from __future__ import annotations

import math
from collections.abc import Iterable

from benchkit.models.load_result import Latency

PERCENTILES = (10, 25, 50, 66, 75, 80, 90, 95, 98, 99, 99.9, 99.99)


def latency_of(times: Iterable[int], unit_s: float, *, resolution_s: float) -> Latency:
    """Return the latency of requests whose `times`, connecting included, are whole multiples of `unit_s` seconds.

    Percentiles are by nearest rank (the ⌈p·n/100⌉-th of n in order). A percentile p (0 to 1) of fewer than 1 / (1 - p)
    times would only repeat the maximum and is not stated. The deviation is that of a sample (n - 1).
    """
    ordered = sorted(times)
    n = len(ordered)
    if n == 0:
        return Latency(covers="connect+request", corrected=False, resolution_s=resolution_s)
    mean = math.fsum(ordered) / n
    squares = math.fsum((time - mean) ** 2 for time in ordered)
    stated = [p for p in PERCENTILES if n * (100 - p) >= 100]  # noqa: PLR2004 - per cent
    return Latency(
        min_s=_seconds(ordered[0], unit_s),
        mean_s=_seconds(mean, unit_s),
        stdev_s=_seconds(math.sqrt(squares / (n - 1)), unit_s) if n > 1 else None,
        max_s=_seconds(ordered[-1], unit_s),
        percentiles={f"{p:g}": _seconds(ordered[math.ceil(round(p * n / 100, 6)) - 1], unit_s) for p in stated},
        resolution_s=resolution_s,
        covers="connect+request",
        corrected=False,
    )


def _seconds(value: float, unit_s: float) -> float:
    """Return the value in seconds, rounded to remove the noise of binary fractions."""
    return float(f"{value * unit_s:.12g}")
