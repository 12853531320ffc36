"""Latency against rate: points, bands and the capacity."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from benchkit.comparison.rate_curves import rate_curves_of, rate_factor
from benchkit.comparison.runs.run_data import RunData
from benchkit.models.base import cell_id
from benchkit.models.metrics import P50, P99
from benchkit.stats.samples import Exclusion
from tests.support.comparison.fixtures import manifest_of, trials_of

SHARES = (0.1, 0.3, 0.5, 0.7, 0.9, 1.2)
CAPACITY = 1000.0
SCENARIO = {
    "factors": {"stack": ["go", "c"], "share": list(SHARES)},
    "load": {"rate": {"share_of_capacity": "$share"}, "capacity": {"slo": {"p99_s": 0.01}}},
}
LEVELS: list[dict[str, str | int | bool | float]] = [
    {"stack": stack, "share": share} for stack in ("go", "c") for share in SHARES
]
EXCLUDED = cell_id({"stack": "go", "share": 1.2})


def queueing(share: float) -> float:
    """Return the p99 of a queue at a share of its capacity, which overload lets grow to 0.4 s."""
    return 0.001 / (1 - share) if share < 1 else 0.4


def run_of(blocks: int = 6, noise: float = 0.02) -> RunData:
    generator = np.random.default_rng(1)
    trials = trials_of({cell_id(levels): np.full(blocks, 1.0) for levels in LEVELS})
    share = [float(cell.rpartition("=")[2]) for cell in trials["cell_id"]]
    trials["rate_requested"] = [CAPACITY * each for each in share]
    p99 = np.array([queueing(each) for each in share]) * np.exp(noise * generator.standard_normal(len(share)))
    trials[P50], trials[P99], trials["latency_p999_s"] = p99 / 4, p99, 3 * p99
    first = {"cell_id": cell_id(LEVELS[0]), "trial_id": "r1.q", "block": 0, "position": 1, "kind": "calibrate"}
    found = {"capacity_rps": CAPACITY, "capacity_low": 960.0, "capacity_high": 1040.0}
    trials = pd.concat([trials, pd.DataFrame([first | found])], ignore_index=True)
    of_overload = trials.loc[trials["cell_id"] == EXCLUDED, "trial_id"]
    exclusions = tuple(Exclusion(each, "invalid: rate-held", frozenset({P50, P99})) for each in of_overload)
    return RunData(manifest_of(LEVELS, scenario=SCENARIO), trials, exclusions)


def test_each_stack_has_a_curve_with_bands_and_its_capacity() -> None:
    go, other = rate_curves_of(run_of())
    assert (dict(go.levels), go.factor) == ({"stack": "go"}, "share")
    assert [point.rate for point in go.points[P99]] == [CAPACITY * share for share in SHARES[:-1]]
    for point in go.points[P99]:
        assert point.low is not None
        assert point.high is not None
        assert point.low < point.value < point.high
        assert point.value == pytest.approx(queueing(point.level), rel=0.03)
    assert go.capacity is not None
    assert (go.capacity.rps, go.capacity.low, go.capacity.high) == (CAPACITY, 960, 1040)
    assert other.capacity is None  # no cell of it was searched
    assert go.objective is not None
    assert go.objective.p99_s == 0.01
    frame = go.frame()
    assert len(frame) == 2 * (len(SHARES) - 1) + len(SHARES)
    assert set(frame["factor_stack"]) == {"go"}


@pytest.mark.parametrize(
    ("load", "factor"),
    [
        ({"rate": {"share_of_capacity": "$share"}}, "share"),
        ({"share_of_slowest": "$share"}, "share"),
        ({"rate": "$share"}, "share"),
        ({"rate": "$few"}, None),
        ({"rate": 500, "connections": "$share"}, None),
        ({"rate": "$share", "shape": {"form": "step"}}, None),
    ],
)
def test_the_factor_of_the_rate(load: dict[str, object], factor: str | None) -> None:
    assert rate_factor({"factors": {"share": [1, 2, 3], "few": [1, 2]}, "load": load}) == factor
