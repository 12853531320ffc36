"""How fast cores were during a trial, by the CPU time that a small loop took on them (`cpu_loop_s` of the telemetry)."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable
from statistics import harmonic_mean

from benchkit.analysis.verdicts.evidence import Evidence
from benchkit.models.trial import GeneratorRecord, ServiceRecord

LEAST_LOOKS = 3
"""In a span of time, for a mean over them."""

Core = tuple[str, int]
"""(host, number)."""
Span = tuple[float, float]
"""Two instants, in seconds of the window."""


def server_cores(evidence: Evidence) -> Collection[Core]:
    """Where its services run."""
    return _cores(evidence.record.services)


def load_cores(evidence: Evidence) -> Collection[Core]:
    """Where its load tools run."""
    return _cores(evidence.record.generators)


def loop_s(evidence: Evidence, cores: Collection[Core], span: Span, least: int = LEAST_LOOKS) -> float | None:
    """How long the loop took on these cores in this time, in seconds: the harmonic mean over all looks at any of them.

    Of speeds that is the mean, which what is done in that time goes by. None with fewer looks than `least`.
    """
    begin_s, end_s = span
    looks: list[float] = []
    for host, number in cores:
        series = evidence.telemetry.instance("cpu_loop_s", host, str(number))
        if series is not None:
            inside = series.values[bisect_left(series.t_s, begin_s) : bisect_right(series.t_s, end_s)]
            looks += [each for each in inside if each > 0]  # none at all is what a clock said, not a core
    return harmonic_mean(looks) if len(looks) >= least else None


def server_loop_s(evidence: Evidence) -> float | None:
    """How long it took on the server's cores in the window, in seconds; None where they were looked at too seldom."""
    return loop_s(evidence, server_cores(evidence), (0.0, evidence.window_s))


def _cores(records: Iterable[ServiceRecord | GeneratorRecord]) -> Collection[Core]:
    return {(each.host, cpu) for each in records for cpu in each.cpus}
