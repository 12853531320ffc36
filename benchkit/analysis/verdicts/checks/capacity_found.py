"""Check capacity-found: the search for a capacity did not end at the server's limit, or not precisely."""

from __future__ import annotations

from benchkit import units
from benchkit.analysis.verdicts.check import Check, CheckResult, Finding
from benchkit.analysis.verdicts.evidence import Evidence
from benchkit.models.thresholds import Thresholds

CAPACITY = ("capacity_rps",)


def of_trial(evidence: Evidence, _thresholds: Thresholds) -> CheckResult:
    """Read how the search that the trial followed had ended."""
    found, goal = evidence.record.capacity, evidence.record.load.capacity
    if found is None or goal is None:
        return ()
    probes = units.counted(len(found.probes), "probe")
    if found.high is None:
        limited = sum(probe.outcome == "generator" for probe in found.probes)
        who = f"the load tool was the limit of {limited} of {probes}" if limited else f"none of {probes} failed"
        return [
            Finding(
                severity="invalid",
                metrics=CAPACITY,
                seen=f"{who}: the capacity is at least {units.requests_per_s(found.low)}",
                threshold="limit: probes at which the server is the limit",
                means="Rates above that were not tried on the server: its capacity is not known.",
                advice="Give the load tool more cores, threads or processes, or add a load host.",
            )
        ]
    width = max(found.high / found.rps, found.rps / found.low) - 1
    if width <= goal.precision:
        return ()
    return [
        Finding(
            severity="suspect",
            metrics=CAPACITY,
            seen=f"after {probes} the interval of the capacity is {units.rate(found.low)} to "
            f"{units.requests_per_s(found.high)}, {units.share(width)} to one side; the search ended because {found.reason}",
            threshold=f"limit: {units.share(goal.precision)}, as the scenario asks",
            means="Whether a rate keeps the objective depended on chance, or too few probes could be used.",
            advice="Give the search more time (budget_s), or longer probes (duration_s).",
        )
    ]


CHECK = Check("capacity-found", "the search for the capacity did not find it", of_trial=of_trial)
