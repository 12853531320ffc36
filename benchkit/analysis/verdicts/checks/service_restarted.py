"""The process under test changed."""

from __future__ import annotations

from benchkit import units
from benchkit.analysis.verdicts.check import ALL, Check, CheckResult, Finding, SkippedCheck
from benchkit.analysis.verdicts.evidence import Evidence
from benchkit.models.thresholds import Thresholds


def of_trial(evidence: Evidence, _thresholds: Thresholds) -> CheckResult:
    """The processes of each service just before the window and just after it; a pid used again is another process."""
    services = evidence.record.services
    if any(not service.pids_before or not service.pids_after for service in services):
        return SkippedCheck(why="nobody looked at the servers' processes")
    said = []
    for service in services:
        gone = set(service.pids_before) - set(service.pids_after)
        new = set(service.pids_after) - set(service.pids_before)
        if gone or new:
            total = units.counted(len(service.pids_before), "process", "processes")
            said.append(f"service {service.name}: of {total} {len(gone)} ended, and {len(new)} began")
    if not said:
        return ()
    return [
        Finding(
            severity="invalid",
            metrics=ALL,
            seen="; ".join(said),
            threshold="no change",
            means="For a part of the window another server was measured, or one process fewer.",
            advice="See the server's log beside the trial's raw files for why it ended.",
        )
    ]


CHECK = Check("service-restarted", "the process under test changed", of_trial=of_trial)
