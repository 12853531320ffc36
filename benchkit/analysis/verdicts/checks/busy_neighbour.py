"""Check busy-neighbour: servers without load worked in the slices of another."""

from __future__ import annotations

from benchkit.analysis.verdicts.check import LOAD, Check, CheckResult, Finding, SkippedCheck
from benchkit.analysis.verdicts.evidence import Evidence
from benchkit.models.thresholds import Thresholds


def of_trial(evidence: Evidence, thresholds: Thresholds) -> CheckResult:
    """Add up the CPU time that the servers of the block's other cells used in the slices of this trial.

    They have no load then. Garbage collection, timers and threads in the background take CPU time from the server under
    load, which may in turn leave its neighbours alone: random order does not cancel that.
    """
    slices = evidence.record.slices
    if not slices:
        return ()
    used_s = [each.neighbour_cpu_s for each in slices if each.neighbour_cpu_s is not None]
    if len(used_s) < len(slices):
        return SkippedCheck(why="the CPU time of the block's other servers is unknown")
    cores = sum(used_s) / sum(each.duration_s for each in slices)
    if cores <= thresholds.neighbour_cpu:
        return ()
    return [
        Finding(
            severity="invalid",
            metrics=LOAD,
            seen=f"servers of the block's other cells, which had no load, used {cores:.3f} cores in the slices of this cell",
            threshold=f"limit: {thresholds.neighbour_cpu:g} cores",
            means="They took CPU time from it that it may not have taken from them.",
            advice="Use design: blocks, which runs one cell at a time, or longer slices (slice_s).",
        )
    ]


CHECK = Check("busy-neighbour", "a server without load worked in the slices of another", of_trial=of_trial)
