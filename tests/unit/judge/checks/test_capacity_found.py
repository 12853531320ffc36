"""Tests of the check capacity-found."""

from __future__ import annotations

import pytest

from benchkit.judge.evidence import Evidence
from benchkit.models.capacity import CapacityEstimate, CapacityProbe
from tests.support.judge.builders import build_load, build_trial, finding_of

GOAL = {"slo": {"p99_s": 0.01}, "precision": 0.05}


def searched(low: float | None, high: float | None, *outcomes: str) -> Evidence:
    """Return a trial after a search with probes at 1,000 requests per second and more."""
    probes = [
        CapacityProbe.model_validate(
            {"trial_id": f"r.q{number}", "rate": 900 + 100 * number, "outcome": each, "why": "slow"}
        )
        for number, each in enumerate(outcomes or ("missed",), start=1)
    ]
    found = CapacityEstimate(
        rps=1000, low=low, high=high, reason="its time is over", ceiling_rps=2000, probes=tuple(probes)
    )
    return build_trial(capacity=found, load=build_load(tool="vegeta", rate=1000, capacity=GOAL))


def test_a_precise_search_has_no_finding() -> None:
    assert finding_of("capacity-found", searched(960, 1045)) is None
    assert finding_of("capacity-found", build_trial()) is None


def test_a_wide_interval_is_suspect() -> None:
    found = finding_of("capacity-found", searched(960, 1080))
    assert found is not None
    assert (found.severity, found.metrics) == ("suspect", ("capacity_rps",))
    assert "the capacity is 960 to 1,080 requests/s;" in found.seen


@pytest.mark.parametrize(
    ("outcomes", "seen"),
    [
        (("held", "generator", "generator"), "is at least 1,000 requests/s; the load tool was the limit of 2, and 0 "),
        (("held", "held"), "is at least 1,100 requests/s; the load tool was the limit of 0, and 0 cannot be used"),
        (("unusable", "unusable"), "is not known; the load tool was the limit of 0, and 2 cannot be used"),
    ],
)
def test_a_search_without_a_limit_states_the_rate_that_was_kept(outcomes: tuple[str, ...], seen: str) -> None:
    found = finding_of("capacity-found", searched(1000, None, *outcomes))
    assert found is not None
    assert (found.severity, found.metrics) == ("invalid", ("capacity_rps",))
    assert seen in found.seen
