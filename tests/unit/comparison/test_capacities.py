"""Capacities of cells over the searches of their blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from benchkit.comparison.cell_results import CellCapacity, cell_capacities
from benchkit.comparison.claims import judge_claim
from benchkit.comparison.compare import compare_cells
from benchkit.comparison.runs.run_data import RunData
from benchkit.models.claims import CellPair, Claim
from benchkit.stats.samples import Exclusion
from tests.support.comparison.fixtures import manifest_of, trials_of

SEARCH = {"load": {"tool": "openloop", "capacity": {"slo": {"p99_s": 0.01}}}}


def found(
    values: Sequence[float],
    *,
    low: float | Sequence[float | None] = 90.0,
    high: float | Sequence[float | None] | None = 110.0,
    exclusions: Sequence[Exclusion] = (),
    scenario: dict[str, Any] = SEARCH,
) -> CellCapacity:
    """Return the capacity of the only cell of a run with these searches, a block each."""
    trials = trials_of({"stack=go": values}, metric="capacity_rps")
    trials["capacity_low"], trials["capacity_high"] = (np.array(ends, dtype=float) for ends in (low, high))
    (capacity,) = cell_capacities(RunData(manifest_of([{"stack": "go"}], scenario=scenario), trials, tuple(exclusions)))
    return capacity


def test_one_search_has_its_own_interval() -> None:
    assert found([100]).sentence == "go: 100 requests/s with p99 latency within 10.0 ms, 90.0 to 110 (1 search)."


def test_several_searches_have_the_interval_of_their_mean() -> None:
    values = 100 * np.exp(0.02 * np.random.default_rng(1).standard_normal(6))
    capacity = found(list(values))
    assert capacity.rps == pytest.approx(np.exp(np.log(values).mean()))
    assert capacity.rps is not None
    assert capacity.low is not None
    assert capacity.high is not None
    assert 90 < capacity.low < capacity.rps < capacity.high < 110


def test_a_search_that_is_not_bounded_gives_the_highest_rate_that_it_saw_kept() -> None:
    capacity = found([80, 100], low=[80, 100], high=None)
    assert (capacity.rps, capacity.at_least) == (None, 100)
    assert capacity.sentence == "go: at least 100 requests/s with p99 latency within 10.0 ms (2 searches)."
    assert found([80, 100], low=[80, 90], high=[None, 110]).rps == pytest.approx(100), "one of them is bounded"


def test_an_excluded_search_is_shown_where_there_is_no_other() -> None:
    excluded = Exclusion("r1.stack=go.b1", "invalid: noisy-host")
    assert found([50, 100], exclusions=[excluded]).rps == pytest.approx(100)
    assert found([50], exclusions=[excluded]).sentence.endswith("excluded from comparisons (invalid: noisy-host).")


def test_ratios_claims_and_capacities_exclude_the_same_trials() -> None:
    """One rule: a search that is invalid in one of six blocks is in none of them, and the other five are in all."""
    noise = np.exp(0.02 * np.random.default_rng(3).standard_normal((2, 6)))
    trials = trials_of({"stack=go": list(100 * noise[0]), "stack=nginx": list(50 * noise[1])}, metric="capacity_rps")
    trials["capacity_low"], trials["capacity_high"] = 0.9 * trials["capacity_rps"], 1.1 * trials["capacity_rps"]
    lost = str(trials["trial_id"][trials["cell_id"] == "stack=go"].iloc[2])
    exclusion = Exclusion(lost, "invalid: capacity-found", frozenset({"capacity_rps"}), frozenset({"capacity-found"}))
    manifest = manifest_of([{"stack": "go"}, {"stack": "nginx"}], scenario={**SEARCH, "baseline": {"stack": "go"}})
    data = RunData(manifest, trials, (exclusion,))
    pair = CellPair(of={"stack": "nginx"}, to={"stack": "go"})
    claim = Claim(text="half", ratio=pair, metric="capacity_rps", at_most=0.75)
    (compared,) = compare_cells(data, ["capacity_rps"]).ratios
    result = judge_claim(claim, data)
    (claimed,) = result.ratios
    capacity = {each.cell_id: each for each in cell_capacities(data)}
    usable = trials[(trials["cell_id"] == "stack=go") & (trials["trial_id"] != lost)]
    assert compared.blocks == claimed.blocks == len(usable) == 5
    assert [each.trial_id for each in compared.exclusions] == [each.trial_id for each in claimed.exclusions] == [lost]
    assert (compared.ratio, compared.low, compared.high) == (claimed.ratio, claimed.low, claimed.high)
    assert compared.is_shown
    assert result.state == "holds"
    assert capacity["stack=go"].exclusion is None
    assert capacity["stack=go"].rps == pytest.approx(np.exp(np.log(usable["capacity_rps"]).mean()))
