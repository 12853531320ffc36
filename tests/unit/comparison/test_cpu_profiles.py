from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest

from benchkit.comparison.cpu_profiles import (
    cost_sentence,
    profiler_cost,
    sample_count,
    service_profiles,
    share_interval,
)
from benchkit.comparison.ratios import Ratio
from benchkit.comparison.runs.run_data import RunData, profile_pass_exclusions
from benchkit.models.profile import CATEGORIES
from benchkit.models.run import Manifest
from benchkit.stats.samples import Exclusion
from benchkit.store.parquet_files import empty_frame
from tests.support.comparison.fixtures import manifest_of, trials_of


@pytest.fixture
def trials() -> pd.DataFrame:
    """Return two cells in three measured blocks, and a block of slower profile trials."""
    measured = trials_of(
        {"server=a": [10, 30, 20], "server=b": [5, 5, 6]}, duration_s=2.0, server_cpu_s_per_request=1e-5
    )
    parts = [measured]
    for kind in ("profile", "control"):
        rows = trials_of({"server=a": [1, 1], "server=b": [1, 1]}, kind=kind, duration_s=2.0)
        parts.append(rows.assign(block=rows["block"] + 3, trial_id=rows["trial_id"] + f".{kind}"))
    return pd.concat(parts, ignore_index=True)


@pytest.fixture
def manifest() -> Manifest:
    return manifest_of([{"server": "a"}, {"server": "b"}])


def run_of(manifest: Manifest, trials: pd.DataFrame, *excluded: Exclusion, **tables: pd.DataFrame) -> RunData:
    """Return a run with these tables; its others are empty."""
    return RunData(manifest, trials, excluded, table=lambda name: tables[name] if name in tables else empty_frame(name))


def shares_of(trial_id: str, service: str, **shares: float) -> list[dict[str, object]]:
    named = {name.replace("_", "/"): share for name, share in shares.items()}
    named["other"] = 1 - sum(named.values())
    rows = {name: named.get(name, 0.0) for name in CATEGORIES}
    return [{"trial_id": trial_id, "service": service, "category": name, "share": each} for name, each in rows.items()]


def functions_of(trial_id: str, service: str, **shares: float) -> list[dict[str, object]]:
    return [
        {"trial_id": trial_id, "service": service, "function": f"runtime.{name}", "flat_s": 0.01, "cum_share": share}
        for name, share in shares.items()
    ]


def test_shares_are_means_over_profiles(trials: pd.DataFrame, manifest: Manifest) -> None:
    one, other = "r1.server=a.b1.profile", "r1.server=a.b2.profile"
    shares = pd.DataFrame(
        [
            *shares_of(one, "app", scheduler=0.1, netpoll=0.2, read_write=0.5),
            *shares_of(other, "app", scheduler=0.2, netpoll=0.2, read_write=0.6),
        ]
    )
    functions = pd.DataFrame(
        [
            *functions_of(one, "app", mcall=0.3, schedule=0.3, findrunnable=0.25, netpoll=0.2, epollwait=0.19),
            *functions_of(other, "app", mcall=0.4, schedule=0.4, findRunnable=0.35),
        ]
    )
    (found,) = service_profiles(run_of(manifest, trials, profile_share=shares, profile=functions))
    assert (found.cell_id, found.service, found.profiles) == ("server=a", "app", 2)
    assert found.waiting == pytest.approx(0.35)
    assert found.range == pytest.approx((0.3, 0.4))
    assert list(found.categories) == list(CATEGORIES)
    assert sum(found.categories.values()) == pytest.approx(1)
    assert found.categories["read/write"] == pytest.approx(0.55)
    assert found.cumulative == pytest.approx(
        {"mcall": 0.35, "schedule": 0.35, "findrunnable": 0.3, "netpoll": 0.1, "epollwait": 0.095}
    )


Pairs = Mapping[str, Sequence[tuple[float, float]]]
"""Pairs of each cell: the rate with profiler, and the rate without."""


def make_pass(pairs: Pairs) -> pd.DataFrame:
    """Return a run of two measured blocks, and a profile pass of these pairs after them."""
    parts = [trials_of({cell: [100.0, 100.0] for cell in pairs} | {"a~control": [100.0, 100.0]})]
    for place, kind in enumerate(("profile", "control")):
        rows = trials_of({cell: [pair[place] for pair in each] for cell, each in pairs.items()}, kind=kind)
        parts.append(rows.assign(block=rows["block"] + 2, trial_id=rows["trial_id"] + f".{kind}"))
    return pd.concat(parts, ignore_index=True)


