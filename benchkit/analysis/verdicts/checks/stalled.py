"""A host stopped for a while."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from benchkit import units
from benchkit.analysis.verdicts.check import ALL, Check, CheckResult, Finding, SkippedCheck
from benchkit.analysis.verdicts.evidence import Evidence
from benchkit.models.thresholds import Thresholds
from benchkit.models.trial import WatchRecord


def of_trial(evidence: Evidence, thresholds: Thresholds) -> CheckResult:
    """Times without a sample of a host, beyond some intervals of its sampling."""
    looked = [(watch, evidence.telemetry.sample_times(watch.host)) for watch in evidence.record.watched]
    watched = [(watch, t_s) for watch, t_s in looked if len(t_s)]
    found = []
    for watch, t_s in watched:
        start_s, gap_s = _longest(t_s, evidence.window_s)
        if gap_s > thresholds.gap_intervals * watch.interval_s:
            found.append(_reason(watch, start_s, gap_s, thresholds))
    lacking = set(evidence.hosts) - {watch.host for watch, _ in watched}
    if found or not lacking:
        return found
    return SkippedCheck(why=f"not watched: {', '.join(sorted(lacking))}")


CHECK = Check("stalled", "a host stopped for a while", of_trial=of_trial)


def _longest(t_s: Sequence[float], window_s: float) -> tuple[float, float]:
    """(start, length) of the longest time between two samples that reaches into the window; its ends count as samples."""
    edges = [min(0.0, t_s[0]), *t_s, max(window_s, t_s[-1])]
    gaps = [(low, high - low) for low, high in pairwise(edges) if high > 0 and low < window_s]
    return max(gaps, key=lambda gap: gap[1])


def _reason(watch: WatchRecord, start_s: float, gap_s: float, thresholds: Thresholds) -> Finding:
    return Finding(
        severity="invalid",
        metrics=ALL,
        seen=f"host {watch.host} took no sample for {units.seconds(gap_s)}, from {start_s:.1f} s of the window on",
        threshold=f"above {thresholds.gap_intervals:g} intervals of {units.seconds(watch.interval_s)}",
        means="The host, or all of its processes, stood still: the window was shorter than the tool believes.",
        advice="See whether the machine was suspended, moved or out of memory, and run again.",
    )
