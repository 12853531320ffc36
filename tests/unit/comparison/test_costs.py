"""The cost of a million requests on cells' servers."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchkit import units
from benchkit.comparison.compare import compare, compare_cells
from benchkit.comparison.costs import cell_costs, cell_energies
from benchkit.comparison.runs.run_data import RunData
from benchkit.models.capacity import CapacityEstimate
from benchkit.models.load_result import LoadResult
from benchkit.models.trial import ServerPrice
from benchkit.stats.samples import Exclusion
from benchkit.store.row_builders import trial_row
from tests.support.comparison.fixtures import manifest_of, store_run, trials_of
from tests.support.judge.builders import build_trial

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


def store_cost_run(
    folder: Path,
    run_id: str,
    metric: str,
    values: dict[str, list[float]],
    cpus: int = 2,
    **columns: str,
) -> None:
    """Store a run of this metric on a host of so many CPUs; the basis of the metric is among the columns."""
    trials = trials_of(values, metric=metric, run_id=run_id)
    for column, text in columns.items():
        trials[column] = text
    facts = {"cpus": list(range(cpus)), "machine": "x86_64" if cpus == 2 else "aarch64"}
    store_run(folder, manifest_of(CELLS, run_id=run_id, facts=facts), trials)


X86 = {"stack=go": [1.0, 1.1, 0.9, 1.0], "stack=nginx": [2.0, 2.1, 1.9, 2.0]}
ARM = {name: [0.5 * value for value in values] for name, values in X86.items()}


@pytest.mark.parametrize(
    ("metric", "basis"),
    [("cost_per_million", {"currency": "EUR"}), ("energy_j_per_request", {"energy_covers": "package"})],
)
def test_costs_and_energy_compare_on_different_hosts_whose_rates_do_not(
    tmp_path: Path, metric: str, basis: dict[str, str]
) -> None:
    store_cost_run(tmp_path, "r1", metric, X86, 2, **basis)
    store_cost_run(tmp_path, "r2", metric, ARM, 4, **basis)
    found = compare("r1", "r2", store=tmp_path, metrics=[metric])
    assert {ratio.cell_id for ratio in found.ratios} == {"stack=go", "stack=nginx"}
    assert [ratio.ratio for ratio in found.ratios] == pytest.approx([0.5, 0.5])
    assert all(ratio.low is not None and ratio.low < 0.5 < (ratio.high or 0) for ratio in found.ratios)
    assert {ratio.relative_to for ratio in found.ratios} == {None}
    assert found.notes[0].startswith(
        "The runs had different hosts (host for sut: CPUs was 2, is 4; host for sut: architec"
    )
    assert "their rates cannot be compared. The cost and the energy of a request can" in found.notes[0]
    both = compare("r1", "r2", store=tmp_path, metrics=[metric, "rps"])
    assert {ratio.relative_to for ratio in both.ratios} == {"stack=go"}, "rates need a common baseline"


def test_values_of_two_currencies_or_of_other_parts_are_not_compared(tmp_path: Path) -> None:
    store_cost_run(tmp_path, "r1", "cost_per_million", X86, currency="EUR")
    store_cost_run(tmp_path, "r2", "cost_per_million", ARM, 4, currency="USD")
    for ratio in compare("r1", "r2", store=tmp_path, metrics=["cost_per_million"]).ratios:
        assert ratio.ratio is None
        assert {each.reason for each in ratio.exclusions} == {"in USD, where EUR is compared"}
    covers = {"stack=go": "package", "stack=nginx": "whole host"}
    trials = trials_of(X86, metric="energy_j_per_request")
    data = RunData(manifest_of(CELLS), trials.assign(energy_covers=trials["cell_id"].map(covers)))
    (ratio,) = compare_cells(data, ["energy_j_per_request"]).ratios
    assert (ratio.outcome, ratio.is_unusable) == ("undecided", True)
    assert {each.reason for each in ratio.exclusions} == {"in whole host, where package is compared"}


def test_a_host_without_a_price_is_named(tmp_path: Path) -> None:
    store_cost_run(tmp_path, "r1", "cost_per_million", X86, currency="EUR")
    store_cost_run(tmp_path, "r2", "rps", ARM, 4)
    found = compare("r1", "r2", store=tmp_path, metrics=["cost_per_million"])
    assert "r2: no cost on sut: give price_per_hour of each host in the inventory." in found.notes


def test_energy_says_what_it_covers_and_how_much_is_over_idle() -> None:
    trials = trials_of(X86, metric="energy_j_per_request")
    trials["active_energy_j_per_request"] = trials["energy_j_per_request"] / 4
    go, _ = cell_energies(RunData(manifest_of(CELLS), trials.assign(energy_covers="package + DRAM")))
    assert go.low is not None
    assert go.high is not None
    assert go.sentence == (
        f"go: 997 mJ a request, {units.joules(go.low)} to {units.joules(go.high)}, 249 mJ of it over idle "
        "(package + DRAM) (4 trials)."
    )


def test_testbeds_of_one_run_compare_in_cost(tmp_path: Path) -> None:
    cells = [{"stack": "go", "testbed": name} for name in ("x86", "arm")]
    values = {f"stack=go,testbed={name}": X86["stack=go"] for name in ("x86", "arm")}
    values["stack=go,testbed=arm"] = ARM["stack=go"]
    trials = trials_of(values, metric="cost_per_million")
    trials["currency"] = "EUR"
    store_run(tmp_path, manifest_of(cells), trials)
    found = compare("r1", store=tmp_path, metrics=["cost_per_million"], baseline="testbed=x86")
    (ratio,) = found.ratios
    assert (ratio.cell_id, ratio.baseline) == ("stack=go,testbed=arm", "stack=go,testbed=x86")
    assert ratio.ratio == pytest.approx(0.5)
    assert ratio.low is not None
    assert [cost.cell_id for cost in found.costs] == list(values)


CAPACITY = CapacityEstimate(rps=800, low=780, high=820, reason="narrow", ceiling_rps=2000)


@pytest.mark.parametrize(("capacity", "cost"), [(None, 1e6 / 3600 / 500), (CAPACITY, 1e6 / 3600 / 800)])
def test_cost_is_that_of_the_held_rate_or_of_the_capacity(capacity: CapacityEstimate | None, cost: float) -> None:
    record = build_trial(price=ServerPrice(per_hour=1, currency="EUR"), capacity=capacity).record
    row = trial_row(record, LoadResult(tool="wrk", rps=500, requests=1500, duration_s=3))
    assert row.cost_per_million == pytest.approx(cost)
    assert row.currency == "EUR"
    assert (
        trial_row(record.model_copy(update={"price": None}), LoadResult(tool="wrk", rps=500)).cost_per_million is None
    )


def test_a_capacity_that_is_not_known_has_no_cost() -> None:
    unknown = CAPACITY.model_copy(update={"low": None})
    record = build_trial(price=ServerPrice(per_hour=1, currency="EUR"), capacity=unknown).record
    assert trial_row(record, LoadResult(tool="wrk", rps=500)).cost_per_million is None
