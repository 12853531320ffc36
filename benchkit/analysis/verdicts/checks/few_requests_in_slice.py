"""Check few-requests-in-slice: slices are too short for the load."""

from __future__ import annotations

from benchkit import units
from benchkit.analysis.verdicts.check import LOAD, Check, CheckResult, Finding, SkippedCheck
from benchkit.analysis.verdicts.evidence import Evidence
from benchkit.models.thresholds import Thresholds


def of_trial(evidence: Evidence, thresholds: Thresholds) -> CheckResult:
    """Compare the mean number of answers in a slice with those that each connection, or stream of one, needs.

    A slice begins with new connections. Their first answers must come before its clock starts: otherwise it counts
    fewer answers than the server gives, and of a slow server fewer than of a fast one. Under a target rate one
    connection is enough for most requests, so that the number of connections does not matter.
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
        return ()
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
