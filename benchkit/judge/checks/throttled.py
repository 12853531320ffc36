"""Check throttled: the host did not get its CPU."""

from __future__ import annotations

import re
from collections.abc import Iterator

from benchkit import units
from benchkit.judge.check import ALL, LOAD, Check, CheckResult, Finding, RunCheckResult, SkippedCheck
from benchkit.judge.cpu_time import cores_busy, host_stolen_share, quota_withheld, trial_cpus
from benchkit.judge.evidence import Evidence, RunEvidence
from benchkit.judge.sliced_blocks import balances, log_speed
from benchkit.models.thresholds import Thresholds
from benchkit.stats.samples import log_left

NOMINAL = re.compile(r"@ ([0-9.]+) ?GHz")
"""The sustained clock rate that many makers state in a CPU's name."""

MOSTLY_BUSY = 0.5
"""Share of the window that a core must be busy for its clock rate to count: idle cores may clock down."""


def of_trial(evidence: Evidence, thresholds: Thresholds) -> CheckResult:
    """Look for time of each host that a hypervisor or a control group withheld, and for a clock below its nominal rate.

    `of_run` judges the withheld time of trials in sliced blocks.
    """
    findings = [finding for host in evidence.hosts for finding in _host_findings(evidence, host, thresholds)]
    unknown: dict[str, list[str]] = {}
    for host in evidence.hosts:
        for quantity in _unknown_quantities(evidence, host):
            unknown.setdefault(quantity, []).append(host)
    if findings or not unknown:
        return findings
    return SkippedCheck(why="unknown: " + "; ".join(f"{each} of {', '.join(hosts)}" for each, hosts in unknown.items()))


def of_run(evidence: RunEvidence, thresholds: Thresholds) -> RunCheckResult:
    """Judge the trials of sliced blocks by how unequally the block's cells got their CPU time, and how fast it was."""
    trials = evidence.trials
    results: dict[str, list[Finding]] = {}
    for column, who, limit in (
        ("stolen_share", "the hypervisor", thresholds.steal),
        ("withheld_share", "a CPU quota of the host", thresholds.throttled),
    ):
        for each in balances(trials, column, log_left):
            if each.value > limit or each.inequality > thresholds.unequal:
                seen = f"{who} withheld {units.share(each.value)} of the CPU time"
                advice = "Use a dedicated machine without a quota, or run again when the others are quiet."
                finding = each.finding(seen, f"{units.share(limit)} withheld", advice, thresholds)
                results.setdefault(each.trial_id, []).append(finding)
    for each in balances(trials, "server_loop_s", log_speed):
        if each.inequality > thresholds.unequal:
            finding = Finding(
                severity="suspect",
                metrics=LOAD,
                seen=f"a short loop took {units.seconds(each.value)} on the server's cores, {each.text}",
                threshold=f"limit: {units.share(thresholds.unequal)}",
                means="The cores were not equally fast for the cells of the block: their ratio includes that difference.",
                advice="Measure longer (load: duration_s): slices average the speed of cores.",
            )
            results.setdefault(each.trial_id, []).append(finding)
    return results


CHECK = Check("throttled", "the host did not get its CPU", of_trial=of_trial, reads="hosts", of_run=of_run)


def _host_findings(evidence: Evidence, host: str, thresholds: Thresholds) -> Iterator[Finding]:
    cpus = trial_cpus(evidence, host)
    stolen = None if evidence.record.slices else host_stolen_share(evidence, host)
    if stolen is not None and stolen > thresholds.steal:
        yield Finding(
            severity=evidence.disturbance,
            metrics=ALL,
            seen=f"the hypervisor withheld {units.share(stolen)} of the CPU time of {host}",
            threshold=f"limit: {units.share(thresholds.steal)}",
            means="The machine did less than it can: other machines on the same hardware took its CPU time.",
            advice="Use a dedicated machine, or run again when the others are quiet.",
        )
    withheld = None if evidence.record.slices else quota_withheld(evidence, host)
    if withheld is not None and withheld > thresholds.throttled:
        yield Finding(
            severity=evidence.disturbance,
            metrics=ALL,
            seen=f"a CPU quota withheld CPU time from {host} for {units.share(withheld)} of the window",
            threshold=f"limit: {units.share(thresholds.throttled)}; quotas of the scenario are not counted",
            means="The host was limited by a quota that the cell does not state.",
            advice="Remove the quota from the host, or state it in the scenario (quota of a role) if it is intended.",
        )
    nominal_hz, mean_hz = _nominal_hz(evidence, host), _mean_hz(evidence, host, cpus)
    if nominal_hz is not None and mean_hz is not None and mean_hz < thresholds.frequency * nominal_hz:
        yield Finding(
            severity="suspect",
            metrics=LOAD,
            seen=f"host {host} ran at {mean_hz / 1e9:.2f} GHz of its nominal {nominal_hz / 1e9:.2f} GHz",
            threshold=f"limit: {units.share(thresholds.frequency)}",
            means="It was slowed by heat, power limits or its governor.",
            advice="Set the governor `performance`, and check cooling and power limits.",
        )


def _unknown_quantities(evidence: Evidence, host: str) -> Iterator[str]:
    """Yield the quantities that nothing reports for a host. Its clock matters only where cores had work."""
    cpus = trial_cpus(evidence, host)
    if host_stolen_share(evidence, host) is None:
        yield "stolen CPU time"
    if quota_withheld(evidence, host) is None:
        yield "CPU time withheld by a quota"
    if _nominal_hz(evidence, host) is None:
        yield "nominal clock rate"
    elif _busy_cpus(evidence, host, cpus) and _mean_hz(evidence, host, cpus) is None:
        yield "clock rate under load"


def _nominal_hz(evidence: Evidence, host: str) -> float | None:
    stated = NOMINAL.search(evidence.facts_of(host).cpu_model or "")
    return None if stated is None else float(stated[1]) * 1e9


def _busy_cpus(evidence: Evidence, host: str, cpus: set[int]) -> set[int]:
    """Return the cores that had work for most of the window."""
    return {cpu for cpu in cpus if (cores_busy(evidence, host, [cpu]) or 0.0) > MOSTLY_BUSY}


def _mean_hz(evidence: Evidence, host: str, cpus: set[int]) -> float | None:
    """Return the mean clock rate of its busy cores, over samples within the window."""
    busy = {str(cpu) for cpu in _busy_cpus(evidence, host, cpus)}
    series = [each for each in evidence.telemetry.series("cpu_frequency_hz", host) if each.instance in busy]
    values = [value for each in series for value in each.in_window(evidence.window_s)]
    return sum(values) / len(values) if values else None
