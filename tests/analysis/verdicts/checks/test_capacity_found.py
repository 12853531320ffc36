"""Tests of the check capacity-found."""

from __future__ import annotations

from benchkit.analysis.verdicts.evidence import Evidence
from benchkit.models.capacity import CapacityEstimate, CapacityProbe
from tests.analysis.verdicts.builders import build_load, build_trial, finding_of

GOAL = {"slo": {"p99_s": 0.01}, "precision": 0.05}


def searched(low: float, high: float | None, outcome: str = "missed") -> Evidence:
    probe = CapacityProbe.model_validate({"trial_id": "r.q2", "rate": 1000, "outcome": outcome, "why": "slow"})
    found = CapacityEstimate(
        rps=1000, low=low, high=high, reason="its time is over", ceiling_rps=2000, probes=(probe, probe)
    )
    return build_trial(capacity=found, load=build_load(tool="vegeta", rate=1000, capacity=GOAL))


def test_a_precise_search_has_no_finding() -> None:
    assert finding_of("capacity-found", searched(960, 1045)) is None
    assert finding_of("capacity-found", build_trial()) is None


def test_a_wide_interval_is_suspect() -> None:
    found = finding_of("capacity-found", searched(960, 1080))
    assert found is not None
    assert (found.severity, found.metrics) == ("suspect", ("capacity_rps",))
    assert "960 to 1,080 requests/s, 8.0 % to one side; the search ended because its time is over" in found.seen


def test_a_load_tool_that_was_the_limit_leaves_a_lower_bound() -> None:
    found = finding_of("capacity-found", searched(960, None, "generator"))
    assert found is not None
    assert (found.severity, found.metrics) == ("invalid", ("capacity_rps",))
    assert found.seen.endswith("the load tool was the limit of 2 of 2 probes: the capacity is at least 960 requests/s")
