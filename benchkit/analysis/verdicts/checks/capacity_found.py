"""Check capacity-found: the search for a capacity did not end at the server's limit, or not precisely."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchkit import units
from benchkit.analysis.verdicts.check import Check, CheckResult, Finding, RunCheckResult
from benchkit.analysis.verdicts.evidence import Evidence, RunEvidence
from benchkit.models.levels import Level
from benchkit.models.load import RATE
from benchkit.models.metrics import GOODPUT, LATENCIES
from benchkit.models.thresholds import Thresholds

CAPACITY = ("capacity_rps",)
AT_SHARES = (*LATENCIES, GOODPUT, "overload_error_share", "recovery_s")
"""Metrics that are compared at a share of a capacity."""


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


def of_run(evidence: RunEvidence, _thresholds: Thresholds) -> RunCheckResult:
    """Find the trials at a share of a capacity that is only known to be at least something."""
    factor = _share_factor(evidence.manifest.scenario.get("load") or {})
    if factor is None:
        return {}
    trials = evidence.trials
    others = {cell.cell_id: _levels_without(cell.levels, factor) for cell in evidence.manifest.cells}
    is_search = (trials["kind"] == "calibrate") & trials["capacity_rps"].notna()
    unbounded = trials[is_search & trials["capacity_high"].isna()]
    lows = {others[str(cell)]: low for cell, low in zip(unbounded["cell_id"], unbounded["capacity_low"], strict=True)}
    measured = trials[trials["kind"] == "measure"]
    return {
        str(trial_id): [_unknown_share(float(lows[others[str(cell)]]))]
        for trial_id, cell in zip(measured["trial_id"], measured["cell_id"], strict=True)
        if others.get(str(cell)) in lows
    }


def _share_factor(load: Mapping[str, Any]) -> str | None:
    """Return the factor with the share of the capacity; empty: the same share for all; None: it is no such load."""
    rate = load.get(RATE)
    share = (rate if isinstance(rate, Mapping) else load).get("share_of_capacity")
    return share[1:] if isinstance(share, str) else None if share is None else ""


def _levels_without(levels: Mapping[str, Level], factor: str) -> tuple[tuple[str, Level], ...]:
    return tuple((name, level) for name, level in levels.items() if name != factor)


def _unknown_share(low: float) -> Finding:
    return Finding(
        severity="suspect",
        metrics=AT_SHARES,
        seen=f"the capacity, of which the target rate is a share, is at least {units.requests_per_s(low)}",
        threshold="limit: a capacity with an interval",
        means="The figures are those of this rate, which may be a smaller share of the capacity than asked for.",
        advice="Read them by their rate, or give the load tool more cores, threads or processes, or add a load host.",
    )


CHECK = Check("capacity-found", "the search for the capacity did not find it", of_trial=of_trial, of_run=of_run)
