"""Check stalled: a host stopped for a while."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from benchkit import units
from benchkit.judge.check import ALL, Check, CheckResult, Finding, SkippedCheck
from benchkit.judge.evidence import Evidence
from benchkit.models.thresholds import Thresholds


def of_trial(evidence: Evidence, thresholds: Thresholds) -> CheckResult:
    """Look for gaps between samples of a host that are longer than several sampling intervals.

    Slices are sampled at their edges alone, so that a longer slice is the interval.
    """
    slice_s = max((each.duration_s for each in evidence.record.slices), default=0.0)
    records = [(watch, evidence.telemetry.sample_times(watch.host)) for watch in evidence.record.watched]
    sampled = [(watch, t_s) for watch, t_s in records if len(t_s)]
    findings = []
    for watch, t_s in sampled:
        start_s, gap_s = _longest_gap(t_s, evidence.window_s)
        interval_s = max(watch.interval_s, slice_s)
        if gap_s > thresholds.gap_intervals * interval_s:
            findings.append(_finding(evidence, watch.host, (start_s, gap_s), interval_s, thresholds))
    missing = set(evidence.hosts) - {watch.host for watch, _ in sampled}
    if findings or not missing:
        return findings
    return SkippedCheck(why=f"no telemetry of {', '.join(sorted(missing))}")


CHECK = Check("stalled", "a host stopped for a while", of_trial=of_trial, reads="hosts")


def _longest_gap(t_s: Sequence[float], window_s: float) -> tuple[float, float]:
    """Return (start, length) of the longest gap that reaches into the window, whose ends count as samples."""
    edges = [min(0.0, t_s[0]), *t_s, max(window_s, t_s[-1])]
    gaps = [(low, high - low) for low, high in pairwise(edges) if high > 0 and low < window_s]
    return max(gaps, key=lambda gap: gap[1])


def _finding(
    evidence: Evidence, host: str, gap: tuple[float, float], interval_s: float, thresholds: Thresholds
) -> Finding:
    start_s, gap_s = gap
    return Finding(
        severity=evidence.disturbance,
        metrics=ALL,
        seen=f"host {host} took no sample for {units.seconds(gap_s)}, starting {start_s:.1f} s into the window",
        threshold=f"limit: {thresholds.gap_intervals:g} intervals of {units.seconds(interval_s)}",
        means="The host, or all of its processes, stopped: the window was shorter than the tool assumes.",
        advice="Check whether the machine was suspended, migrated or out of memory, and run again.",
    )
