"""Check capacity-found: the search for a capacity did not end at the server's limit, or not precisely."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchkit import units
from benchkit.judge.check import Check, CheckResult, Finding, RunCheckResult
from benchkit.judge.evidence import Evidence, RunEvidence
from benchkit.models.capacity import CapacityEstimate
from benchkit.models.load import RATE
from benchkit.models.metrics import CAPACITY, GOODPUT, LATENCIES
from benchkit.models.thresholds import Thresholds

AT_SHARES = (*LATENCIES, GOODPUT, "overload_error_share", "recovery_s")
"""Metrics that are compared at a share of a capacity."""


def of_trial(evidence: Evidence, _thresholds: Thresholds) -> CheckResult:
    """Read how the search that the trial followed had ended."""
    found, goal = evidence.record.capacity, evidence.record.load.capacity
    if found is None or goal is None:
        return ()
    probes = units.counted(len(found.probes), "probe")
    if found.high is None or found.low is None:
        return [_no_limit(found)]
    if found.precision <= goal.precision:
        return ()
    return [
        Finding(
            severity="suspect",
            metrics=(CAPACITY,),
            seen=f"after {probes} the interval of the capacity is {units.rate(found.low)} to "
            f"{units.requests_per_s(found.high)}, {units.share(found.precision)} to one side; the search ended because {found.reason}",
            threshold=f"limit: {units.share(goal.precision)}, as the scenario asks",
            means="Whether a rate keeps the objective depended on chance, or too few probes could be used.",
            advice="Give the search more time (budget_s), or longer probes (duration_s).",
        )
    ]


def _no_limit(found: CapacityEstimate) -> Finding:
    probes = units.counted(len(found.probes), "probe")
    limited = sum(probe.outcome == "generator" for probe in found.probes)
    unusable = [probe.why for probe in found.probes if probe.outcome == "unusable"]
    clauses = [
        *([f"the load tool was the limit of {limited} of {probes}"] if limited else []),
        *([f"{len(unusable)} of {probes} cannot be used ({unusable[-1]})"] if unusable else []),
    ]
    held = found.highest_held
    kept = (
        "no rate kept the objective"
        if held is None
        else f"the objective was kept at up to {units.requests_per_s(held)}"
    )
    tried = "" if found.highest_tried is None else f", and the highest rate tried is {units.rate(found.highest_tried)}"
    return Finding(
        severity="invalid",
        metrics=(CAPACITY,),
        seen=f"{' and '.join(clauses) or f'none of {probes} failed'}: {kept}{tried}",
        threshold="limit: probes at which the server is the limit",
        means="No probe shows a rate that the server does not keep: its capacity is not bounded.",
        advice="Run it again on a quieter host, or with longer probes."
        if len(unusable) > limited
        else "Give the load tool more cores, threads or processes, or add a load host.",
    )


def of_run(evidence: RunEvidence, _thresholds: Thresholds) -> RunCheckResult:
    """Find the trials at a share of a capacity of which only a lower bound is known."""
    factor = _share_factor(evidence.manifest.scenario.get("load") or {})
    if factor is None:
        return {}
    trials = evidence.trials
    others = {
        cell.cell_id: tuple((name, level) for name, level in cell.levels.items() if name != factor)
        for cell in evidence.manifest.cells
    }
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


def _unknown_share(low: float) -> Finding:
    return Finding(
        severity="suspect",
        metrics=AT_SHARES,
        seen=f"the capacity, of which the target rate is a share, is at least {units.requests_per_s(low)}",
        threshold="limit: a capacity with an interval",
        means="The figures hold at this rate, which may be a smaller share of the capacity than asked for.",
        advice="Read them by their rate, or give the load tool more cores, threads or processes, or add a load host.",
    )


CHECK = Check("capacity-found", "the search for the capacity did not find it", of_trial=of_trial, of_run=of_run)
