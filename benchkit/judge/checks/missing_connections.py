"""Check missing-connections: fewer connections than requested."""

from __future__ import annotations

from benchkit import units
from benchkit.judge.check import ALL, Check, CheckResult, Finding, SkippedCheck
from benchkit.judge.evidence import Evidence
from benchkit.models.telemetry import SAMPLE_SHARES
from benchkit.models.thresholds import Thresholds

TAIL_SHARE = 0.1
"""Last part of a window that ends after a number of requests: clients that have sent their share disconnect."""


def of_trial(evidence: Evidence, thresholds: Thresholds) -> CheckResult:
    """Compare the established connections on the loaded port, in every sample, with those requested.

    Only for kept connections at full speed: some short connections are always being opened, and a tool with a target
    rate opens only those that it needs. In a window that ends after a number of requests, samples in its last tenth do
    not count, and it may be too short for more than one.
    """
    record = evidence.record
    if not record.keeps_connections or not evidence.closed_loop:
        return ()
    port, is_timed = _port(record.target or ""), record.load.duration_s is not None
    samples = [
        value
        for each in evidence.telemetry.series("connections_established", service=evidence.entry)
        if each.instance == port
        for value in each.in_window(record.window_s if is_timed else record.window_s * (1 - TAIL_SHARE))
    ]
    if not samples:
        return SkippedCheck(why="the connections were not counted")
    fewest, requested, planned = min(samples), record.load.connections, len(SAMPLE_SHARES) if is_timed else 1
    if fewest >= thresholds.connections * requested:
        too_few = f"the connections were counted in {len(samples)} of {planned} samples"
        return () if len(samples) >= planned else SkippedCheck(why=too_few)
    return [
        Finding(
            severity="invalid",
            metrics=ALL,
            seen=f"{units.count(fewest)} of {units.count(requested)} connections were established in one of "
            f"{units.counted(len(samples), 'sample')}",
            threshold=f"limit: {units.share(thresholds.connections)}",
            means="The server was measured under another load than the cell states.",
            advice="Check the open-file limits and the ports of the load host, and the tool's errors.",
        )
    ]


CHECK = Check("missing-connections", "there were fewer connections than requested", of_trial=of_trial, reads="servers")


def _port(target: str) -> str:
    """Return the port of a URL, as telemetry names it."""
    authority = target.partition("://")[2].partition("/")[0]
    return authority.rpartition(":")[2]
