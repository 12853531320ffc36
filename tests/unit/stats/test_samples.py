from __future__ import annotations

import numpy as np
import pytest

from benchkit.errors import InputError
from benchkit.stats.samples import Exclusion, describe_reasons, numeric_columns, take_samples
from tests.support.comparison.fixtures import trials_of


def test_a_trial_is_the_logarithm_of_its_figure() -> None:
    samples = take_samples(trials_of({"b": [np.e, 1], "a": [1, np.e**2]}), "rps")
    assert samples.cells == ("a", "b")
    assert samples.blocks == (1, 2)
    assert samples.logs == pytest.approx(np.array([[0, 2], [1, 0]]))
    assert samples.excluded == {}


def test_exclusion_covers_only_its_metrics() -> None:
    trials = trials_of({"a": [10, 20]}, latency_p99_s=0.5, server_cpu_s_per_request=0.1)
    excluded = Exclusion("r1.a.b1", "the generator was saturated", frozenset({"rps", "latency_p99_s"}))
    for metric in ("rps", "latency_p99_s"):
        samples = take_samples(trials, metric, [excluded])
        assert np.isnan(samples.logs[0, 0])
        assert not np.isnan(samples.logs[0, 1])
        (out,) = samples.excluded["a"]
        assert (out.trial_id, out.block, out.reason) == ("r1.a.b1", 1, "the generator was saturated")
    assert not np.isnan(take_samples(trials, "server_cpu_s_per_request", [excluded]).logs).any()
    everywhere = Exclusion("r1.a.b1", "split by a pause")
    assert np.isnan(take_samples(trials, "server_cpu_s_per_request", [everywhere]).logs[0, 0])


def test_values_without_a_logarithm_are_excluded() -> None:
    samples = take_samples(trials_of({"a": [10, 0, np.nan, -1]}), "rps")
    assert np.isnan(samples.logs[0, 1:]).all()
    assert [out.reason for out in samples.excluded["a"]] == [
        "rps is 0, which has no ratio",
        "the tool reports no rps",
        "rps is -1, which has no ratio",
    ]
    assert describe_reasons(samples.excluded["a"]).count(";") == 2
    assert describe_reasons(samples.excluded["a"][:1] * 3) == "rps is 0, which has no ratio (3 trials)"


def test_profiled_trials_are_no_samples() -> None:
    trials = trials_of({"a": [10, 20]})
    trials.loc[0, "kind"] = "profile"
    assert take_samples(trials, "rps").blocks == (2,)
    trials.loc[0, "kind"] = "control"  # what a profiled trial stands beside, under the cell's own name
    assert take_samples(trials, "rps").blocks == (2,)
    trials["cell_id"] = "a~control"
    assert take_samples(trials, "rps").blocks == (1, 2)


def test_only_numbers_are_metrics() -> None:
    trials = trials_of({"a": [1, 2]}, latency_corrected=True).assign(factor_connections=64.0, mine=[1.5, 2.5])
    names = numeric_columns(trials)
    assert {"rps", "latency_p99_s", "server_cpu_s_per_request", "mine"} <= set(names)
    assert not {"cell_id", "block", "position", "latency_corrected", "factor_connections", "started_at"} & set(names)
    assert np.exp(take_samples(trials, "mine").logs) == pytest.approx(np.array([[1.5, 2.5]]))
    with pytest.raises(InputError, match=r"no metric 'rsp': did you mean 'rps'"):
        take_samples(trials, "rsp")
