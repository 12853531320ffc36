"""Check littles-law: the tool's own figures contradict each other."""

from __future__ import annotations

from benchkit import units
from benchkit.judge.check import LOAD, Check, CheckResult, Finding, SkippedCheck
from benchkit.judge.evidence import Evidence
from benchkit.models.load import Load
from benchkit.models.thresholds import Thresholds

TOO_LOW = "Not all connections were in use: some hung or were not open, or the load tool could not keep up."
TOO_HIGH = (
    "More requests were in flight than connections and streams allow: the tool's rate or its latencies are wrong."
)


def of_trial(evidence: Evidence, thresholds: Thresholds) -> CheckResult:
    """Compare rate times mean latency with the requests in flight, where latencies cover the cycle of a closed loop.

    The mean must come from the raw histogram: wrk 4 prints one that includes its own correction. A mean is known to
    the resolution of the tool. Where connecting is not part of the latency, short connections spend an unknown part of
    their cycle on it. Requests that the end of a window cuts off have no latency, though they were in flight: for half
    of the mean latency at least, the mean age of what a renewal process has begun (Cox, Renewal Theory, 1962, 5.2).
    """
    if not evidence.closed_loop:
        return ()
    record, row = evidence.record, evidence.row
    if not record.keeps_connections and row.latency_covers != "connect+request":
        return SkippedCheck(
            why="the tool's latency excludes connecting, which is a part of each short connection's cycle"
        )
    if row.latency_corrected is not False:
        return SkippedCheck(
            why="the mean latency includes the tool's own correction; a histogram would give it without"
        )
    rps, mean_s = evidence.number("rps"), evidence.number("latency_mean_s")
    if rps is None or mean_s is None:
        return SkippedCheck(why="the tool reports no rate, or no mean above its resolution")
    in_flight, expected = rps * mean_s, record.load.in_flight
    rounding = rps * (evidence.number("latency_resolution_s") or 0.0) / expected
    window_s = record.slices[0].duration_s if record.slices else evidence.window_s
    cut_off = mean_s / 2 / window_s
    tolerance = thresholds.littles_law + rounding
    if -tolerance - cut_off <= in_flight / expected - 1 <= tolerance:
        return ()
    return [
        Finding(
            severity="invalid",
            metrics=LOAD,
            seen=f"{units.requests_per_s(rps)} \N{MULTIPLICATION SIGN} {units.seconds(mean_s)} = {in_flight:.3g} requests "
            f"in flight on {units.count(record.load.connections)} connections{_streams(record.load)}",
            threshold=f"limit: a difference of {units.share(thresholds.littles_law)}",
            means=TOO_LOW if in_flight < expected else TOO_HIGH,
            advice="Read the tool's raw output, and run the cell with a second tool.",
        )
    ]


def _streams(load: Load) -> str:
    return f" of {units.counted(load.streams, 'stream')}" if load.streams > 1 else ""


CHECK = Check("littles-law", "the tool's own figures contradict each other", of_trial=of_trial)
