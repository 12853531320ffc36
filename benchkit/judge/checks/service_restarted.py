"""Check service-restarted: the process under test changed."""

from __future__ import annotations

from benchkit import units
from benchkit.judge.check import ALL, Check, CheckResult, Finding, SkippedCheck
from benchkit.judge.evidence import Evidence
from benchkit.models.thresholds import Thresholds


def of_trial(evidence: Evidence, _thresholds: Thresholds) -> CheckResult:
    """Compare the processes of each service just before and just after the window; a reused pid is another process."""
    services = evidence.record.services
    if any(not service.pids_before or not service.pids_after for service in services):
        return SkippedCheck(why="the servers' processes were not listed")
    changes = []
    for service in services:
        ended = set(service.pids_before) - set(service.pids_after)
        started = set(service.pids_after) - set(service.pids_before)
        if ended or started:
            total = units.counted(len(service.pids_before), "process", "processes")
            changes.append(f"service {service.name}: {len(ended)} of {total} ended, {len(started)} started")
    if not changes:
        return ()
    return [
        Finding(
            severity="invalid",
            metrics=ALL,
            seen="; ".join(changes),
            threshold="limit: no change",
            means="For a part of the window another server was measured, or one process fewer.",
            advice="Read the server's log in the trial's raw files for the reason.",
        )
    ]


CHECK = Check("service-restarted", "the process under test changed", of_trial=of_trial, reads="servers")
