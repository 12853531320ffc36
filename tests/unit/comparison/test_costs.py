"""The cost of a million requests on cells' servers."""

from __future__ import annotations

import pytest

from benchkit.comparison.costs import cell_costs
from benchkit.comparison.run_data import RunData
from benchkit.stats.samples import Exclusion
from tests.support.comparison.fixtures import manifest_of, trials_of

CELLS = [{"stack": "go"}, {"stack": "nginx"}]


def run_with(currency: dict[str, str | None], *exclusions: Exclusion) -> RunData:
    """Return a run whose cells have costs of about one and of about two in these currencies."""
    costs = {"stack=go": [1.0, 1.1, 0.9, 1.0], "stack=nginx": [2.0, 2.1, 1.9, 2.0]}
    trials = trials_of(costs, metric="cost_per_million")
    trials["currency"] = trials["cell_id"].map(currency)
    trials.loc[trials["currency"].isna(), "cost_per_million"] = float("nan")
    return RunData(manifest_of(CELLS), trials, exclusions)


def test_each_cell_has_its_cost_with_an_interval() -> None:
    go, nginx = cell_costs(run_with({"stack=go": "EUR", "stack=nginx": "EUR"}))
    assert (go.label, go.currency, go.trials) == ("go", "EUR", 4)
    assert go.cost == pytest.approx((1.0 * 1.1 * 0.9 * 1.0) ** 0.25)
    assert go.low is not None
    assert go.high is not None
    assert go.low < go.cost < go.high < nginx.cost
    assert go.sentence == f"go: 0.997 EUR for a million requests, {go.low:.3g} to {go.high:.3g} (4 trials)."


def test_a_cell_without_a_price_has_no_cost() -> None:
    (go,) = cell_costs(run_with({"stack=go": "EUR", "stack=nginx": None}))
    assert go.label == "go"
    assert cell_costs(run_with({"stack=go": None, "stack=nginx": None})) == ()


def test_excluded_trials_have_no_part_in_it() -> None:
    data = run_with({"stack=go": "USD", "stack=nginx": "USD"})
    excluded = [Exclusion(trial_id, "invalid") for trial_id in data.trials["trial_id"][:1]]
    assert cell_costs(run_with({"stack=go": "USD", "stack=nginx": "USD"}, *excluded))[0].trials == 3
