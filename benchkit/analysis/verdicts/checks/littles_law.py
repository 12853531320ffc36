"""The tool's own figures contradict each other."""

from __future__ import annotations

from benchkit import units
from benchkit.analysis.verdicts.check import LOAD, Check, CheckResult, Finding, SkippedCheck
from benchkit.analysis.verdicts.evidence import Evidence
from benchkit.models.thresholds import Thresholds

LOW = "Connections were not all at work: some hung or were not open, or the load tool could not keep up."
HIGH = "More was under way than there are connections: the tool's rate or its times are wrong."


def of_trial(evidence: Evidence, thresholds: Thresholds) -> CheckResult:
    """Rate times mean latency against the connections, where the latency covers the whole cycle of a closed loop.

    The mean is that of the raw histogram: wrk 4's printed one has its own correction in it, of which only the histogram
    frees it. A mean is known to the step in which the tool tells times. Where connecting is outside of the latency, short connections spend an unknown part of their cycle there.
    """
    if not evidence.closed_loop:
        return ()
    record, row = evidence.record, evidence.row
    if not record.load.keepalive and row.latency_covers != "connect+request":
        return SkippedCheck(why="the tool's latency leaves out connecting, which is a part of short connections' cycle")
    if row.latency_corrected is not False:
        return SkippedCheck(
            why="the mean latency has the tool's own correction in it; a histogram would free it of that"
        )
    rps, mean = evidence.number("rps"), evidence.number("latency_mean_s")
    if rps is None or mean is None:
        return SkippedCheck(why="the tool states no rate, or no mean above its resolution")
    product, connections = rps * mean, record.load.connections
    inexact = rps * (evidence.number("latency_resolution_s") or 0.0) / connections
    if abs(product / connections - 1) <= thresholds.littles_law + inexact:
        return ()
    return [
        Finding(
            severity="invalid",
            metrics=LOAD,
            seen=f"{units.requests_per_s(rps)} \N{MULTIPLICATION SIGN} {units.seconds(mean)} come to {product:.3g} requests under way on "
            f"{units.count(connections)} connections",
            threshold=f"beyond {units.share(thresholds.littles_law)}",
            means=LOW if product < connections else HIGH,
            advice="See the tool's raw output; run the cell with another tool beside it.",
        )
    ]


CHECK = Check("littles-law", "the tool's own figures contradict each other", of_trial=of_trial)
