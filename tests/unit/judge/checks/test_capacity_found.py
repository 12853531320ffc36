"""Tests of the check capacity-found."""

from __future__ import annotations

import pandas as pd
import pytest

from benchkit.judge.evidence import Evidence
from benchkit.models.base import Levels
from benchkit.models.capacity import CapacityEstimate, CapacityProbe
from tests.support.comparison.fixtures import manifest_of, trials_of
from tests.support.judge.builders import build_load, build_trial, finding_of, run_findings, trial_ids

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
    assert "960 to 1,080 requests/s, 8.0 % to one side; the search ended because its time is over" in found.seen


@pytest.mark.parametrize(
    ("outcomes", "seen"),
    [
        (
            ("held", "generator", "generator"),
            "the load tool was the limit of 2 of 3 probes: the objective was kept at up ",
        ),
        (("held", "held"), "none of 2 probes failed: the objective was kept at up to 1,100 requests/s"),
        (("unusable", "unusable"), "2 of 2 probes cannot be used (slow): no rate kept the objective"),
    ],
)
def test_a_search_without_a_limit_states_the_rates_that_were_kept_and_tried(
    outcomes: tuple[str, ...], seen: str
) -> None:
    found = finding_of("capacity-found", searched(1000, None, *outcomes))
    assert found is not None
    assert (found.severity, found.metrics) == ("invalid", ("capacity_rps",))
    assert found.seen.startswith(seen)
    assert found.seen.endswith(f"and the highest rate tried is {900 + 100 * len(outcomes):,}")


def test_shares_of_a_lower_bound_are_suspect() -> None:
    """Search two servers, one of them up to the load tool's limit, and run each at two shares."""
    levels: list[Levels] = [{"stack": stack, "share": share} for stack in ("go", "nginx") for share in (0.5, 0.9)]
    cells = [",".join(f"{name}={level}" for name, level in each.items()) for each in levels]
    manifest = manifest_of(levels, scenario={"load": {"rate": {"share_of_capacity": "$share"}}})
    trials = trials_of({cell: [1000.0] * 3 for cell in cells})
    search = trials[(trials["block"] == 1) & trials["cell_id"].isin([cells[0], cells[2]])].assign(
        kind="calibrate", trial_id=["s1", "s2"], block=0, capacity_rps=1000.0, capacity_low=960.0
    )
    search["capacity_high"] = [None, 1050.0]
    found = run_findings("capacity-found", manifest, pd.concat([search, trials]))
    assert set(found) == {trial_id for cell in cells[:2] for trial_id in trial_ids(cell)}
    (finding,) = set(found.values())
    assert (finding.severity, "latency_p99_s" in finding.metrics) == ("suspect", True)
    assert finding.seen.endswith("is at least 960 requests/s")
    assert not run_findings("capacity-found", manifest_of(levels), pd.concat([search, trials]))
