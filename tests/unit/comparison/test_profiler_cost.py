from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pandas as pd
import pytest

from benchkit.comparison.cpu_profiles import in_profile_pass, profiler_costs
from benchkit.comparison.run_data import profile_pass_exclusions
from benchkit.models.run import Manifest
from benchkit.stats.samples import Exclusion, take_samples

MakeTrials = Callable[..., pd.DataFrame]
Pairs = Mapping[str, Sequence[tuple[float, float]]]
"""Pairs of each cell: the rate with profiler, and the rate without."""


@pytest.fixture
def make_pass(make_trials: MakeTrials) -> Callable[[Pairs], pd.DataFrame]:
    """A run of two measured blocks, and a profile pass of these pairs after them."""

    def made(pairs: Pairs) -> pd.DataFrame:
        parts = [make_trials({cell: [100.0, 100.0] for cell in pairs} | {"a~control": [100.0, 100.0]})]
        for place, kind in enumerate(("profile", "control")):
            rows = make_trials({cell: [pair[place] for pair in each] for cell, each in pairs.items()}, kind=kind)
            parts.append(rows.assign(block=rows["block"] + 2, trial_id=rows["trial_id"] + f".{kind}"))
        return pd.concat(parts, ignore_index=True)

    return made


def test_the_cost_is_the_geometric_mean_of_pairs_over_all_cells_and_of_each(
    make_pass: Callable[[Pairs], pd.DataFrame],
) -> None:
    trials = make_pass({"a": [(90, 100), (99, 100)], "b": [(50, 50), (48, 50)]})
    over_all, a, b = profiler_costs(trials)
    assert (over_all.cell_id, a.cell_id, b.cell_id) == (None, "a", "b")
    assert (over_all.pairs, a.pairs, b.pairs) == (4, 2, 2)
    assert a.ratio == pytest.approx(math.sqrt(0.9 * 0.99))
    assert b.ratio == pytest.approx(math.sqrt(0.96))
    assert over_all.ratio == pytest.approx((0.9 * 0.99 * 0.96) ** 0.25)


def test_intervals_are_students_about_log_ratios_with_the_spread_within_cells_pooled(
    make_pass: Callable[[Pairs], pd.DataFrame],
) -> None:
    pairs = {"a": [(90.0, 100.0), (99.0, 100.0)], "b": [(50.0, 50.0), (48.0, 50.0)]}
    over_all, a, b = profiler_costs(make_pass(pairs))
    logs = {cell: np.log([one / other for one, other in each]) for cell, each in pairs.items()}
    within = math.sqrt(sum(((each - each.mean()) ** 2).sum() for each in logs.values()) / 2)
    for cost, each in ((a, logs["a"]), (b, logs["b"])):
        reach = 4.302653 * within / math.sqrt(2)  # t, two degrees of freedom, 97.5 %
        assert cost.low == pytest.approx(math.exp(each.mean() - reach))
        assert cost.high == pytest.approx(math.exp(each.mean() + reach))
    everything = np.concatenate(list(logs.values()))
    reach = 3.182446 * everything.std(ddof=1) / 2  # three degrees
    assert over_all.low == pytest.approx(math.exp(everything.mean() - reach))
    assert "95% interval" in over_all.sentence
    assert "over 4 pairs" in over_all.sentence


def test_single_pairs_give_an_interval_only_over_all_cells(make_pass: Callable[[Pairs], pd.DataFrame]) -> None:
    over_all, a, b = profiler_costs(make_pass({"a": [(90, 100)], "b": [(99, 100)]}))
    assert over_all.low is not None
    assert (a.low, a.high, b.low) == (None, None, None)
    assert a.ratio == pytest.approx(0.9)
    assert "without an interval: an interval needs a cell with two pairs" in a.sentence