def cost_of(trials: pd.DataFrame, **options: Any) -> Ratio:  # noqa: ANN401 - arguments of profiler_cost
    found = profiler_cost(trials, **options)
    assert found is not None
    return found


def test_the_cost_is_the_mean_log_ratio_of_pairs_with_students_interval() -> None:
    trials = make_pass({"a": [(90, 100), (99, 100)], "b": [(50, 50), (48, 50)]})
    cost, logs = cost_of(trials), np.log([0.9, 0.99, 1.0, 0.96])
    assert cost.blocks == 4
    assert cost.ratio == pytest.approx(math.exp(logs.mean()))
    assert cost.low == pytest.approx(math.exp(logs.mean() - 3.182446 * logs.std(ddof=1) / 2))  # t of three degrees
    lost = trials[(trials["cell_id"] == "a") & (trials["block"] == 4) & (trials["kind"] == "profile")]
    excluded = [Exclusion(str(lost["trial_id"].item()), "the host was noisy", frozenset({"rps"}))]
    assert cost_of(trials, exclusions=excluded).blocks == cost_of(trials.drop(lost.index)).blocks == 3
    alone = cost_of(make_pass({"a": [(90, 100)]}))
    assert alone.ratio == pytest.approx(0.9)
    assert "without an interval: one needs 3 pairs" in cost_sentence(alone)


def test_reason_is_stated_without_a_usable_pair() -> None:
    trials = make_pass({"a": [(90, 100)]})
    excluded = [Exclusion(trial_id, "invalid: noisy-host") for trial_id in trials["trial_id"]]
    cost = cost_of(trials, exclusions=excluded)
    assert (cost.blocks, cost.ratio) == (0, None)
    assert cost_sentence(cost).endswith(" is unknown: no pair has usable trials (invalid: noisy-host (2 trials)).")


def test_cold_excludes_the_partner_but_not_the_profile_trial() -> None:
    trials = make_pass({"a": [(90, 100), (50, 100), (80, 100)]}).assign(requests=10**6)
    kinds = trials.set_index("trial_id")["kind"]
    cold = [
        str(next(trial for trial in kinds.index[kinds == kind] if f".b{block}." in trial))
        for kind, block in (("profile", 1), ("control", 2))
    ]
    reasons = [{"trial_id": each, "check": "cold", "severity": "invalid", "metrics": ["rps"]} for each in cold]
    excluded = profile_pass_exclusions(trials, pd.DataFrame(reasons), manifest_of([{"only": "a"}]))
    assert [each.trial_id for each in excluded] == cold[1:]
    cost = cost_of(trials, exclusions=excluded)
    assert cost.blocks == 2
    assert cost.ratio == pytest.approx(math.sqrt(0.9 * 0.8))


def test_traced_trials_have_a_cost_of_their_own() -> None:
    profiled = make_pass({"a": [(100, 90), (100, 90)]})
    traced = profiled.assign(block=profiled["block"] + 2, kind=profiled["kind"].replace("profile", "trace"))
    is_traced = traced["kind"] == "trace"
    traced["rps"] = traced["rps"].where(~is_traced, traced["rps"] / 2)
    both = pd.concat([profiled, traced], ignore_index=True)
    of_profiles, of_traces = cost_of(both), cost_of(both, kind="trace")
    assert (of_profiles.blocks, of_traces.blocks) == (2, 2)
    assert of_profiles.ratio is not None
    assert of_traces.ratio == pytest.approx(of_profiles.ratio / 2)
    assert "traced trials" in cost_sentence(of_traces)


def test_samples_of_profiles_give_the_interval_of_a_share() -> None:
    functions = pd.DataFrame(
        {
            "trial_id": ["one"] * 3 + ["other"] * 2,
            "flat_s": [0.01, 0.48, 0.0, 0.02, 0.5],  # the rarest function of a profile is one sample
        }
    )
    assert sample_count(functions) == 49 + 26
    assert sample_count(functions.assign(flat_s=None)) is None
    low, high = share_interval(0.05, 400)
    assert (low, high) == pytest.approx((0.0326, 0.0759), abs=1e-4)
    assert share_interval(0.0, 100)[0] == pytest.approx(0)
