"""Check overran: the load tool did not end by itself after its window."""

from __future__ import annotations

from benchkit import units
from benchkit.judge.check import ALL, Check, CheckResult, Finding
from benchkit.judge.evidence import Evidence
from benchkit.models.thresholds import Thresholds


def of_trial(evidence: Evidence, _thresholds: Thresholds) -> CheckResult:
    """Count how often a load tool had to be ended.

    What it did in its window is known all the same. Where its load ended before the window did, or not all connections
    had load, `littles-law` and `missing-connections` say so.
    """
    record = evidence.record
    overruns = sum(each.overruns for each in record.generators)
    if not overruns:
        return ()
    turns = f"{overruns} of {units.counted(len(record.generators) * len(record.slices), 'slice')}"
    return [
        Finding(
            severity="suspect",
            metrics=ALL,
            seen=f"{record.load.tool} did not end by itself{f' in {turns}' if record.slices else ''}, and was ended",
            threshold="limit: none",
            means="Its connections were not all established when its window ended, so that it went on with its load.",
            advice="Use fewer connections, a longer listen queue of the server, or another load tool, such as wrk.",
        )
    ]


CHECK = Check("overran", "the load tool did not end by itself after its window", of_trial=of_trial)
