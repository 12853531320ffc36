"""Check few-requests-in-slice: slices are too short for the load."""

from __future__ import annotations

from collections.abc import Sequence

from benchkit import units
from benchkit.judge.check import LOAD, Check, CheckResult, Finding, SkippedCheck
from benchkit.judge.evidence import Evidence
from benchkit.models.thresholds import Thresholds


def of_trial(evidence: Evidence, thresholds: Thresholds) -> CheckResult:
    """Compare the answers in a slice with those that each connection, or stream of one, needs; none may be empty.

    A slice begins with new connections. Their first answers must come before its clock starts: otherwise it counts
    fewer answers than the server gives, and of a slow server fewer than of a fast one. Under a target rate one
    connection is enough for most requests, so that the number of connections does not matter. The mean tells whether
    slices are long enough; an empty slice tells that nothing answered for its whole length, which the trial's rate
    includes.
    """
    slices = evidence.record.slices
    if not slices:
        return ()
    requests = evidence.number("requests")
    if requests is None:
        return SkippedCheck(why="the number of requests is unknown")
    load = evidence.record.load
    needed = thresholds.slice_answers * (load.in_flight if evidence.closed_loop else 1)
    if requests >= needed * len(slices):
        empty = [each.slice for each in evidence.slices if each.requests == 0]
        return [_empty_finding(empty, slices[0].duration_s)] if empty else ()
    return [
        Finding(
            severity="invalid",
            metrics=LOAD,
            seen=f"a slice of {units.seconds(slices[0].duration_s)} has {requests / len(slices):.1f} answers over "
            f"{units.counted(load.connections, 'connection')}",
            threshold=f"limit: {needed:g}",
            means="What connections wait for at the start and end of a slice is a large part of it.",
            advice="Use longer slices (slice_s), fewer connections, or design: blocks.",
        )
    ]


CHECK = Check("few-requests-in-slice", "slices are too short for the load", of_trial=of_trial)


def _empty_finding(empty: Sequence[int], slice_s: float) -> Finding:
    return Finding(
        severity="suspect",
        metrics=LOAD,
        seen=f"{units.counted(len(empty), 'slice')} of {units.seconds(slice_s)} had no answer at all, the first of them "
        f"slice {empty[0]}",
        threshold="limit: an answer in every slice",
        means="The server, or its host, stopped for longer than a slice: the rate includes that, percentiles hardly do.",
        advice="Look for what stops the server (garbage collection, a lock, swapping), and use longer slices (slice_s).",
    )