def test_half_a_pair_and_excluded_trials_do_not_count(make_pass: Callable[[Pairs], pd.DataFrame]) -> None:
    trials = make_pass({"a": [(90, 100), (80, 100)], "b": [(99, 100), (98, 100)]})
    lost = trials[(trials["cell_id"] == "a") & (trials["block"] == 4) & (trials["kind"] == "profile")]
    out = [Exclusion(str(lost["trial_id"].item()), "the host was noisy", frozenset({"rps"}))]
    for costs in (profiler_costs(trials, exclusions=out), profiler_costs(trials.drop(lost.index))):
        assert [cost.pairs for cost in costs] == [3, 1, 2]
        assert costs[1].ratio == pytest.approx(0.9)
    other = [Exclusion(str(lost["trial_id"].item()), "…", frozenset({"latency_p50_s"}))]
    assert [cost.pairs for cost in profiler_costs(trials, exclusions=other)] == [4, 2, 2]


def test_reason_is_stated_without_a_usable_pair(make_pass: Callable[[Pairs], pd.DataFrame]) -> None:
    trials = make_pass({"a": [(90, 100)]})
    excluded = [Exclusion(trial_id, "invalid: noisy-host") for trial_id in trials["trial_id"]]
    (cost,) = profiler_costs(trials, exclusions=excluded)
    assert (cost.cell_id, cost.pairs, cost.ratio) == (None, 0, None)
    assert cost.sentence.endswith("is unknown: no usable pair: 2 of its 2 trials are invalid.")
    (cost,) = profiler_costs(trials, "latency_p50_s")
    assert "no pair has latency_p50_s of both trials" in cost.sentence


def test_findings_caused_by_profiling_exclude_no_pair(
    make_pass: Callable[[Pairs], pd.DataFrame], make_manifest: Callable[..., Manifest]
) -> None:
    trials = make_pass({"a": [(90, 100), (80, 100)]})
    profiled = trials.loc[trials["kind"] == "profile", "trial_id"].tolist()
    verdicts = pd.DataFrame(
        [
            *({"trial_id": name, "check": "observed", "severity": "invalid", "metrics": ["rps"]} for name in profiled),
            {"trial_id": profiled[0], "check": "noisy-host", "severity": "invalid", "metrics": ["rps"]},
        ]
    )
    excluded = profile_pass_exclusions(trials, verdicts, make_manifest([{"only": "a"}]))
    assert [(each.trial_id, each.reason) for each in excluded] == [(profiled[0], "invalid: noisy-host")]


def test_cold_excludes_the_partner_but_not_the_profile_trial(
    make_pass: Callable[[Pairs], pd.DataFrame], make_manifest: Callable[..., Manifest]
) -> None:
    trials = make_pass({"a": [(90, 100), (50, 100), (80, 100)]}).assign(requests=10**6)
    kinds = trials.set_index("trial_id")["kind"]
    cold = [
        str(next(trial for trial in kinds.index[kinds == kind] if f".b{block}." in trial))
        for kind, block in (("profile", 1), ("control", 2))
    ]
    reasons = [{"trial_id": each, "check": "cold", "severity": "invalid", "metrics": ["rps"]} for each in cold]
    excluded = profile_pass_exclusions(trials, pd.DataFrame(reasons), make_manifest([{"only": "a"}]))
    assert [each.trial_id for each in excluded] == cold[1:]
    over_all, _ = profiler_costs(trials, "rps", excluded)
    assert over_all.pairs == 2
    assert over_all.ratio == pytest.approx(math.sqrt(0.9 * 0.8))


def test_a_run_without_a_pass_has_no_costs(make_trials: MakeTrials) -> None:
    assert profiler_costs(make_trials({"a": [1, 2, 3], "a~control": [1, 2, 3]})) == ()


def test_profile_pass_is_not_sampled(make_pass: Callable[[Pairs], pd.DataFrame]) -> None:
    trials = make_pass({"a": [(1, 2), (3, 4)]})
    assert in_profile_pass(trials).sum() == 4
    samples = take_samples(trials, "rps")
    assert samples.blocks == (1, 2)
    assert set(np.exp(samples.logs).round(6).ravel()) == {100.0}
