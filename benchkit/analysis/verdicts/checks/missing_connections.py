"""Fewer connections than asked for."""

from __future__ import annotations

from benchkit import units
from benchkit.analysis.verdicts.check import ALL, Check, CheckResult, Finding, SkippedCheck
from benchkit.analysis.verdicts.evidence import Evidence
from benchkit.models.telemetry import SAMPLE_SHARES
from benchkit.models.thresholds import Thresholds

LAST_ANSWERS = 0.1
"""Of a window that ends with so many requests: clients whose share of them is done leave, while the others go on."""


def of_trial(evidence: Evidence, thresholds: Thresholds) -> CheckResult:
    """Established connections on the port that the load goes to, at every look, against those asked for.

    Only where connections are kept: of short ones some are always just being opened, and a tool with a set rate opens
    what it needs. In a window that a number of requests ends, looks in its last tenth do not count, and it may be too
    short for more than one.
    """
    record = evidence.record
    if not record.load.keepalive or not evidence.closed_loop:
        return ()
    port, timed = _port(record.target), record.load.duration_s is not None
    looks = [
        value
        for each in evidence.telemetry.series("connections_established", service=evidence.entry)
        if each.instance == port
        for value in each.in_window(record.window_s if timed else record.window_s * (1 - LAST_ANSWERS))
    ]
    if not looks:
        return SkippedCheck(why="nobody counted the connections")
    fewest, wanted, planned = min(looks), record.load.connections, len(SAMPLE_SHARES) if timed else 1
    if fewest >= thresholds.connections * wanted:
        few = f"the connections were counted at {len(looks)} of {planned} instants"
        return () if len(looks) >= planned else SkippedCheck(why=few)
    return [
        Finding(
            severity="invalid",
            metrics=ALL,
            seen=f"{units.count(fewest)} of {units.count(wanted)} connections were established at one of {len(looks)} looks",
            threshold=f"below {units.share(thresholds.connections)}",
            means="The server was measured under another load than the cell says.",
            advice="See the open-file limits and the ports of the load host, and the tool's errors.",
        )
    ]


CHECK = Check("missing-connections", "there were fewer connections than asked for", of_trial=of_trial)


def _port(target: str) -> str:
    """The port of a URL, as telemetry names it."""
    authority = target.partition("://")[2].partition("/")[0]
    return authority.rpartition(":")[2]
